"""The findings of the four probes: each claim and verdict on tables with known content."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.findings import findings_of
from workbench import WorkbenchError
from workbench.analyses.probes.experiments import (
    AttentionProbe,
    DescriptionLength,
    EdgeProbing,
    StructuralProbe,
)
from workbench.analyses.probes.findings import one_layer
from workbench.core.findings import changes
from workbench.runs.builtin import builtin_run

# --- edge-probing ---------------------------------------------------------------------------------

NOTHING = float("nan")


def edge(
    width: float = 0.02, learnt: bool = True, converged: bool = True, **scores: list[float]
) -> dict[str, pd.DataFrame]:
    """Tables from the scores of layers 0, 1, … by task; `width` is half of an interval.

    Random weights have 0.5, static vectors 0.4, control tasks 0.3, the majority 0.2.
    """
    means, summary, mix, confusion = [], [], [], []
    for task, layers in scores.items():
        best, last = int(np.argmax(layers)), len(layers) - 1
        rows: list[tuple[str, str, int, bool, float]] = [
            ("model", "layer", layer, False, value) for layer, value in enumerate(layers)
        ]
        rows += [
            ("model", "lexical", 0, False, layers[0]), ("model", "layer", best, True, 0.3),
            ("random", "mix", last, False, 0.5), ("random", "top", last, False, 0.45),
            ("static", "lexical", -1, False, 0.4), ("majority", "baseline", -1, False, 0.2),
        ]  # fmt: skip
        means += [
            (task, "majority" if encoder == "majority" else "edge", encoder, mode,
             "encoder" if encoder in ("model", "random") else encoder, layer, 1.0, control,
             "micro_f1", value, value - width, value + width, converged, learnt)
            for encoder, mode, layer, control, value in rows
        ]  # fmt: skip
        summary.append(
            (task, "edge", "encoder", "micro_f1", 1.5, 1.25, best, layers[best],
             layers[best] - width, layers[best] + width, 0.2, layers[0], 0.4, 0.5, NOTHING,
             layers[best] - 0.3, converged, learnt, 0.01, 1, True, 100)
        )  # fmt: skip
        mix += [(task, "edge", "encoder", 0, layer, 1 / len(layers)) for layer in range(last + 1)]
        confusion += [
            (task, "edge", "encoder", "layer", best, gold, predicted, n)
            for gold, predicted, n in (("A", "A", 90), ("A", "B", 7), ("B", "A", 3))
        ]
    return {
        "means": pd.DataFrame(
            means,
            columns="task probe encoder mode stack layer share control metric mean lower upper "
            "converged learnt".split(),
        ),
        "summary": pd.DataFrame(
            summary,
            columns="task probe stack metric centre_of_gravity expected_layer best_layer "
            "best_score lower upper baseline_majority baseline_lexical baseline_static "
            "baseline_random baseline_no_positions selectivity converged learnt data_gain "
            "data_gain_layer enough_data n".split(),
        ),
        "mix": pd.DataFrame(mix, columns="task probe stack seed layer weight".split()),
        "confusion": pd.DataFrame(
            confusion, columns="task probe stack mode layer gold predicted n".split()
        ),
    }


def test_one_task_has_its_best_layer_its_baseline_and_its_last_layer() -> None:
    found = findings_of("edge-probing", edge(pos=[0.8, 0.93, 0.85]))
    first = found["F1 of the best layer: POS"]
    assert first is next(iter(found.values()))
    assert first.claim == (
        "Layer 1 is best for POS: F1 93.0 (95 % 91.0 to 95.0; random weights: 50.0), falling to "
        "85.0 at the last layer."
    )
    assert (first.verdict, first.null) == ("supported", 0.5)
    gain = found["gain over the embeddings: POS"]
    assert gain.claim == "POS gains 13.0 points over the embeddings (80.0); expected layer: 1.2."
    assert "63.0" in found["median selectivity"].claim
    assert "+43.0" in found["median gain over random weights"].claim
    assert "`A` read as `B`: 7 of 10" in found["share of the most frequent error: POS"].claim


def test_another_number_of_errors_is_no_change_without_an_interval() -> None:
    tables = edge(pos=[0.8, 0.93])
    more = tables | {"confusion": tables["confusion"].replace({"n": {7: 12}})}
    runs = {name: findings_of("edge-probing", each) for name, each in (("A", tables), ("B", more))}
    changed = changes({name: [*found.values()] for name, found in runs.items()})
    (errors,) = (each for each in changed if "frequent error" in each.measure)
    assert "70.0 % in A, 80.0 % in B (+10.0)" in errors.claim
    assert errors.verdict == "undecided"


def test_probes_of_random_weights_are_not_said_to_differ_from_them() -> None:
    found = findings_of("edge-probing", edge(pos=[0.5, 0.51]))
    over = found["median gain over random weights"]
    assert over.verdict == "not supported" and "is not shown to differ" in over.claim
    assert "not above their baselines" in found["median selectivity"].claim


def test_a_gain_over_random_weights_is_not_judged_by_other_baselines() -> None:
    tables = edge(pos=[0.5, 0.6], roles=[0.5, 0.51])
    static = tables["means"]["encoder"] == "static"
    tables["means"].loc[static, ["mean", "lower", "upper"]] = [0.7, 0.68, 0.72]
    found = findings_of("edge-probing", tables)
    assert all(
        found[f"F1 of the best layer: {name}"].verdict != "supported" for name in ("POS", "roles")
    )
    over = found["median gain over random weights"]
    assert over.verdict == "supported"
    assert over.claim == (
        "The best layer differs from random weights by +10.0 (POS) points of F1; not shown for "
        "roles (+1.0)."
    )


def test_several_tasks_are_counted_and_those_that_fail_are_named() -> None:
    tables = edge(pos=[0.8, 0.93], entities=[0.5, 0.51], roles=[0.7, 0.71])
    found = list(findings_of("edge-probing", tables).values())
    assert found[0].claim == (
        "The model knows POS and roles: 21.0 to 43.0 points of F1 above the best baseline; not "
        "entities."
    )
    assert (found[0].value, found[0].verdict) == (2, "supported")
    (entities,) = [each for each in found if each.measure.endswith(": entities")]
    assert entities.verdict == "not supported" and "No layer is significantly" in entities.claim
    (rising,) = [each for each in found if each.measure == "tasks that gain over the embeddings"]
    assert rising.claim == (
        "1 of 2 tasks above the baselines gains over the embeddings; expected layer: 1.2."
    )
    found = findings_of("edge-probing", edge(pos=[0.8, 0.93], entities=[0.5, 0.51]))
    assert found["tasks that gain over the embeddings"].claim.startswith(
        "POS, the only task above the"
    )


def test_a_task_that_rises_without_an_expected_layer_is_named() -> None:
    tables = edge(pos=[0.8, 0.93], roles=[0.7, 0.8], relations=[0.6, 0.8])
    tables["summary"].loc[2, "expected_layer"] = -1.3  # the curve falls: below the layers
    found = findings_of("edge-probing", tables)["tasks that gain over the embeddings"]
    assert found.claim.endswith("expected layers: POS 1.2 and roles 1.2 (none for relations).")


def test_random_weights_know_no_task() -> None:
    found = findings_of("edge-probing", edge(pos=[0.5, 0.49], roles=[0.48, 0.51]))
    assert not [each for each in found.values() if each.verdict == "supported" and each.null == 0]
    assert found["tasks above every baseline"].claim.startswith("Neither of the 2 tasks is")
    assert "tasks that gain over the embeddings" not in found


def test_a_probe_under_its_control_task_is_no_support() -> None:
    tables = edge(pos=[0.8, 0.9], learnt=False)
    assert findings_of("edge-probing", tables)["F1 of the best layer: POS"].verdict != "supported"


def test_few_targets_are_undecided() -> None:
    wide = findings_of("edge-probing", edge(pos=[0.5, 0.6], width=0.2))["F1 of the best layer: POS"]
    assert (wide.verdict, wide.decided_by) == ("undecided", "more test sentences")


def test_a_probe_that_was_cut_off_is_undecided_and_counted() -> None:
    found = findings_of("edge-probing", edge(pos=[0.5, 0.51], converged=False))
    assert found["F1 of the best layer: POS"].decided_by.startswith("more epochs")
    data = found["largest gain from the second half of the targets"]
    assert data.verdict == "not supported" and "both probes did not converge" in data.claim


def test_too_few_training_targets_are_said_with_the_gain_of_more() -> None:
    tables = edge(pos=[0.8, 0.93])
    tables["summary"] = tables["summary"].assign(data_gain=0.08, enough_data=False)
    data = findings_of("edge-probing", tables)["largest gain from the second half of the targets"]
    assert (data.verdict, data.value) == ("not supported", 0.08) and "8.0 points" in data.claim
    assert data.claim.startswith("The curve of POS still rises with more data: read it as a lower")


@pytest.mark.parametrize(("best", "said"), [(0.93, "F1 at least 93.0"), (1.0, "F1 100.0")])
def test_a_score_that_more_data_raises_is_a_bound_unless_it_is_the_highest(
    best: float, said: str
) -> None:
    tables = edge(pos=[0.8, best])
    tables["summary"] = tables["summary"].assign(data_gain=0.08, enough_data=False)
    assert said in findings_of("edge-probing", tables)["F1 of the best layer: POS"].claim


def test_without_a_check_nothing_is_said_of_the_data() -> None:
    tables = edge(pos=[0.8, 0.93])
    tables["summary"] = tables["summary"].assign(data_gain=NOTHING, enough_data=None)
    found = findings_of("edge-probing", tables)
    assert "largest gain from the second half of the targets" not in found


def test_mixes_alone_are_not_called_layers() -> None:
    tables = edge(pos=[0.8, 0.93])
    means = tables["means"]
    means["mode"] = means["mode"].replace({"layer": "cumulative"})
    tables["summary"]["expected_layer"] = NOTHING
    found = findings_of("edge-probing", tables)
    assert found["F1 of the best layer: POS"].claim.startswith("From the mix up to layer 1, POS is")
    gain = found["gain over the embeddings: POS"]
    assert gain.claim == "POS gains 13.0 points over the embeddings (80.0)."


def test_eight_tasks_have_seven_findings() -> None:
    tables = edge(**{f"task{number}": [0.8, 0.9] for number in range(8)})
    assert len(findings_of("edge-probing", tables)) == 7


# --- description-length ---------------------------------------------------------------------------


def codes(
    *layers: float, control: float = 1.2, spread: float = 0.1, code: str = "online"
) -> dict[str, pd.DataFrame]:
    """Tables from the compression at layers 0, 1, …; random weights have 1.3."""
    best = int(np.argmax(layers))
    key = ("pos", "mlp", code)
    summary: tuple[Any, ...] = (
        *key, "encoder", best, layers[best], layers[best] - spread, layers[best] + spread, 1.3,
        layers[0], 1.1, NOTHING, 1.05, control, layers[best] >= control, 300,
    )  # fmt: skip
    rows = [
        (*key, "model", "encoder", layer, False, 0, 1000 / value, 1000.0, value, True)
        for layer, value in enumerate(layers)
    ]
    blocks = [
        ("pos", "mlp", "model", "encoder", best, False, 0, portion, 10, bits)
        for portion, bits in ((0.1, 37.0), (0.5, 20.0), (1.0, 5.0))
    ]
    return {
        "summary": pd.DataFrame(
            [summary],
            columns="task probe code stack best_layer compression lower upper baseline_random "
            "baseline_lexical baseline_static baseline_no_positions baseline_frequency "
            "control_compression learnt n".split(),
        ),
        "codes": pd.DataFrame(
            rows,
            columns="task probe code encoder stack layer control seed bits uniform_bits "
            "compression converged".split(),
        ),
        "portions": pd.DataFrame(
            blocks,
            columns="task probe encoder stack layer control seed portion targets bits".split(),
        ),
    }


def test_the_shortest_code_is_named_with_its_layer_and_its_baseline() -> None:
    found = findings_of("description-length", codes(2.0, 4.0, 2.5))
    first = found["compression of the best layer: POS, online code"]
    assert first.claim == (
        "Layer 1 gives the shortest online code of POS: 25 % of the uniform code (compression "
        "4.00, 95 % 3.90 to 4.10; random weights: 1.30); last layer: 2.50."
    )
    assert (first.verdict, first.null) == ("supported", 1.3)
    assert "2.00 times shorter" in found["compression over that of the embeddings: POS"].claim
    saved = found["share saved beyond the control task: POS"]
    assert "75 %" in saved.claim and "17 %" in saved.claim
    assert "0.50 bits" in found["bits per label in the last block: POS"].claim


def test_codes_of_random_weights_are_not_supported() -> None:
    found = findings_of("description-length", codes(1.28, 1.25))
    assert found["compression of the best layer: POS, online code"].verdict == "not supported"
    assert found["share saved beyond the control task: POS"].verdict == "not supported"
    assert "compression over that of the embeddings: POS" not in found


def test_a_code_with_a_wide_interval_is_undecided() -> None:
    found = findings_of("description-length", codes(1.2, 1.5, spread=0.4))
    assert found["compression of the best layer: POS, online code"].verdict == "undecided"


def test_a_variational_code_longer_than_the_label_frequencies_needs_more_steps() -> None:
    found = findings_of("description-length", codes(0.7, 0.8, code="variational"))
    first = found["compression of the best layer: POS, variational code"]
    assert first.verdict == "undecided" and "variational_steps" in first.decided_by


# --- structural-probe -----------------------------------------------------------------------------


def trees(
    *layers: float, p: float = 0.002, spread: float = 0.04, random: float = 0.5, half: float = 0.0,
    on_dev: int | None = None,
) -> dict[str, pd.DataFrame]:  # fmt: skip
    """Tables from the UUAS of layers 0, 1, …; a chain has 0.49, and dev prefers one layer."""
    best = int(np.argmax(layers)) if on_dev is None else on_dev
    steps = [NOTHING, *np.diff(layers)]
    rows: list[tuple[Any, ...]] = [
        ("model", "encoder", layer, value, step, step - 0.02, step + 0.02, p if layer else NOTHING,
         value > 0.5, half)
        for layer, (value, step) in enumerate(zip(layers, steps, strict=True))
    ]  # fmt: skip
    others = ("random", "encoder", 0, random), ("static", "static", -1, 0.37)
    rows += [
        (*each, *[NOTHING] * 4, False, NOTHING) for each in (*others, ("chain", "chain", -1, 0.49))
    ]
    means = pd.DataFrame(
        rows,
        columns="encoder stack layer value delta delta_lower delta_upper p_value learnt "
        "half_loss".split(),
    ).assign(task="distance", metric="uuas", converged=True, n=66)
    means = means.assign(lower=means["value"] - spread, upper=means["value"] + spread)
    value = layers[best]
    summary = pd.DataFrame(
        [("distance", "uuas", "encoder", best, value, value - spread, value + spread, 0.49, random,
          layers[0], 0.37)],
        columns="task metric stack best_layer best_score lower upper baseline_chain "
        "baseline_random baseline_lexical baseline_static".split(),
    )  # fmt: skip
    shown = pd.DataFrame(
        {"stack": "encoder", "layer": best, "sentence": 0, "index": range(4),
         "head": [1, -1, 1, 1], "neighbour": [-1, 0, 1, 2],
         "punctuation": [False, False, False, True]}
    )  # fmt: skip
    return {"means": means, "summary": summary, "trees": shown}


def test_trees_are_found_at_the_best_layer_and_beside_the_best_baseline() -> None:
    found = findings_of("structural-probe", trees(0.4, 0.8, 0.6))
    first = found["UUAS at the best layer"]
    assert first.claim == (
        "Distances at layer 1 recover 80.0 % of the gold edges (UUAS, 95 % 76.0 to 84.0; random "
        "weights: 50.0 %), falling to 60.0 % at the last layer."
    )
    assert (first.verdict, first.null) == ("supported", 0.5)
    gain = found["largest gain in UUAS over the layer below"]
    assert "+40.0 points over the embeddings" in gain.claim and gain.verdict == "supported"
    assert "both gold edges" in found["gold edges predicted in the sentences shown"].claim
    assert found["largest loss with half of the sentences"].verdict == "supported"


def test_a_layer_that_is_best_on_dev_only_is_said_to_be_so() -> None:
    claim = findings_of("structural-probe", trees(0.4, 0.8, 0.81, on_dev=1))
    assert claim["UUAS at the best layer"].claim.startswith(
        "Distances at layer 1, the best on dev, recover 80.0 % of the gold edges"
    )


def test_trees_that_more_sentences_would_raise_are_lower_bounds() -> None:
    found = findings_of("structural-probe", trees(0.4, 0.8, 0.6, half=0.05))
    claim = found["UUAS at the best layer"].claim
    assert "recover at least 80.0 %" in claim and "falling" not in claim
    data = found["largest loss with half of the sentences"].claim
    assert data.startswith("The only curve still rises with more data: read it as a lower bound")
    assert "−5.0 points" in data
    every = findings_of("structural-probe", trees(0.4, 1.0, half=0.05))
    assert "recover 100.0 % of" in every["UUAS at the best layer"].claim  # no more is possible


def test_random_weights_have_no_trees() -> None:
    found = findings_of("structural-probe", trees(0.3, 0.5, random=0.5))
    assert found["UUAS at the best layer"].verdict == "not supported"
    gain = found["largest gain in UUAS over the layer below"]
    assert gain.verdict == "not supported" and "no better than the baselines" in gain.claim


def test_the_gain_of_one_of_many_layers_is_corrected() -> None:
    found = findings_of("structural-probe", trees(0.7, 0.72, 0.74, 0.75, p=0.02))
    gain = found["largest gain in UUAS over the layer below"]
    assert gain.verdict == "not supported" and gain.claim.startswith("No layer adds significantly")
    assert "p = 0.06, corrected for 3 layers" in gain.claim


def test_few_sentences_leave_the_trees_undecided() -> None:
    found = findings_of("structural-probe", trees(0.4, 0.6, spread=0.2))
    assert found["UUAS at the best layer"].verdict == "undecided"


# --- attention-probe ------------------------------------------------------------------------------


def attached(
    uas: float, layer: float = 0.5, control: float = 0.3, spread: float = 0.04
) -> dict[str, pd.DataFrame]:
    """Tables of a probe of all heads, and of layer 2; the best offset has 0.4."""
    learnt = uas > max(0.4, control)
    rows = [
        ("attention", "model", "encoder", -1, False, uas), ("attention", "model", "encoder", -1,
         True, control), ("attention", "model", "encoder", 2, False, layer),
        ("attention", "random", "encoder", -1, False, 0.25), ("words", "static", "static", -1,
         False, 0.35),
    ]  # fmt: skip
    means = pd.DataFrame(rows, columns="probe encoder stack layer control value".split()).assign(
        baseline=0.4, learnt=learnt, converged=True
    )
    means = means.assign(lower=means["value"] - spread, upper=means["value"] + spread)
    columns = (
        "stack probe uas lower upper best_layer best_layer_uas baseline_offset best_offset "
        "baseline_random control selectivity n uas_half"
    )
    own = (uas - spread, uas + spread, 2, layer, 0.4, 1, 0.25, control, uas - control, 360)
    relations = [("det", 0.9, 70, 0.69), ("obl", 0.4, 28, 0.29), ("cop", 1.0, 8, 0.9)]
    return {
        "means": means,
        "summary": pd.DataFrame(
            [("encoder", "attention", uas, *own, uas - 0.005)], columns=columns.split()
        ),
        "by_relation": pd.DataFrame(relations, columns="relation uas n baseline".split()).assign(
            stack="encoder", probe="attention", offset=1
        ),
        "weights": pd.DataFrame(
            [("encoder", 0, 0, 0.5, 0.1), ("encoder", 1, 3, 0.2, 2.5)],
            columns="stack layer head weight_to_head weight_from_head".split(),
        ),
    }


def test_attention_that_finds_heads_is_compared_with_the_best_offset() -> None:
    found = findings_of("attention-probe", attached(0.67))
    first = found["UAS from the attention of all heads"]
    assert first.claim == (
        "The attention of all heads attaches 67.0 % of words to their gold head (95 % 63.0 to "
        "71.0; best fixed offset: 40.0 %)."
    )
    assert (first.verdict, first.null) == ("supported", 0.4)
    assert "67.0 % against 50.0 % at layer 3" in (
        found["gain of all heads over those of the best layer"].claim
    )
    relation = found["UAS of the relation found most often"]
    assert "Of 2 relations" in relation.claim and "`det` (90 %" in relation.claim
    assert "head 2.4, to its attention from a governor" in found["largest weight of a head"].claim
    assert found["UAS with half of the sentences"].verdict == "supported"
    assert "37.0 points" in found["selectivity of the attention probe"].claim


def test_attention_of_random_weights_is_not_supported() -> None:
    found = findings_of("attention-probe", attached(0.27, layer=0.1))
    assert {each.verdict for each in found.values() if each.null is not None} == {"not supported"}


def test_attention_on_few_words_is_undecided() -> None:
    found = findings_of("attention-probe", attached(0.5, layer=0.48, spread=0.2))
    assert found["UAS from the attention of all heads"].verdict == "undecided"


# --- missing numbers, and the method in prose -----------------------------------------------------


@pytest.mark.parametrize(
    ("experiment", "tables", "column"),
    [
        ("edge-probing", edge(pos=[0.8, 0.93]), "best_score"),
        ("description-length", codes(2.0, 4.0), "compression"),
        ("structural-probe", trees(0.4, 0.8), "upper"),
        ("attention-probe", attached(0.67), "uas"),
    ],
)
def test_a_missing_number_is_an_error(
    experiment: str, tables: dict[str, pd.DataFrame], column: str
) -> None:
    tables = {**tables, "summary": tables["summary"].assign(**{column: NOTHING})}
    with pytest.raises(WorkbenchError, match="missing"):
        findings_of(experiment, tables)


def test_the_method_has_the_numbers_of_the_settings() -> None:
    edge_probes = EdgeProbing(max_targets=700, seeds=(0, 1), random_baseline=False).in_prose()
    assert "up to 700 targets" in edge_probes and "2 seeds" in edge_probes
    assert "random weights" not in edge_probes
    assert "ridge" in EdgeProbing(preview=True).in_prose()
    lengths = DescriptionLength(codes=("online",), hidden_size=32).in_prose()
    assert "hidden layer of 32" in lengths and "variational" not in lengths
    assert "rank 16" in StructuralProbe(probe_rank=16).in_prose()
    assert "4 seeds" in AttentionProbe(seeds=(0, 1, 2, 3)).in_prose()


def test_one_layer_is_compared_with_its_neighbours() -> None:
    """By the numbers of the built-in result, read from its tables in another way."""
    tables = builtin_run("edge-probing-mini-bert").tables
    knows, below, above = one_layer(tables, 3)
    summary, means = tables["summary"], tables["means"]
    single = means[(means["mode"] == "layer") & ~means["control"] & (means["encoder"] == "model")]
    assert knows.claim.startswith("Layer 3 knows POS")
    for task in ("coreference", "relations"):
        assert task in knows.claim.partition("; not ")[2]
    row = single[(single["task"] == "pos") & (single["layer"] == 3)].iloc[0]
    assert row["p_value"] < 0.05 / len(summary) and row["delta"] < 0
    assert f"worse on POS (−{-100 * row['delta']:.1f})" in below.claim
    assert "Compared with layer 4" in above.claim and above.verdict == "supported"
    assert len(list(one_layer(tables, 4))) == 2  # nothing is above the last layer
    assert not list(one_layer(tables, 9))
