"""The findings of fine-tuning, drift, similarity and pretraining on tables with known content."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.findings import findings_of
from workbench import WorkbenchError, experiments

Frames = dict[str, pd.DataFrame]
Cell = tuple[str, str, float, float]  # task, method, gain over the frozen model, half its interval


# --- frozen-vs-finetuned --------------------------------------------------------------------------


def compared(*cells: Cell, seeds: int = 3, strong: float = np.nan, learned: bool = True) -> Frames:
    """Tables of one model, whose frozen score is 60 on every task."""
    delta, means, scores = [], [], []
    tasks = dict.fromkeys(task for task, *_ in cells)
    rows = [(task, "frozen", 0.0, 0.05) for task in tasks] + list(cells)
    for task, method, gain, half in rows:
        key = {"task": task, "model": "bert", "method": method, "head": "plain"}
        value = 0.6 + gain
        means.append(
            {**key, "metric": "accuracy", "value": value, "lower": value - half,
             "upper": value + half, "baseline": 0.5, "learned": learned, "converged": True}
        )  # fmt: skip
        cost = {"trainable": 10 if method == "frozen" else 50 if method == "lora" else 1000}
        for seed in range(seeds):
            scores.append({**key, "seed": seed, **cost, "seconds": 2.0})
        if method != "frozen":
            p = 0.4 if abs(gain) < half else 2 / 1001
            delta.append(
                {"task": task, "model": "bert", "method": method, "metric": "accuracy",
                 "frozen": 0.6, "tuned": value, "delta": gain, "lower": gain - half,
                 "upper": gain + half, "p_value": p, "strong": strong, "majority": 0.5,
                 "verdict": "" if learned else "not learned", "converged": True}
            )  # fmt: skip
    if not np.isnan(strong):
        key = {"model": "bert", "method": "frozen", "head": "lstm", "metric": "accuracy"}
        limits = {"value": strong, "lower": strong - 0.02, "upper": strong + 0.02}
        flags = {"baseline": 0.5, "learned": learned, "converged": False}
        means += [{**key, "task": task, **limits, **flags} for task in tasks]
    return {
        "delta": pd.DataFrame(delta), "means": pd.DataFrame(means), "scores": pd.DataFrame(scores)
    }  # fmt: skip


def found(*cells: Cell, **how: Any) -> dict[str, Any]:
    return findings_of("frozen-vs-finetuned", compared(*cells, **how))


def test_a_significant_gain_is_supported_with_its_numbers_and_its_baselines() -> None:
    first = next(iter(found(("mood", "fine-tuned", 0.1, 0.04)).values()))
    assert "helps bert on mood (accuracy 70.0, frozen 60.0, majority 50.0" in first.claim
    assert "Δ +10.0, 95 % 6.0 to 14.0" in first.claim
    assert (first.verdict, first.null, first.interval) == (
        "supported",
        0,
        pytest.approx((0.06, 0.14)),
    )


@pytest.mark.parametrize(
    ("gain", "half", "seeds", "verdict", "words"),
    [
        (0.003, 0.01, 3, "not supported", "does not help"),
        (0.003, 0.2, 3, "undecided", "does not significantly help"),
        (0.1, 0.04, 1, "undecided", "helps"),
        (-0.1, 0.04, 3, "supported", "hurts"),
    ],
)
def test_the_verdict_is_of_what_the_claim_says(
    gain: float, half: float, seeds: int, verdict: str, words: str
) -> None:
    first = found(("mood", "fine-tuned", gain, half), seeds=seeds)["gain over the frozen model"]
    assert first.verdict == verdict and words in first.claim
    assert bool(first.decided_by) == (verdict == "undecided")
    assert ("seeds" in first.decided_by) == (seeds == 1)


@pytest.mark.parametrize(("seeds", "verdict"), [(3, "not supported"), (1, "undecided")])
def test_a_gain_up_to_the_majority_is_no_help(seeds: int, verdict: str) -> None:
    """Fine-tuning that ends at the majority class is above a frozen model below it."""
    one = found(("mood", "fine-tuned", 0.1, 0.04), seeds=seeds, learned=False)
    first = one["gain over the frozen model"]
    assert "is not shown to help bert on mood" in first.claim and first.verdict == verdict
    assert "which neither beats significantly" in first.claim
    cells = (("a", "fine-tuned", 0.1, 0.04), ("b", "fine-tuned", -0.1, 0.04))
    several = next(iter(found(*cells, seeds=seeds, learned=False).values()))
    assert (several.value, several.verdict) == (0, verdict) and "hurts" not in several.claim


def test_several_comparisons_are_counted_and_corrected() -> None:
    helped = found(("a", "fine-tuned", 0.1, 0.04), ("b", "fine-tuned", -0.1, 0.04),
                   ("c", "fine-tuned", 0.0, 0.01))  # fmt: skip
    first = next(iter(helped.values()))
    assert "in 1 of 3 comparisons with the frozen model: a, and hurts in 1: b" in first.claim
    assert (first.verdict, first.value) == ("supported", 1)
    assert helped["largest gain over the frozen model"].keys["task"] == "a"
    smallest = helped["smallest gain over the frozen model"]
    assert "hurts" in smallest.claim and smallest.verdict == "supported"
    assert "corrected p" in smallest.claim


def test_chance_gains_of_many_comparisons_are_not_significant() -> None:
    """One of eight intervals excludes 0 by chance."""
    tables = compared(*((str(n), "fine-tuned", 0.02, 0.03) for n in range(8)))
    tables["delta"].loc[0, ["lower", "p_value"]] = 0.001, 0.04
    helped = findings_of("frozen-vs-finetuned", tables)
    assert all(each.verdict != "supported" for each in list(helped.values())[:3])


def test_forty_comparisons_can_still_be_significant() -> None:
    cells = [(str(n), "fine-tuned", 0.1, 0.02) for n in range(40)]
    first = next(iter(found(*cells).values()))
    assert first.value == 40 and first.verdict == "supported"


def test_a_parameter_efficient_method_has_its_share_of_weights_and_its_score() -> None:
    helped = found(("a", "fine-tuned", 0.1, 0.04), ("a", "lora", 0.08, 0.04))
    (efficient,) = (each for each in helped.values() if "share of fine-tuning" in each.measure)
    assert "5.0 %" in efficient.claim and "68.0" in efficient.claim and "70.0" in efficient.claim


def test_the_lstm_baseline_is_beaten_only_outside_its_interval() -> None:
    name = "score of the adapted model, against the frozen model under an LSTM head"
    for strong, verdict in ((0.6, "supported"), (0.69, "undecided"), (0.75, "not supported")):
        against = found(("a", "fine-tuned", 0.1, 0.04), strong=strong)
        assert against[name].verdict == verdict
        assert "LSTM" in against["trained models cut off by max_epochs"].claim


def test_models_at_the_majority_support_nothing() -> None:
    none = found(("a", "fine-tuned", 0.0, 0.02), learned=False)
    majority = none["trained models that beat the majority baseline"]
    assert (majority.verdict, majority.value) == ("not supported", 0)
    assert "by neither of the 2" in majority.claim


# --- finetune -------------------------------------------------------------------------------------


def tuned(value: float = 0.8, learned: bool = True, upper: float = 0.9, seeds: int = 2) -> Frames:
    key = {"task": "mood", "model": "bert", "method": "fine-tuned", "head": "plain"}
    chosen = {**key, "learning_rate": 1e-3, "ridge": 0.0}
    scores = [
        {**chosen, "seed": seed, "split": split, "metric": metric, "value": value + 0.01 * seed,
         "baseline": 0.5, "learned": True, "converged": True, "trainable": 1234,
         "peak_memory": 1.0, "seconds": 2.0, "size": 0.5}
        for seed in range(seeds)
        for split, metric in (("dev", "accuracy"), ("test", "accuracy"), ("test", "matthews"))
    ]  # fmt: skip
    epochs = [
        {**chosen, "seed": seed, "epoch": epoch, "metric": "accuracy", "value": dev,
         "converged": seed == 0}
        for seed in range(seeds)
        for epoch, dev in ((1, 0.6), (2, 0.8), (3, 0.7))
    ]  # fmt: skip
    steps = [{**chosen, "seed": 0, "step": n, "loss": 2 - n / 20} for n in range(20)]
    pairs = (
        [("good", "good")] * 9 + [("good", "bad")] + [("bad", "bad")] * 4 + [("bad", "good")] * 6
    )
    return {
        "means": pd.DataFrame(
            [{**key, "metric": "accuracy", "value": value, "lower": 0.6 if learned else 0.4,
              "upper": upper, "baseline": 0.5, "learned": learned, "converged": True}]
        ),
        "scores": pd.DataFrame(scores),
        "rates": pd.DataFrame(
            [{**chosen, "learning_rate": rate, "metric": "accuracy", "value": dev}
             for rate, dev in ((1e-4, 0.6), (1e-3, 0.8))]
        ),
        "learning": pd.DataFrame(steps),
        "epochs": pd.DataFrame(epochs),
        "predictions": pd.DataFrame(pairs, columns=["gold", "guess"]),
    }  # fmt: skip


def test_a_learnt_task_is_stated_with_its_majority_its_errors_and_its_training() -> None:
    one = findings_of("finetune", tuned())
    first = next(iter(one.values()))
    assert first.claim.startswith("Fine-tuned bert learns mood: accuracy 80.0 (95 % 60.0 to 90.0")
    assert (first.verdict, first.null) == ("supported", 0.5)
    weakest = one["recall of the class recognised least"]
    assert "bad: 40 %" in weakest.claim and "60 % are taken for good" in weakest.claim
    assert "differ by 1.0" in one["range of the score over seeds"].claim
    assert "0.001 is best" in one["dev score of the best learning rate"].claim
    epoch = one["epoch with the best dev score"]
    assert (epoch.value, epoch.verdict) == (2, "undecided")
    assert "ended 1 of 2 trainings while dev still improved" in epoch.claim
    assert "1.98 in the first tenth" in one["training loss at the end"].claim
    assert one["weights trained"].value == 1234


def test_a_score_at_the_majority_is_not_supported_or_undecided_if_too_few_texts_were_scored() -> (
    None
):
    for upper, verdict in ((0.53, "not supported"), (0.65, "undecided")):
        first = findings_of("finetune", tuned(0.5, False, upper))["score of the adapted model"]
        assert first.verdict == verdict and "does not significantly learn" in first.claim


def test_a_score_whose_interval_includes_the_majority_is_not_called_learnt() -> None:
    tables = tuned(0.55)
    tables["means"]["lower"] = 0.45  # a paired comparison with the majority can be significant
    first = findings_of("finetune", tables)["score of the adapted model"]
    assert "does not significantly learn" in first.claim and "above" not in first.claim


def test_one_training_does_not_decide_whether_a_model_learns() -> None:
    first = findings_of("finetune", tuned(seeds=1))["score of the adapted model"]
    assert first.verdict == "undecided" and "seeds" in first.decided_by


def test_shuffled_labels_leave_one_prediction_for_all_texts() -> None:
    tables = tuned(0.5, False)
    tables["predictions"] = tables["predictions"].assign(guess="good")
    claim = findings_of("finetune", tables)["recall of the class recognised least"].claim
    assert claim == "All texts are taken for good, which 50 % of them are."


def test_of_classes_that_are_recognised_equally_seldom_none_is_left_out() -> None:
    tables = tuned()
    pairs = [("good", "good"), ("bad", "good"), ("fair", "bad")] * 4
    tables["predictions"] = pd.DataFrame(pairs, columns=["gold", "guess"])
    claim = findings_of("finetune", tables)["recall of the class recognised least"].claim
    assert claim == (
        "The classes that are recognised least are bad and fair: 0 % of the texts of each; good is "
        "recognised best (100 %)."
    )


def test_of_learning_rates_with_the_same_score_none_is_called_best() -> None:
    tables = tuned()
    tables["rates"] = tables["rates"].assign(value=0.8)
    claim = findings_of("finetune", tables)["dev score of the best learning rate"].claim
    assert "0.001 shares the best score on dev" in claim


def test_one_seed_and_one_learning_rate_have_no_finding_on_their_choice() -> None:
    tables = tuned(seeds=1)
    tables["rates"] = tables["rates"].iloc[1:]
    measures = findings_of("finetune", tables)
    assert not {"range of the score over seeds", "dev score of the best learning rate"} & {
        *measures
    }


# --- drift ----------------------------------------------------------------------------------------


def moved(change: float, loss: float = 0.3, p: float = 0.002) -> Frames:
    """Layer 1 changes most; with `change` 0, nothing changes."""
    layers = [0, 1, 2]
    moves = [0.1 * change, change, 0.5 * change]
    stack = ["encoder"] * 3
    return {
        "drift": pd.DataFrame(
            {"stack": stack, "layer": layers, "cka": [1 - each for each in moves],
             "weight_distance": moves, "n": 500}
        ),
        "heads": pd.DataFrame(
            {"stack": "encoder", "kind": "self", "layer": 0, "head": [0, 1],
             "attention_js": [change, 0.0], "n": 90, "lower": [0.9 * change, 0.0],
             "upper": [1.1 * change, 0.0]}
        ),
        "losses": pd.DataFrame(
            {"metric": ["masked_loss", "masked_accuracy"], "before": [2.0, 0.5],
             "after": [2 + loss, 0.4], "change": [loss, -0.1], "lower": [loss - 0.05, -0.2],
             "upper": [loss + 0.05, 0.1], "n": 99}
        ),
        "probing": pd.DataFrame(
            {"task": ["pos", "ner"], "stack": "encoder", "layer": 1, "metric": "f1", "before": 0.6,
             "after": [0.6 + change, 0.6], "delta": [change, 0.0], "lower": [change - 0.02, -0.02],
             "upper": [change + 0.02, 0.02], "p_value": [p, 0.5]}
        ),
        "rewound": pd.DataFrame(
            {"stack": ["none", "encoder", "encoder", "all"], "layer": [-1, 0, 1, -1],
             "metric": "accuracy", "value": [0.9, 0.9, 0.9 - change, 0.5],
             "change": [0.0, 0.0, -change, -0.4], "lower": [0, -0.01, -change - 0.03, -0.5],
             "upper": [0, 0.01, -change + 0.03, -0.3], "p_value": [1.0, 1.0, p, 0.002]}
        ),
        "similarity": pd.DataFrame(
            [("encoder", a, "encoder", b, 1.0 if a == max(b - (change > 0), 0) else 0.2)
             for a in layers for b in layers],
            columns=["stack_a", "layer_a", "stack_b", "layer_b", "cka"],
        ),
    }  # fmt: skip


def test_what_changed_is_named_with_its_size() -> None:
    one = findings_of("drift", moved(0.4))
    claims = [each.claim for each in one.values()]
    assert claims[0].startswith("Training changes layer 1 most (CKA 0.60 ")
    assert (
        "needs 1 of 2 layers as trained; resetting layer 1 costs most (accuracy 90.0 to 50.0"
        in claims[1]
    )
    assert "rises: the model forgets (2.00 to 2.30" in claims[2]
    assert "layer 1 move most (40.0 % of their norm)" in claims[3]
    assert "head 1.1 (Jensen-Shannon divergence 0.400 bits, 95 % 0.360 to 0.440)" in claims[4]
    assert "in 1 of 2 pairs of task and layer; pos gains most in layer 1" in claims[5]
    assert claims[6].startswith("1 of 3 layers is still most similar")
    assert [each.verdict for each in one.values()] == ["supported"] * 6 + ["not supported"]


def test_of_a_copy_nothing_is_said_to_change() -> None:
    one = findings_of("drift", moved(0.0, 0.0, p=1.0))
    assert [each.verdict for each in one.values()] == ["not supported"] * 6 + ["supported"]
    assert "No layer's states change" in next(iter(one.values())).claim


def test_a_loss_of_few_sentences_is_undecided() -> None:
    tables = moved(0.4)
    tables["losses"] = tables["losses"].assign(lower=-0.2, upper=0.8)
    loss = findings_of("drift", tables)["change of the language-model loss"]
    assert loss.verdict == "undecided" and "sentences" in loss.decided_by


def test_a_run_without_heads_losses_and_probes_has_findings_on_states_and_weights() -> None:
    assert len(findings_of("drift", {"drift": moved(0.4)["drift"]})) == 2


# --- similarity -----------------------------------------------------------------------------------


def alike(*models: tuple[str, float], between: float = 0.6) -> Frames:
    """Each model has three layers, with this CKA from layer to layer; model pairs share layer 2."""
    rows = [
        (a, "encoder", i, b, "encoder", j,
         one ** abs(i - j) if a == b else between if i == j == 2 else 0.1)
        for n, (a, one) in enumerate(models)
        for b, _ in models[n:]
        for i in range(3)
        for j in range(3)
        if a == b or (not a.endswith("@random") and not b.endswith("@random"))
    ]  # fmt: skip
    names = ["model_a", "stack_a", "layer_a", "model_b", "stack_b", "layer_b", "cka"]
    words = {"model": [name for name, _ in models], "words": 90, "without_piece": 2, "compared": 88}
    return {"similarity": pd.DataFrame(rows, columns=names), "words": pd.DataFrame(words)}


def test_the_most_similar_layers_of_several_models_are_named() -> None:
    one = findings_of("similarity", alike(("bert", 0.9), ("gpt", 0.5)))
    claims = [each.claim for each in one.values()]
    assert "layer 2 of bert and layer 2 of gpt are most similar (CKA 0.60" in claims[0]
    assert "gpt changes most (CKA 0.25) and bert least (0.81)" in claims[1]
    assert "from the embeddings to layer 1 of gpt (CKA 0.50" in claims[2]
    assert "last layers of different models are more alike than their embeddings" in claims[3]
    assert "88 of 90 words" in claims[4]


def test_a_single_model_is_read_against_its_twin_which_decides_nothing_alone() -> None:
    one = findings_of("similarity", alike(("bert", 0.5), ("bert@random", 0.9)))
    first = next(iter(one.values()))
    assert first.claim == "The embeddings and the last layer of bert have a CKA of 0.25."
    twin = one["CKA of the embeddings and the last layer, against the random twin"]
    assert (twin.null, twin.verdict) == (pytest.approx(0.81), "undecided")
    assert "twins" in twin.decided_by


def test_layers_without_variance_are_left_out() -> None:
    tables = alike(("bert", 0.5))
    table = tables["similarity"]
    tables["similarity"] = table.assign(cka=table["cka"].where(table["layer_a"] != 0))
    findings_of("similarity", tables)


# --- pretraining ----------------------------------------------------------------------------------


def pretrained(gain: float, half: float = 0.02, seeds: int = 3, loss: float = 3.0) -> Frames:
    """ltr against mlm on two tasks; the second without a difference."""
    rows = []
    for task, delta in (("mood", gain), ("tone", 0.0)):
        for arm in ("mlm", "ltr"):
            value = 0.6 + (delta if arm == "ltr" else 0)
            test: dict[str, float] = dict.fromkeys(
                ("delta", "delta_lower", "delta_upper", "p_value"), np.nan
            )
            if arm == "ltr":
                p = 2 / 1001 if abs(delta) > half else 0.7
                limits = {"delta_lower": delta - half, "delta_upper": delta + half}
                test = {"delta": delta, **limits, "p_value": p}
            rows.append(
                {"arm": arm, "size": "tiny", "task": task, "metric": "accuracy", "value": value,
                 "lower": value - 0.05, "upper": value + 0.05, **test}
            )  # fmt: skip
    state = [
        {"arm": arm, "size": "tiny", "pretraining": seed, "steps": 500, "loss": loss,
         "held_out": np.nan, "unigram": 5.0}
        for arm in ("mlm", "ltr")
        for seed in range(seeds)
    ]  # fmt: skip
    scores = [{"task": task, "metric": "accuracy", "baseline": 0.5} for task in ("mood", "tone")]
    return {name: pd.DataFrame(table) for name, table in
            (("table", rows), ("pretraining", state), ("scores", scores))}  # fmt: skip


def test_the_better_objective_is_named_with_its_task_and_its_gain() -> None:
    one = findings_of("pretraining", pretrained(0.1))
    first, largest, mean, majority, unigram = one.values()
    assert "from mlm in 1 of 2 comparisons (better: ltr on mood)" in first.claim
    assert "ltr beats mlm on mood" in largest.claim and "Δ +10.0, 95 % 8.0 to 12.0" in largest.claim
    assert first.verdict == largest.verdict == majority.verdict == unigram.verdict == "supported"
    assert "ltr scores highest (65.0; mlm 60.0)" in mean.claim
    assert "2.00 nats" in unigram.claim


def test_the_only_arm_with_a_loss_per_piece_is_named_once() -> None:
    tables = pretrained(0.1)
    tables["pretraining"] = tables["pretraining"].iloc[:1]
    unigram = findings_of("pretraining", tables)[
        "smallest gain of a pretraining over piece frequencies"
    ]
    assert unigram.claim.count("mlm") == 1


def test_one_pretraining_decides_no_objective() -> None:
    one = findings_of("pretraining", pretrained(0.1, seeds=1))
    for measure in (
        "significant differences between objectives",
        "largest difference between objectives",
    ):
        assert (
            one[measure].verdict == "undecided" and "pretraining_seeds" in one[measure].decided_by
        )


def test_objectives_that_do_not_differ_and_a_short_pretraining_are_not_supported() -> None:
    one = findings_of("pretraining", pretrained(0.0, loss=4.9))
    assert one["largest difference between objectives"].verdict == "not supported"
    assert one["significant differences between objectives"].value == 0
    unigram = one["smallest gain of a pretraining over piece frequencies"]
    assert unigram.verdict == "not supported" and "0.10" in unigram.claim
    wide = findings_of("pretraining", pretrained(0.0, half=0.2))
    assert wide["largest difference between objectives"].verdict == "undecided"


@pytest.mark.parametrize(
    ("delta", "half", "says", "verdict"),
    [
        (0.1, 0.02, "mlm scores higher than ltr: Δ +10.0", "supported"),
        (-0.1, 0.02, "the opposite of the paper", "supported"),
        (0.01, 0.02, "does not decide what the paper found", "not supported"),
        (0.1, 0.2, "does not decide what the paper found", "undecided"),
    ],
)
def test_what_a_paper_found_is_compared_with_this_run(
    delta: float, half: float, says: str, verdict: str
) -> None:
    p = 0.001 if abs(delta) > half else 0.5
    row = {"arm": "mlm", "against": "ltr", "size": "tiny", "tasks": 2, "delta": delta}
    row |= {"delta_lower": delta - half, "delta_upper": delta + half, "p_value": p}
    tables = {**pretrained(0.0), "claims": pd.DataFrame([row])}
    claim = findings_of("pretraining", tables)["difference of mlm and ltr"]
    assert says in claim.claim and claim.verdict == verdict
    one = {**pretrained(0.0, seeds=1), "claims": pd.DataFrame([row])}
    assert findings_of("pretraining", one)["difference of mlm and ltr"].verdict == "undecided"


def test_a_larger_model_is_compared_with_the_first() -> None:
    tables = pretrained(0.0)
    key = {"arm": "mlm", "size": "mini", "task": "mood", "metric": "accuracy", "against": "tiny"}
    gain = {"delta": 0.1, "delta_lower": 0.05, "delta_upper": 0.15, "p_value": 0.01}
    row = {**key, "value": 0.7, **gain}
    size = findings_of("pretraining", {**tables, "sizes": pd.DataFrame([row])})
    assert "higher in the only comparison" in size["largest gain of a larger model"].claim
    assert size["largest gain of a larger model"].verdict == "supported"


# --- all ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("experiment", "tables", "table", "column"),
    [
        ("frozen-vs-finetuned", compared(("a", "fine-tuned", 0.1, 0.02)), "delta", "tuned"),
        ("finetune", tuned(), "means", "value"),
        ("drift", moved(0.4), "losses", "before"),
        ("similarity", alike(("bert", 0.5)), "words", "compared"),
        ("pretraining", pretrained(0.1), "pretraining", "unigram"),
    ],
)
def test_a_missing_number_is_an_error(
    experiment: str, tables: Frames, table: str, column: str
) -> None:
    with pytest.raises(WorkbenchError, match="missing"):
        findings_of(experiment, {**tables, table: tables[table].assign(**{column: np.nan})})


@pytest.mark.parametrize(
    ("experiment", "setting", "words"),
    [
        ("finetune", {"method": "lora", "lora_rank": 5}, "rank 5"),
        ("finetune", {"method": "frozen", "max_dev": 77}, "77 texts of dev"),
        ("frozen-vs-finetuned", {"max_train": 4321}, "4,321 texts"),
        ("frozen-vs-finetuned", {}, "the p-value of its interval's normal distribution"),
        ("drift", {"max_words": 999}, "999 words"),
        ("similarity", {"max_sentences": 55}, "55 sentences"),
        ("pretraining", {"pretraining_steps": 700}, "700 steps"),
    ],
)
def test_the_method_names_its_settings(experiment: str, setting: Any, words: str) -> None:
    prose = experiments()[experiment].settings(**setting).in_prose()
    assert words in prose and "We " in prose
