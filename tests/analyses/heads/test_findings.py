"""The findings of heads: each claim and verdict on tables with known content."""

from collections.abc import Mapping
from typing import Any

import pandas as pd
import pytest

from tests.findings import findings_of
from workbench import WorkbenchError
from workbench.analyses.heads.experiments import Heads
from workbench.core.findings import Finding

HEAD = {"stack": "encoder", "kind": "self", "layer": 0}
SHARES = {
    "offset_share": 0.3, "rare_share": 0.2, "first_mass": 0.1, "separator_mass": 0.1,
    "coref_accuracy": 0.5, "induction": 0.05, "induction_n": 17,
}  # fmt: skip
OTHERS = {
    "role": "", "roles": "", "offset": -1, "offset_p_value": 0.2, "rare_null": 0.1,
    "rare_longest": 0.2, "rare_p_value": 0.4, "first_even": 0.1, "separator_even": 0.1,
    "coref_n": 60, "coref_nearest": 0.4, "coref_head_match": 0.5, "coref_p_value": 0.5, "n": 500,
}  # fmt: skip
RELATION = "accuracy of the best head on its relation"


def heads(*rows: Mapping[str, Any], **everywhere: Any) -> pd.DataFrame:
    """A table of one layer of heads without roles, with these changes."""
    table = pd.DataFrame(
        [HEAD | {"head": i} | SHARES | OTHERS | everywhere | row for i, row in enumerate(rows)]
    )
    for name in SHARES:
        if f"{name}_lower" not in table:
            table[f"{name}_lower"] = table[name] - 0.05
            table[f"{name}_upper"] = table[name] + 0.05
    return table


def arcs(head: int, relation: str, accuracy: float, p: float, **others: Any) -> dict[str, Any]:
    return {
        **HEAD, "head": head, "relation": relation, "direction": "dependent-to-head",
        "accuracy": accuracy, "lower": accuracy - 0.1, "upper": accuracy + 0.1, "n": 200,
        "baseline_offset": -2, "baseline_accuracy": 0.5, "baseline_first": 0.1,
        "baseline_longest": 0.2, "difference": accuracy - 0.5, "p_value": 0.005,
        "p_value_baseline": p, "syntactic": p < 0.01 and accuracy >= 0.6,
    } | others  # fmt: skip


def run_of(
    *relations: dict[str, Any], min_count: int = 10, **others: pd.DataFrame
) -> dict[str, pd.DataFrame]:
    """The tables of a run of two heads with these rows of `relations`."""
    table = pd.DataFrame(relations)
    best = table[table["n"] >= min_count].sort_values("accuracy", ascending=False)
    best = best.drop_duplicates(["relation", "direction"])
    best = best.assign(gain=best["accuracy"] - best["baseline_accuracy"])
    return {"heads": heads({}, {}), "relations": table, "best": best} | others


def syntactic(tables: Mapping[str, pd.DataFrame]) -> Finding:
    return list(findings_of("heads", tables).values())[1]  # after the roles


def test_a_syntactic_head_has_its_arcs_its_baseline_and_its_p_value() -> None:
    found = syntactic(run_of(arcs(1, "obj", 0.83, 0.0001), arcs(0, "det", 0.55, 0.9)))
    assert found.claim == (
        "Head 1.2 follows `obj` (dependent to governor) in 83 % of 200 arcs (best baseline, "
        "offset −2: 50 %; p < 0.01); 1 of 2 relations is followed by a head."
    )
    assert (found.verdict, found.null, found.table) == ("supported", 0.5, "best")
    assert found.interval == pytest.approx((0.73, 0.93)) and found.n == "200 arcs"


def test_the_best_baseline_is_named() -> None:
    longest = arcs(0, "obj", 0.9, 0.001, baseline_longest=0.7)
    assert "the longest word: 70 %" in syntactic(run_of(longest)).claim


def test_a_syntactic_head_that_is_not_the_most_accurate_one_is_found_in_all_relations() -> None:
    unreliable = arcs(0, "obj", 0.9, 0.5)
    found = syntactic(run_of(unreliable, arcs(1, "obj", 0.8, 0.001)))
    assert (found.table, found.value) == ("relations", 0.8)


def test_random_weights_follow_no_relation_and_have_no_role() -> None:
    found = findings_of("heads", run_of(arcs(0, "obj", 0.45, 1.0), arcs(1, "det", 0.55, 0.9)))
    assert found[RELATION].claim.startswith("No head is syntactic on any of 2 relations")
    assert "55 % of 200 arcs" in found[RELATION].claim and "p = 0.90" in found[RELATION].claim
    assert found["heads with a role"].claim == (
        "Neither of the 2 heads has a role (measured on 500 words)."
    )
    tested = [each.verdict for each in found.values() if each.null is not None]
    assert len(tested) >= 4 and set(tested) == {"not supported"}


def test_a_relation_with_few_arcs_is_undecided() -> None:
    few = syntactic(run_of(arcs(0, "obj", 1.0, 0.4, n=10)))
    assert (few.verdict, few.measure) == ("undecided", RELATION)
    too_few = syntactic(run_of(arcs(0, "obj", 1.0, 0.4, n=7)))
    assert too_few.verdict == "undecided" and "at most 7, of `obj`" in too_few.claim


def test_a_corpus_without_dependencies_gives_no_finding_on_relations() -> None:
    empty = pd.DataFrame(columns=["relation"])
    found = findings_of("heads", {"heads": heads({}, {}), "relations": empty, "best": empty})
    assert next(iter(found)) == "heads with a role"


def test_roles_are_counted() -> None:
    table = heads({"role": "rare"}, {"role": "positional"}, {"role": "positional"}, {})
    found = findings_of("heads", {"heads": table})["heads with a role"]
    assert found.claim == (
        "Of 4 heads, 2 are positional, 1 is rare-word and 1 has no role (measured on 500 words)."
    )
    assert (found.value, found.verdict) == (3, "supported")


def test_the_strongest_positional_head_is_named_with_its_offset() -> None:
    strong = {"offset_share": 0.95, "offset_p_value": 1e-9, "roles": "positional, diagonal"}
    offsets = [{**HEAD, "head": h, "offset": at, "share": 0.3, "n": 500 - 40 * abs(at)}
               for h in (0, 1) for at in (-1, 0)]  # fmt: skip
    tables = {"heads": heads({}, strong), "offsets": pd.DataFrame(offsets)}
    found = findings_of("heads", tables)["largest share of words that attend to one offset"]
    assert found.claim == (
        "1 of 2 heads is positional: head 1.2 attends most to the word at offset −1 for 95 % of "
        "the words that have one (p < 0.001 against a random word)."
    )
    assert found.n == "460 words"


def test_at_the_level_of_pieces_the_claim_is_about_pieces() -> None:
    pieces = heads({}, {}, rare_share=0.0, rare_share_lower=0.0, rare_share_upper=1.0)
    found = findings_of("heads", {"heads": pieces})
    claim = found["largest share of words that attend to one offset"].claim
    assert claim.endswith(
        "attends most to the piece at offset −1 for 30 % of the pieces that have one."
    )


def test_a_head_that_rests_on_a_separator_is_compared_with_uniform_attention() -> None:
    resting = {"separator_mass": 0.7, "roles": "separator"}
    found = findings_of("heads", {"heads": heads({}, resting)})[
        "largest attention to the separator"
    ]
    assert found.claim == (
        "The separator gets 40 % of attention on average over 2 heads, and 70 % of the attention "
        "of "
        "head 1.2 (uniform attention: 10 %; 500 words)."
    )
    assert (found.verdict, found.null, found.keys["head"]) == ("supported", 0.1, 1)


def test_the_rare_word_role_is_compared_with_shuffled_sentences_and_the_longest_word() -> None:
    measure = "share of words that attend to the rarest word"
    rare = {"rare_share": 0.8, "roles": "rare", "rare_p_value": 0.005}
    found = findings_of("heads", {"heads": heads(rare, {})})[measure]
    assert "80 % of words (the longest word: 20 %; shuffled sentences: 10 %" in found.claim
    assert (found.verdict, found.null) == ("supported", 0.2)
    without = heads({}, {}, rare_share=0.0, rare_share_lower=0.0, rare_share_upper=1.0)
    assert measure not in findings_of("heads", {"heads": without})


def test_coreference_is_undecided_where_the_rule_misses_few_mentions() -> None:
    measure = "accuracy of the best head on coreference"
    few = findings_of("heads", {"heads": heads({}, {}, coref_n=40, coref_head_match=0.9)})
    assert few[measure].verdict == "undecided" and "misses only 4" in few[measure].decided_by
    assert findings_of("heads", {"heads": heads({}, {})})[measure].verdict == "not supported"
    assert measure not in findings_of("heads", {"heads": heads({}, {}, coref_n=0)})


def test_a_causal_model_is_asked_for_induction() -> None:
    measure = "largest attention to the piece after the earlier copy"
    found = findings_of("heads", {"heads": heads({}, {}, kind="causal")})[measure]
    assert found.verdict == "not supported" and "begins at 40 %" in found.claim
    strong = {"induction": 0.7, "roles": "induction"}
    found = findings_of("heads", {"heads": heads({}, strong, kind="causal")})[measure]
    assert found.verdict == "supported" and "70 % of its attention" in found.claim
    assert found.n == "17 texts"


def test_cross_attention_is_described() -> None:
    cross = pd.DataFrame(
        [("decoder", 0, 0, 0.1, 0.9), ("decoder", 1, 0, 0.8, 0.2)],
        columns=["stack", "layer", "head", "order", "special"],
    )
    found = findings_of("heads", {"heads": heads({}), "cross": cross})
    claim = found["correlation of the cross-attention head that follows the order best"].claim
    assert "head 2.1 follows" in claim and "0.80" in claim and "1 gives special" in claim


def test_heads_of_two_models_are_compared() -> None:
    near = {f"nearest_{name}": value for name, value in HEAD.items()}
    kin = {f"kin_{name}": value for name, value in HEAD.items()}
    clusters = pd.DataFrame(
        [HEAD | near | {"head": i, "nearest_head": 1 - i, "cluster": 1, "distance": 0.2}
         for i in range(2)]
    )  # fmt: skip
    pairs = pd.DataFrame(
        [HEAD | kin | {"head": i, "kin_head": 3, "model": "other", "distance": 0.5 + i / 10}
         for i in range(2)]
    )  # fmt: skip
    tables = {"heads": heads({}, {}), "clusters": clusters}
    alone = findings_of("heads", tables)["mean distance of a head to the most similar head"]
    assert "heads 1.1 and 1.2 (0.20), and 2 heads form 1 cluster" in alone.claim
    both = findings_of("heads", tables | {"kin": pairs})
    found = both["mean distance of a head to the most similar head of the other model"]
    assert "in other are 0.55 apart on average (in the same model: 0.20)" in found.claim


def test_heads_of_several_stacks_have_their_stack_in_the_claim() -> None:
    tables = run_of(arcs(1, "obj", 0.83, 0.0001))
    tables["heads"] = pd.concat(
        [tables["heads"], heads({}, stack="decoder", kind="cross")], ignore_index=True
    )
    assert syntactic(tables).claim.startswith("Encoder head 1.2 follows")


def test_a_missing_number_is_an_error() -> None:
    with pytest.raises(WorkbenchError, match="missing"):
        syntactic(run_of(arcs(1, "obj", 0.83, 0.0001, lower=float("nan"))))


def test_the_method_in_prose_has_the_settings() -> None:
    prose = Heads(baseline_margin=0.2, n_shuffles=300, positional_threshold=0.8).in_prose()
    assert "at least 20 points" in prose and "300 shuffled trees" in prose and "80 %" in prose
    assert "dependency" not in Heads(level="pieces").in_prose()


@pytest.mark.parametrize(("last_read", "unit"), [(2, "words"), (4, "pieces")])
def test_a_text_without_annotation_and_rare_words_has_words(last_read: int, unit: str) -> None:
    tables = {
        "heads": heads({"rare_share": float("nan")}, {"rare_share": float("nan")}),
        "words": pd.DataFrame({"sentence": 0, "word": range(3)}),
        "looks": pd.DataFrame({"sentence": 0, "word": range(last_read + 1)}),
    }
    assert f"500 {unit}" in next(iter(findings_of("heads", tables).values())).claim
