"""No role is found in random maps, random weights or uniform attention."""

from collections.abc import Callable

import pytest

from tests.analyses.heads.conftest import doc_of, random_docs
from tests.analyses.heads.prescribed import Prescribed
from tests.night import mostly
from tests.tiny import tiny_bert
from workbench import Result, WorkbenchError, read
from workbench.models.huggingface import HuggingFace

RunHeads = Callable[..., Result]
SEEDS = 20


def _roles(result: Result) -> set[str]:
    heads = result.tables["heads"]
    return {role for roles in heads["roles"] for role in roles.split(", ")} & {"syntactic", "rare"}


@pytest.mark.parametrize("seeds", mostly((SEEDS // 4, SEEDS), SEEDS // 4))
def test_random_maps_follow_no_trees(run_heads: RunHeads, seeds: int) -> None:
    """The corrected rate of one in a hundred leaves room for one in twenty."""
    found = [
        _roles(run_heads(Prescribed(seed=seed), random_docs(seed, 60), min_count=10))
        for seed in range(seeds)
    ]
    assert sum(map(bool, found)) <= seeds // SEEDS


@pytest.mark.slow  # by day `test_random_maps_follow_no_trees`
def test_p_values_of_random_maps_are_uniform(run_heads: RunHeads) -> None:
    """The lowest of all heads and relations is below 1 in 10 about every tenth time."""
    lowest = [
        run_heads(Prescribed(seed=seed), random_docs(seed, 40), min_count=5)
        .tables["relations"]["p_value"]
        .min()
        for seed in range(SEEDS)
    ]
    assert sum(low <= 0.1 for low in lowest) <= 0.3 * SEEDS
    assert sum(low > 0.5 for low in lowest) >= 0.2 * SEEDS


@pytest.mark.parametrize("seeds", mostly((3, SEEDS), 3))
def test_random_weights_follow_no_trees(run_heads: RunHeads, seeds: int) -> None:
    docs = list(read("primer").docs("dev", 60))
    words = [token.text for doc in docs for token in doc]
    roles = []
    for seed in range(seeds):
        net, tokenizer = tiny_bert(words, seed=seed)
        roles.append(
            _roles(
                run_heads(
                    HuggingFace(net, tokenizer, "random"), docs, min_count=10, n_frequent_words=50
                )
            )
        )
    assert sum("syntactic" in each for each in roles) <= 1, roles


def test_even_attention_follows_nothing(run_heads: RunHeads) -> None:
    heads = run_heads(Prescribed(even=True), random_docs(0, 60), min_count=10).tables["heads"]
    assert (heads["role"] == "").all()


def test_a_sink_at_the_first_word_is_not_taken_for_syntax(run_heads: RunHeads) -> None:
    """Subjects that begin their sentence, in front of heads at various distances: whoever looks at
    the first word hits them all, and no fixed offset does."""
    docs = []
    for place in range(60):
        size = 3 + place % 4
        words = ["a" * (3 * n + 3) for n in range(size)]
        heads = [size - 1, *[size - 1] * (size - 1)]
        docs.append(doc_of(words, heads, ["nsubj", *["dep"] * (size - 2), "ROOT"]))
    relations = run_heads(Sink(), docs, min_count=10).tables["relations"]
    row = relations.query("relation == 'nsubj' and direction == 'head-to-dependent'").iloc[0]
    assert row["accuracy"] == 1 and row["baseline_accuracy"] < 0.5
    assert row["baseline_first"] == 1 and not row["syntactic"]


class Sink(Prescribed):
    """Every piece looks at the first word."""

    def maps(self, document: int, layer: int, size: int):  # type: ignore[no-untyped-def]
        found = super().maps(document, layer, size) * 0.01
        found[..., 1] += 0.99
        return found


def test_stronger_heads_are_found_among_random_ones(run_heads: RunHeads) -> None:
    """The same test has power: one head that follows its tree, half of the time."""
    docs = random_docs(0, 80)
    result = run_heads(Following(docs), docs, min_count=10)
    heads = result.tables["heads"].set_index(["layer", "head"])["roles"]
    assert "syntactic" in heads.loc[(0, 1)]
    assert sum("syntactic" in roles for roles in heads) == 1


class Following(Prescribed):
    """Head 1 of layer 0 gives each word's governor most, in three of four documents."""

    def __init__(self, docs) -> None:  # type: ignore[no-untyped-def]
        super().__init__(max_pieces=None)
        self.docs = docs

    def maps(self, document: int, layer: int, size: int):  # type: ignore[no-untyped-def]
        found = super().maps(document, layer, size)
        if layer or document % 4 == 0:
            return found
        from tests.analyses.heads.reference import Text

        owners = Text(self, self.docs[document], document).owners
        for piece, owner in enumerate(owners):
            if owner is None:
                continue
            right = [p for p, other in enumerate(owners)
                     if other == self.docs[document][owner].head.i]  # fmt: skip
            found[1, piece] *= 0.05
            found[1, piece, right] += 0.95 / max(1, len(right))
        return found


@pytest.mark.parametrize("shuffles", [10, 99])
def test_too_few_shuffles_are_refused(shuffles: int) -> None:
    from workbench.analyses.heads.experiments import Heads

    with pytest.raises(WorkbenchError, match="n_shuffles"):
        Heads(n_shuffles=shuffles)
