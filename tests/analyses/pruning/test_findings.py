"""The findings of the pruning experiments: each claim and verdict on tables with known content."""

from collections.abc import Iterable
from typing import Any

import pandas as pd
import pytest

from tests.findings import OBJECTIVE, findings_of
from workbench import WorkbenchError
from workbench.experiment.definition import EXPERIMENTS

NAN = float("nan")
Table = dict[str, pd.DataFrame]


def table(columns: str, *rows: Iterable[Any], **same: Any) -> pd.DataFrame:
    """A table from the names of its columns, its rows, and columns of one value."""
    return pd.DataFrame(rows, columns=columns.split()).assign(**same)


def heads(*values: float) -> list[tuple[int, int, float]]:
    """Layer, head and value of each head; a layer has two heads."""
    return [(*divmod(index, 2), value) for index, value in enumerate(values)]


LOSS = "the loss on masked pieces"
MATTER = f"heads that matter for {LOSS}"
RIGHT = "change of the accuracy on masked pieces without the most needed head"
REMOVED = "heads that the best order can remove for 1 % of loss on masked pieces"


def baseline(learnt: bool = True, texts: int = 100) -> Table:
    """A model with a loss of 2 nats (a baseline of 6), or one that has learnt nothing."""
    rows = [("loss", 2.0, 6.0), ("accuracy", 0.5, 0.1)]
    if not learnt:
        rows = [("loss", 8.0, 6.0), ("accuracy", 0.0, 0.1)]
    frame = table("metric value baseline", *rows)
    difference = frame["value"] - frame["baseline"]
    return {
        "baseline": frame.assign(
            difference=difference, lower=difference - 0.1, upper=difference + 0.1, better=learnt,
            n=texts,
        ),
        "objective": OBJECTIVE,
    }  # fmt: skip


def importances(*values: float) -> Table:
    frame = table("layer head importance", *heads(*values), stack="encoder", kind="self")
    value = frame["importance"]
    ends = {"importance_lower": value * 0.9, "importance_upper": value * 1.1}
    return {"importance": frame.assign(**ends, n=1000)}


# --- head-importance ------------------------------------------------------------------------------


def test_the_most_important_head_and_where_importance_lies() -> None:
    found = findings_of("head-importance", importances(0.1, 0.4, 0.38, 0.02) | baseline())
    first, *others = found.values()
    assert (
        "1.2: 0.400 nats" in first.claim
        and "interval of 1 of 3 other heads overlaps" in first.claim
    )
    assert first.verdict == "undecided", "another head may be in its place"
    assert first.keys["head"] == 1
    alone = findings_of("head-importance", importances(0.1, 0.4, 0.3, 0.02) | baseline())
    assert next(iter(alone.values())).verdict == "supported"
    assert "2 of 4 heads have half" in others[0].claim
    assert "largest in layer 1 (0.250" in others[1].claim and "layer 2 (0.200)" in others[1].claim
    assert "2.2" in others[2].claim and "5 %" in others[2].claim
    assert "2.00 nats against 6.00 (−4.00, 95 % −4.10 to −3.90)" in others[3].claim


def test_no_head_of_a_model_that_has_learnt_nothing_is_important() -> None:
    tables = importances(0.1, 0.4, 0.38, 0.02) | baseline(learnt=False)
    found = findings_of("head-importance", tables).values()
    assert {each.verdict for each in found} == {"not supported"}
    assert all("no better" in each.claim or "does not predict" in each.claim for each in found)


def test_heads_of_several_stacks_are_named_with_their_stack() -> None:
    tables = importances(0.1, 0.4, 0.3, 0.2) | baseline()
    tables["importance"]["stack"] = ["encoder", "encoder", "decoder", "decoder"]
    found = findings_of("head-importance", tables)
    assert "encoder self 1.2" in found[f"importance of the most important head for {LOSS}"].claim


def test_a_missing_importance_is_an_error() -> None:
    with pytest.raises(WorkbenchError, match="missing"):
        findings_of("head-importance", importances(NAN, NAN) | baseline())


# --- head-ablation --------------------------------------------------------------------------------


def ablation(
    *changes: tuple[float, float], learnt: bool = True, texts: int = 100, mode: str = "zero"
) -> Table:
    """Tables from the change of the loss without each head, and its p-value."""
    known = baseline(learnt, texts)
    base = known["baseline"].set_index("metric")["value"]
    parts = []
    for metric, direction in (("loss", 1), ("accuracy", -0.1)):
        rows = [(*divmod(n, 2), direction * d, p) for n, (d, p) in enumerate(changes)]
        part = table("layer head delta p_value", *rows, metric=metric, mode=mode)
        worse = part["delta"] * direction > 0
        parts.append(
            part.assign(base=base[metric], matters=learnt & worse & (part["p_value"] < 0.05))
        )
    frame = pd.concat(parts, ignore_index=True).assign(stack="encoder", kind="self")
    frame["ablated"] = frame["base"] + frame["delta"]
    frame = frame.assign(lower=frame["delta"] - 0.1, upper=frame["delta"] + 0.1)
    frame = frame.assign(decided=True, sentences=texts, n=2 * texts)
    return {
        **known, **importances(*(0.1 + abs(delta) for delta, _ in changes)), "ablation": frame,
        "heads": frame[frame["metric"] == "loss"],
        "agreement": table("mode spearman heads", (mode, 0.7, len(changes))),
    }  # fmt: skip


def test_heads_that_matter_are_counted_and_named_the_largest_first() -> None:
    tables = ablation((0.2, 0.01), (0.6, 0.001), (0.1, 0.3), (-0.3, 0.02))
    found = findings_of("head-ablation", tables)
    assert "2 of 4 heads matter (1.2 and 1.1)" in found[MATTER].claim
    most = found[f"change of {LOSS} without the most needed head"]
    assert "1.2: from 2.00 to 2.60 nats (+0.60, 95 % 0.50 to 0.70; p < 0.01)" in most.claim
    assert "from 50 % to 44 %" in found[RIGHT].claim
    small = findings_of("head-ablation", ablation((0.02, 0.3), (0.01, 0.3)))
    assert "from 50.0 % to 49.8 %" in small[RIGHT].claim
    harmful = found["heads without which the loss is lower"]
    assert harmful.verdict == "supported" and "1 of 4 heads (most without 2.2" in harmful.claim
    assert {each.verdict for each in found.values()} == {"supported"}
    assert "each puts head 1.2" in (
        found["Spearman correlation of importance and exact ablation"].claim
    )


def test_the_most_harmful_head_is_one_whose_change_is_significant() -> None:
    found = findings_of("head-ablation", ablation((0.2, 0.3), (-0.4, 0.06), (-0.3, 0.02)))
    claim = found["heads without which the loss is lower"].claim
    assert "lower without 1 of 3 heads (most without 2.1: −0.30 nats" in claim, claim


def test_a_race_says_what_it_left_open() -> None:
    tables = ablation((0.2, 0.07), (0.6, 0.2), (-0.1, 0.5))
    raced = tables["ablation"].assign(decided=[True, False, True] * 2, sentences=[50, 100, 50] * 2)
    tables |= {"ablation": raced, "rounds": table("mode round sentences heads", ("zero", 1, 50, 3))}
    found = findings_of("head-ablation", tables)
    race = found["heads left undecided by the race"]
    assert "200 passes" in race.claim and "1.5 times fewer" in race.claim and "1.2" in race.claim
    assert race.verdict == "undecided" and race.value == 1
    assert found[MATTER].verdict == "undecided"
    assert found["heads without which the loss is lower"].verdict == "undecided"
    tables["ablation"] = raced.assign(decided=True)
    found = findings_of("head-ablation", tables)
    assert "decided for every head" in found["heads left undecided by the race"].claim
    assert found[MATTER].verdict == "not supported"
    tables["ablation"] = raced.assign(decided=True, sentences=50)
    assert findings_of("head-ablation", tables)[RIGHT].claim.endswith(
        "(p = 0.20), estimated on 50 of 100 sentences; the fall is significant for none of 3 heads."
    )
    tables["ablation"] = raced.assign(decided=True, sentences=100)
    assert "heads left undecided by the race" not in findings_of("head-ablation", tables)


def test_no_head_matters_where_no_change_is_significant() -> None:
    found = findings_of("head-ablation", ablation((0.2, 0.07), (-0.1, 0.5)))
    assert found[MATTER].verdict == "not supported"
    assert "Neither of the 2" in found[MATTER].claim
    assert "smallest p = 0.07" in found[MATTER].claim
    assert found[f"change of {LOSS} without the most needed head"].verdict == "not supported"
    assert (
        "Neither of the 2 heads is harmful" in found["heads without which the loss is lower"].claim
    )


def test_no_head_of_a_random_model_matters_even_if_the_loss_changes() -> None:
    tables = ablation((0.2, 0.001), (-0.4, 0.001), learnt=False)
    found = findings_of("head-ablation", tables)
    claims = [each for each in found.values() if each.null is not None]
    assert {each.verdict for each in claims} == {"not supported"}
    claim = found[MATTER].claim
    assert "Neither of the 2 heads can be said to matter" in claim


def test_few_texts_leave_it_undecided_which_heads_matter() -> None:
    found = findings_of("head-ablation", ablation((0.9, 0.25), (0.1, 1.0), texts=3))
    assert found[MATTER].verdict == "undecided"
    assert found[MATTER].decided_by == "more sentences"


def test_other_replacements_are_counted_too() -> None:
    tables = ablation((0.2, 0.001), (0.1, 0.3))
    other = ablation((0.2, 0.001), (0.1, 0.01), mode="mean")["ablation"]
    tables["ablation"] = pd.concat([tables["ablation"], other])
    found = findings_of("head-ablation", tables)
    assert found[MATTER].claim.endswith("; 2 in mean ablation.")


def test_a_pair_is_redundant_if_it_costs_more_than_both_heads() -> None:
    rows = [(0, 0, 0, 1, 0.5, 0.001), (0, 0, 1, 0, -0.5, 0.001), (0, 1, 1, 0, 0.9, 0.6)]
    pairs = table(
        "layer_a head_a layer_b head_b interaction p_value", *rows, mode="zero",
        stack_a="encoder", stack_b="encoder", kind_a="self", kind_b="self",
    )  # fmt: skip
    pairs = pairs.assign(lower=pairs["interaction"] - 0.1, upper=pairs["interaction"] + 0.1)
    for learnt, verdict in ((True, "supported"), (False, "not supported")):
        tables = ablation((0.2, 0.001), (0.1, 0.3), (0.1, 0.3), learnt=learnt) | {"pairs": pairs}
        found = findings_of("head-ablation", tables)["redundant pairs of heads"]
        assert found.verdict == verdict
        assert found.claim.startswith("In 1 of 3 pairs, removing both heads")
        assert "1.1 and 1.2, +0.50 nats, 95 % 0.40 to 0.60" in found.claim


# --- head-gates -----------------------------------------------------------------------------------


def gates(
    *trials: tuple[float, float, int, float, float, float], learnt: bool = True, done: bool = True
) -> Table:
    """Tables from the cost, budget, heads that stay, change of the loss, the same of random heads
    and p_random of each trial, in a model of 4 heads."""
    known = baseline(learnt)
    frame = table("lambda budget heads delta random p_random", *trials, of=4, converged=done)
    base = known["baseline"]["value"].iloc[0]
    survival = frame.assign(
        metric="loss", base=base, value=base + frame["delta"], lower=frame["delta"] - 0.01,
        upper=frame["delta"] + 0.01, p_value=0.5, better=learnt & (frame["p_random"] < 0.05),
    )  # fmt: skip
    rows = [
        (cost, budget, *divmod(head, 2), head < stay)
        for cost, budget, stay, *_ in trials
        for head in range(4)
    ]
    columns = "lambda budget layer head kept"
    return {
        **known, "survival": survival,
        "gates": table(columns, *rows, stack="encoder", kind="self"),
    }  # fmt: skip


def test_the_smallest_choice_better_than_random_heads_comes_first() -> None:
    trials = (0.1, 0.0, 3, 0.05, 0.5, 0.02), (0.0, 0.5, 2, 0.2, 0.9, 0.03)
    trials = *trials, (0.0, 0.25, 1, 0.8, 1.0, 0.4), (0.3, 0.0, 0, 4.0, 4.0, 1.0)
    first, *others = findings_of("head-gates", gates(*trials)).values()
    assert first.claim.startswith("With a budget of 50 %, 2 of 4 heads stay")
    assert "+0.20 nats (95 % 0.19 to 0.21)" in first.claim and "by +0.90 (p = 0.03)" in first.claim
    assert (first.verdict, first.null) == ("supported", 0.9)
    assert "at 2 of 3 costs and budgets" in others[0].claim
    assert others[1].claim == "Heads 1.1 and 1.2 stay with a budget of 50 %."
    assert "at most 5 % higher has 3 of 4 heads, with a cost of 0.1" in others[2].claim
    assert "0.1 nats per head, 3 of 4" in others[3].claim and "0.3, 0 (+4" in others[3].claim
    assert "all 4 costs and budgets" in others[4].claim


def test_a_choice_no_better_than_random_heads_is_not_supported() -> None:
    found = findings_of("head-gates", gates((0.0, 0.5, 2, 0.2, 0.3, 0.4)))
    assert found[f"change of {LOSS} with the heads that stay"].verdict == "not supported"
    assert found["heads that stay"].verdict == "not supported"


def test_gates_that_have_not_converged_leave_it_undecided() -> None:
    found = findings_of("head-gates", gates((0.0, 0.5, 2, 0.2, 0.3, 0.4), done=False))
    assert found[f"change of {LOSS} with the heads that stay"].verdict == "undecided"
    assert "training steps" in found["heads that stay"].decided_by
    assert found["costs and budgets at which the gates have converged"].verdict == "not supported"


def test_the_gates_of_a_random_model_choose_nothing() -> None:
    tables = gates((0.0, 0.5, 2, -0.01, 0.1, 0.01), learnt=False, done=False)
    found = findings_of("head-gates", tables).values()
    assert {each.verdict for each in found} == {"not supported"}


def test_gates_that_all_stay_open_have_nothing_to_be_compared_with() -> None:
    found = findings_of("head-gates", gates((0.01, 0.0, 4, 0.0, 0.0, 1.0)))
    first = found[f"change of {LOSS} with the heads that stay"]
    assert first.verdict == "undecided" and "all 4 heads stay" in first.claim
    assert "heads that stay" not in found


# --- head-pruning ---------------------------------------------------------------------------------


def pruning(
    *orders: tuple[str, float, int, int, float],
    learnt: bool = True,
    pruned: tuple[float, float] = (0.1, 0.01),
    recovered: tuple[float, float] | None = (0.02, 0.5),
    done: bool = True,
    best_step: int = 20,
) -> Table:
    """Tables from the area, the heads that 1 % and 5 % of the loss allow, and p of each order;
    from delta and p of both stages."""
    known = baseline(learnt)
    loss = table("method area one five p_value", *orders, metric="loss")
    loss = loss.assign(seed=loss.groupby("method").cumcount(), rescored=False)
    curve = [
        (row.method, row.seed, n, 2.0 if n <= row.one else 2.06 if n <= row.five else 3.0)
        for row in loss.itertuples()
        for n in range(5)
    ]
    loss["better"] = learnt & (loss["p_value"] < 0.05) & (loss["method"] != "random")
    right = loss.assign(metric="accuracy", area=loss["area"] / 10, better=False)
    rows: list[tuple[Any, ...]] = [("whole", 2.0, "", 0.0, 1.0, 4), ("pruned", 2.0 + pruned[0],
            "whole", *pruned, 3)]  # fmt: skip
    if recovered:
        tuned = ("whole, tuned", 1.5, "whole", -0.5, 0.001, 4)
        rows += [("recovered", 1.5 + recovered[0], "whole, tuned", *recovered, 3), tuned]
    kept = table("stage value against delta p_value heads", *rows, metric="loss", converged=done)
    alone = table("layer head delta", (0, 1, 0.4), (1, 0, -0.1), stack="encoder", kind="self")
    return {
        **known,
        "summary": pd.concat([loss, right], ignore_index=True),
        "curve": table("method seed heads_removed value", *curve, rescored=False, metric="loss"),
        "kept": kept.assign(
            lower=kept["delta"] - 0.05, upper=kept["delta"] + 0.05, steps=30,
            parameters=kept["heads"] * 1000, best_step=best_step,
        ),
        "speed": table("texts speedup lowest highest", (1, 1.0, 0.9, 1.1), (64, 1.25, 1.2, 1.3)),
        "alone": alone.assign(metric="loss"),
    }  # fmt: skip


RANDOM = (("random", 4.0, 0, 1, 1.0), ("random", 5.0, 1, 2, 1.0), ("random", 5.0, 0, 1, 1.0))


def test_the_best_order_is_shown_next_to_random_orders() -> None:
    orders = ("ablation", 2.5, 2, 4, 0.02), ("importance", 3.0, 1, 2, 0.3), *RANDOM
    first, *others = findings_of("head-pruning", pruning(*orders)).values()
    assert first.claim == (
        "You can remove 2 of 4 heads for at most 1 % more loss on masked pieces, and 4 for 5 %, by "
        "exact ablation; "
        "random choice: 0 and 1 (median of 3; p = 0.02 over the whole curve)."
    )
    assert (first.verdict, first.value, first.null, first.n) == ("supported", 2, 0, "4 heads")
    assert others[0].claim.startswith("1 of 2 orders is significantly better")
    assert "Loss after removing 1 of 4 heads: 2.00 to 2.10 nats" in others[1].claim
    assert others[1].verdict == "supported"
    assert "after 30 steps" in others[2].claim and others[2].verdict == "not supported"
    assert "75 % of the parameters (3,000 of 4,000)" in others[3].claim
    assert "1.25 times as fast on 64 texts" in others[3].claim
    assert "−0.10 nats (head 2.1) to +0.40 (head 1.2)" in others[4].claim


def test_both_numbers_of_heads_have_those_of_random_orders_beside_them() -> None:
    found = findings_of("head-pruning", pruning(("ablation", 2.5, 2, 2, 0.02), *RANDOM))
    claim = next(iter(found.values())).claim
    assert "You can remove 2 of 4 heads for at most 1 % more loss" in claim
    assert "and 2 for 5 %, by exact ablation; random choice: 0 and 1 (median" in claim


@pytest.mark.parametrize(
    ("lowest", "highest", "verdict"),
    [(1.2, 1.3, "supported"), (0.9, 1.4, "undecided"), (0.7, 0.9, "not supported")],
)
def test_a_model_is_faster_if_it_was_in_every_measurement(
    lowest: float, highest: float, verdict: str
) -> None:
    tables = pruning(*RANDOM)
    tables["speed"] = tables["speed"].assign(lowest=lowest, highest=highest)
    (found,) = (
        each for name, each in findings_of("head-pruning", tables).items() if "speed" in name
    )
    assert found.verdict == verdict


def test_an_order_within_the_random_ones_is_not_better() -> None:
    found = findings_of("head-pruning", pruning(("magnitude", 4.5, 0, 1, 0.5), *RANDOM))
    assert found["orders better than random ones"].verdict == "not supported"
    best = found[REMOVED]
    assert best.verdict == "not supported"


def test_an_order_below_few_random_ones_is_undecided() -> None:
    found = findings_of("head-pruning", pruning(("ablation", 2.5, 2, 3, 0.3), *RANDOM))
    best = found[REMOVED]
    assert (best.verdict, best.decided_by) == ("undecided", "more random orders")


def test_no_order_of_a_random_model_is_better() -> None:
    tables = pruning(("ablation", 2.5, 4, 4, 0.01), ("random", 4.0, 4, 4, 1.0), learnt=False)
    found = findings_of("head-pruning", tables)
    best = found[REMOVED]
    assert "all 4 heads" in best.claim and "no better than its baseline" in best.claim
    assert best.key_number == "", "a number that means nothing is not shown apart"
    claims = [each for each in found.values() if each.null is not None]
    assert {each.verdict for each in claims} == {"not supported"}


def test_orders_without_random_ones_are_undecided() -> None:
    found = findings_of("head-pruning", pruning(("ablation", 2.5, 2, 3, 1.0)))
    best = found[REMOVED]
    assert best.verdict == "undecided" and "random" not in best.claim


def test_random_orders_alone_are_described() -> None:
    first, *_ = findings_of("head-pruning", pruning(*RANDOM)).values()
    assert first.claim.startswith("In 3 random orders, you can remove none of 4 heads for at most")


def test_no_number_of_heads_below_the_first_step_is_denied() -> None:
    tables = pruning(("ablation", 2.5, 0, 0, 0.3), *RANDOM)
    curve = tables["curve"]
    tables["curve"] = curve[curve["heads_removed"] % 2 == 0]
    first, *_ = findings_of("head-pruning", tables).values()
    assert first.claim.startswith(
        "You can remove fewer than 2 of 4 heads for at most 1 % more loss on masked pieces, and "
        "fewer than 2 for 5 %, by exact ablation; random choice: fewer than 2 and fewer than 2 (m"
    )


def test_recovery_that_was_cut_off_is_undecided() -> None:
    tables = pruning(*RANDOM, recovered=(0.3, 0.001), done=False)
    found = findings_of("head-pruning", tables)
    tuned = found["change of the loss of the pruned model after fine-tuning"]
    assert tuned.verdict == "undecided" and "recovery steps" in tuned.decided_by


def test_a_fine_tuning_that_never_helped_repeats_no_number() -> None:
    """The weights of the best dev loss are kept: without a better one, nothing has changed."""
    found = findings_of("head-pruning", pruning(*RANDOM, recovered=(0.1, 0.01), best_step=0))
    tuned = found["change of the loss of the pruned model after fine-tuning"]
    assert (tuned.value, tuned.verdict) == (None, "not supported")
    assert tuned.claim.startswith("Fine-tuning does not help: in 30 steps,")


def test_a_model_that_lost_no_head_has_no_findings_about_the_smaller_one() -> None:
    tables = pruning(*RANDOM, recovered=None)
    tables["kept"]["heads"] = 4
    assert not any("pruned" in measure for measure in findings_of("head-pruning", tables))


# --- the method in prose --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("experiment", "changed", "words"),
    [
        ("head-importance", {"max_sentences": 1234}, "up to 1,234 sentences"),
        ("head-importance", {"label": "mood"}, "classifier for mood"),
        ("head-ablation", {"replacement": "mean"}, "its mean over the corpus"),
        ("head-ablation", {"pairs": "layer"}, "every pair of heads of a layer"),
        ("head-gates", {"lambdas": (0.07,), "steps": 321}, "0.07 nats"),
        ("head-gates", {"lambdas": (), "budgets": (0.125,)}, "12.5 % of the heads"),
        ("head-pruning", {"random_orders": 17}, "17 random orders"),
        ("head-pruning", {"task": "sentiment", "max_fit_steps": 55}, "up to 55 steps"),
        ("head-pruning", {"recovery_steps": 77}, "up to 77 steps"),
    ],
)
def test_the_method_names_a_changed_setting(
    experiment: str, changed: dict[str, Any], words: str
) -> None:
    settings = EXPERIMENTS[experiment].settings
    assert words in settings(**changed).in_prose()
    assert words not in settings().in_prose()


# --- what was measured ----------------------------------------------------------------------------


def of(kind: str, name: str) -> Table:
    """The table `objective` of a run."""
    return {"objective": table("objective name", (kind, name))}


@pytest.mark.parametrize(
    ("kind", "name", "metric"),
    [
        ("masked", "masked pieces", "accuracy"),
        ("class", "sst2", "accuracy"),
        ("score", "sts", "r2"),
    ],
)
def test_findings_name_what_was_measured(kind: str, name: str, metric: str) -> None:
    whole = baseline()["baseline"].replace("accuracy", metric)
    tables = importances(0.1, 0.4) | {"baseline": whole} | of(kind, name)
    first, *_, last = findings_of("head-importance", tables).values()
    assert f"for the loss on {name} is head 1.2" in first.claim
    assert first.measure == f"importance of the most important head for the loss on {name}"
    assert f"predicts {name} better" in last.claim and f"{metric} 50 % against 10 %" in last.claim
    assert last.measure.startswith(f"loss on {name} of the whole model")
