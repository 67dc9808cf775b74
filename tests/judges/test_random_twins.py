"""Random weights must not be given findings: the claims of every experiment on random twins.

Each entry of `CLAIMS` runs one experiment on a twin (the same architecture with random weights) and
returns how many claims it tried, how many it made, all of them false, and the level at which it
tests. A family of claims that is corrected as a whole (say: some head is syntactic) is one claim.
Claims are pooled over seeds, models and corpora; more false ones than chance allows at that level,
at 99 %, is a failure. One small twin runs in the normal suite; all of them take minutes.
"""

import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from scipy.stats import binom
from tokenizers import BertWordPieceTokenizer
from transformers import BertConfig, BertForMaskedLM, BertTokenizer

import workbench as wb
from tests.judges import (
    twins_attribution,
    twins_contributions,
    twins_facts,
    twins_geometry,
    twins_heads,
    twins_lens,
    twins_neighbours,
    twins_patching,
    twins_probes,
    twins_prompts,
    twins_pruning,
    twins_steering,
    twins_transfer,
    twins_trees,
    twins_tuned,
)
from tests.judges.twins_families import LATER, family_twin
from workbench import Corpus
from workbench.core.head_names import ROLES
from workbench.models.huggingface import HuggingFace

SEEDS = range(20)
FAMILY_SEEDS = range(3)  # of each of the other families
SURE = 0.99
Tried = tuple[int, int, float]  # claims tried, claims made, level


def binomial_bound(trials: int, level: float, sure: float = SURE) -> int:
    """The most false claims that chance explains: a larger number has a probability under 1 - sure.

    >>> binomial_bound(20, 0.01), binomial_bound(20, 0.05), binomial_bound(0, 0.05)
    (2, 4, 0)
    """
    return int(binom.ppf(sure, trials, level)) if trials else 0


# --- claims ---------------------------------------------------------------------------------------


Claim = Callable[[Any, Corpus, int], Mapping[str, Tried]]


def one(name: str, claim: Callable[[Any, Corpus, int], Tried]) -> Claim:
    """A claim of a single kind, with its name."""
    return lambda twin, corpus, seed: {name: claim(twin, corpus, seed)}


# `attention-averages`, `describe`, `profile`, `similarity` and `train` describe and claim nothing;
# `tokenization` uses no weights;
# `head-importance` claims what its baseline does, `pretraining` what `frozen-vs-finetuned` does;
# `domain` compares trained models, and is tried on equal texts in its own tests;
# `distil` has a random teacher as its own null, and is tried on random teachers there.
CLAIMS: Mapping[str, Claim] = {
    "heads": twins_heads.heads,
    "attribution": twins_attribution.attribution,
    "patching": twins_patching.patching,
    "steering": twins_steering.steering,
    "erasure": twins_steering.erasure,
    **{
        name: one(name, claim)
        for name, claim in (
            *twins_facts.CLAIMS.items(),
            *twins_geometry.CLAIMS.items(),
            *twins_lens.CLAIMS.items(),
            *twins_neighbours.CLAIMS.items(),
            *twins_tuned.CLAIMS.items(),
            *twins_contributions.CLAIMS.items(),
            *twins_prompts.CLAIMS.items(),
            *((f"pruning: {claim.__name__}", claim) for claim in twins_pruning.CLAIMS),
            ("edge-probing", twins_probes.edge_probing),
            ("description-length", twins_probes.description_length),
            ("structural-probe", twins_trees.structural_probe),
            ("attention-probe", twins_trees.attention_probe),
            ("fine-tuning helps", twins_transfer.fine_tuning_helps),
            ("heads that learn", twins_transfer.heads_that_learn),
            ("drift of a copy", twins_transfer.drift_of_a_copy),
        )
    },
}
MINIS = ("mini:bert", "mini:gpt", "mini:t5")


def pooled(
    experiment: str, twins: Iterable[tuple[Any, Corpus, int]]
) -> Mapping[str, tuple[int, int, float]]:
    """Claims tried and made over all twins, by kind of claim."""
    tried: Counter[str] = Counter()
    made: Counter[str] = Counter()
    levels: dict[str, float] = {}
    for twin, corpus, seed in twins:
        for name, (number, false, level) in CLAIMS[experiment](twin, corpus, seed).items():
            tried[name] += number
            made[name] += false
            levels[name] = level
    return {name: (tried[name], made[name], levels[name]) for name in levels}


def too_many(found: Mapping[str, Tried], sure: float = SURE) -> dict[str, str]:
    """Claims that were made more often than chance explains."""
    return {
        name: f"{false} of {tried}, {binomial_bound(tried, level, sure)} are allowed"
        for name, (tried, false, level) in found.items()
        if false > binomial_bound(tried, level, sure)
    }


# --- twins ----------------------------------------------------------------------------------------


@cache
def pieces(words: int = 4000) -> BertTokenizer:
    """A tokenizer of so many pieces that cuts rare words: random weights attend to what is long."""
    trained = BertWordPieceTokenizer(lowercase=True)
    texts = [doc.text for doc in wb.read("primer:size=600").docs("train")]
    trained.train_from_iterator(texts, vocab_size=words, min_frequency=6, show_progress=False)
    return BertTokenizer(vocab=trained.get_vocab(), do_lower_case=True)


def six_by_twelve(seed: int, spread: float = 0.02) -> HuggingFace:
    """A random BERT of 6 layers of 12 heads; `spread` of its weights: how uneven attention is."""
    shape = {"hidden_size": 192, "num_hidden_layers": 6, "num_attention_heads": 12}
    config = BertConfig(
        vocab_size=len(pieces()), intermediate_size=384, initializer_range=spread, **shape
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        net = BertForMaskedLM(config)
    net.eval()
    return HuggingFace(net, pieces(), f"six-by-twelve-{seed}")


def _corpora() -> dict[str, Corpus]:
    found = {"primer": wb.read("primer")}
    ewt = Path(os.environ.get("WORKBENCH_DATA", "")) / "ewt" / "dev.conllu"
    return found | ({"ewt": wb.read(ewt)} if ewt.is_file() else {})


def _twins(architecture: str) -> Iterable[tuple[Any, Corpus, int]]:
    trained = wb.load(architecture, device="cpu") if architecture.startswith("mini:") else None
    for seed in SEEDS:
        spread = 0.1 if architecture.endswith("uneven") else 0.02
        twin = six_by_twelve(seed, spread) if trained is None else trained.reinitialised(seed)
        for corpus in _corpora().values():
            yield twin, corpus, seed


ARCHITECTURES = ("mini:bert", "mini:gpt", "mini:t5", "six-by-twelve", "six-by-twelve-uneven")


@pytest.mark.slow
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_random_heads_are_given_no_more_roles_than_chance(architecture: str) -> None:
    found = pooled("heads", _twins(architecture))
    print(architecture, found)
    assert not too_many(found)


def minis(seeds: Iterable[int]) -> Iterable[tuple[Any, Corpus, int]]:
    """Random twins of the built-in models in turn, on the built-in corpus."""
    for seed in seeds:
        twin = wb.load(MINIS[seed % len(MINIS)], device="cpu").reinitialised(seed)
        yield twin, wb.read("primer"), seed


@pytest.mark.slow
@pytest.mark.parametrize("experiment", [name for name in CLAIMS if name != "heads"])
def test_twenty_random_twins_are_claimed_to_know_no_more_than_chance(experiment: str) -> None:
    found = pooled(experiment, minis(SEEDS))
    print(found)
    assert all(tried for tried, _, _ in found.values())
    assert not too_many(found)


@pytest.mark.slow  # by day `test_of_many_that_do_nothing_hardly_any_is_called_sure`
def test_one_random_twin_is_claimed_to_know_nothing() -> None:
    found = pooled("pruning: ablation", minis([1]))
    assert all(tried for tried, _, _ in found.values())
    assert not too_many(found)


@pytest.mark.parametrize(
    ("experiment", "seeds"),
    [
        pytest.param("steering", [0, 1, 2], marks=pytest.mark.slow),
        pytest.param("erasure", [0, 1], marks=pytest.mark.slow),
    ],
)
def test_at_most_one_in_twenty_random_directions_is_called_effective(
    experiment: str, seeds: list[int]
) -> None:
    ((tried, made, _),) = pooled(experiment, minis(seeds)).values()
    assert tried == 100 * len(seeds) and made <= tried / 20


@pytest.mark.slow
def test_a_random_twin_whose_words_are_of_many_pieces_has_no_roles() -> None:
    """Its maxima lie on the longest words, as those of uniform attention do."""
    found = pooled("heads", [(six_by_twelve(0), wb.read("primer"), 0)])
    assert not too_many(found), found
    assert len(found) == len(ROLES) + 1  # and the findings


# --- the other families that can be trained -------------------------------------------------------


def of_family(
    experiment: str, family: str, seeds: Iterable[int], corpus: Corpus
) -> Mapping[str, Tried]:
    """Claims tried and made over random twins of a family."""
    return pooled(experiment, ((family_twin(family, seed), corpus, seed) for seed in seeds))


@pytest.mark.slow
@pytest.mark.parametrize("experiment", CLAIMS)
def test_random_twins_of_the_other_families_are_claimed_to_know_nothing(experiment: str) -> None:
    """Of all families together, as of the built-in models; and of none in each of its twins."""
    corpus = wb.read("primer")
    found = {family: of_family(experiment, family, FAMILY_SEEDS, corpus) for family in LATER}
    print(experiment, found)
    alone = {family: wrong for family, each in found.items() if (wrong := too_many(each, 0.999))}
    assert not alone
    together = {
        name: (sum(each[name][0] for each in found.values()),
               sum(each[name][1] for each in found.values()), level)
        for name, (_, _, level) in found[LATER[0]].items()
    }  # fmt: skip
    assert all(tried for tried, _, _ in together.values())
    assert not too_many(together)


@cache
def once_read() -> Corpus:
    """As many sentences of the built-in corpus as one twin of each family is tried on."""
    whole = wb.read("primer:size=3000")
    sizes = {**twins_probes.SIZES, "test": twins_heads.SENTENCES}
    splits = {name: list(whole.docs(name, size)) for name, size in sizes.items()}
    return Corpus(
        "once read", {name: (lambda docs=docs: iter(docs)) for name, docs in splits.items()}
    )


@pytest.mark.parametrize(
    ("family", "experiment"),
    [(family, experiment) for family in LATER for experiment in ("heads", "edge-probing")],
)
@pytest.mark.slow  # by day `tests/analyses/heads/test_nulls.py`
def test_one_random_twin_of_each_other_family_is_claimed_to_know_nothing(
    family: str, experiment: str
) -> None:
    found = of_family(experiment, family, [0], once_read())
    assert len(found) == (len(ROLES) + 1 if experiment == "heads" else 1) and all(
        tried for tried, _, _ in found.values()
    )
    assert not too_many(found)


def test_more_false_claims_than_chance_are_too_many() -> None:
    assert binomial_bound(20, 0.01) == 2 and binomial_bound(2000, 0.05) == 123
    assert too_many({"x": (20, 3, 0.01), "y": (20, 2, 0.01)}).keys() == {"x"}
