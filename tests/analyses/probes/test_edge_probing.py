"""Edge probing from end to end: planted answers, nulls, odd corpora, and what is never fitted."""

import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from spacy.tokens import Doc

from tests.analyses.probes import planted
from tests.analyses.probes.conftest import Silent
from tests.cli.harms import in_time, put
from workbench import Corpus, Result, WorkbenchError
from workbench.analyses.probes.edge_probing import fits
from workbench.analyses.probes.experiments import BUDGETS, EDGE_PROBING, EdgeProbing
from workbench.experiment import Inputs
from workbench.experiment.definition import unmet_requirements

SIZES = {"train": 90, "dev": 24, "test": 40}
FEW = {
    "seeds": (0,),
    "max_epochs": 12,
    "learning_rate": 1e-2,
    "hidden_size": 32,
    "batch_size": 64,
    "half_data_check": False,
}


@pytest.fixture(scope="module")
def read() -> Corpus:
    return planted.corpus(SIZES)


@pytest.fixture(scope="module")
def short() -> Corpus:
    """As much as a run needs that must learn nothing."""
    return planted.corpus({"train": 30, "dev": 10, "test": 10})


def probe(read: Corpus, model: Any = None, scratch: Path | None = None, **settings: Any) -> Result:
    own = EdgeProbing(**{**FEW, **settings})
    inputs = Inputs((model or planted.model(read),), (read,), scratch=scratch)
    return EDGE_PROBING.run(inputs, own, Silent())


@pytest.fixture(scope="module")
def answer(read: Corpus) -> Result:
    return probe(read, save_predictions=True)


def test_the_cumulative_curve_jumps_at_the_planted_layer(answer: Result) -> None:
    means = answer.tables["means"]
    curves = means[(means["mode"] == "cumulative") & (means["encoder"] == "model")]
    curves = curves[~curves["control"]].pivot(index="layer", columns="task", values="mean")
    for task, at in (("pos", planted.TAG_AT), ("dependencies", planted.ARC_AT)):
        curve = curves[task]
        assert (curve[:at] < 0.5).all(), "no better than chance before"
        assert (curve[at:] > 0.97).all()
        assert curve.diff().idxmax() == at


def test_expected_layers_come_in_the_order_they_were_put(answer: Result) -> None:
    expected = answer.tables["summary"].set_index("task")["expected_layer"]
    assert expected["pos"] == pytest.approx(planted.TAG_AT, abs=0.35)
    assert expected["dependencies"] == pytest.approx(planted.ARC_AT, abs=0.35)
    centre = answer.tables["summary"].set_index("task")["centre_of_gravity"]
    assert centre["pos"] < centre["dependencies"]


def test_every_task_has_all_baselines_by_default(answer: Result) -> None:
    summary = answer.tables["summary"].set_index("task")
    for column in ("majority", "lexical", "static", "random"):
        assert (summary[f"baseline_{column}"] < 0.5).all(), column
    assert (summary["best_score"] > 0.97).all()
    scores = answer.tables["scores"]
    assert set(scores["encoder"]) == {"model", "random", "static", "majority"}
    assert set(scores["mode"]) == {"lexical", "top", "layer", "mix", "cumulative", "baseline"}
    assert set(scores["split"]) == {"test"}


def test_modes_that_share_a_probe_have_the_same_score(answer: Result) -> None:
    scores = answer.tables["scores"]
    own = scores[(scores["encoder"] == "model") & ~scores["control"] & (scores["task"] == "pos")]
    value = own.set_index(["mode", "layer"])["value"]
    assert value["lexical", 0] == value["layer", 0] == value["cumulative", 0]
    assert value["top", planted.LAYERS] == value["layer", planted.LAYERS]
    assert value["mix", planted.LAYERS] == value["cumulative", planted.LAYERS]


def test_counts_stand_behind_every_score(answer: Result) -> None:
    counts = answer.arrays["counts"].astype(float).sum(1)  # [scores, 3]
    found = 2 * counts[:, 0] / np.maximum(counts[:, 1] + counts[:, 2], 1)
    assert np.allclose(found, answer.tables["scores"]["value"])
    assert len(answer.arrays["sentences"]) == SIZES["test"]


def test_predictions_and_gains_are_of_the_words_they_name(answer: Result, read: Corpus) -> None:
    table = answer.tables["predictions"]
    texts = [doc.text for doc in read.docs("test")]
    tags = {token.text: token.pos_ for doc in read.docs("test") for token in doc}
    own = table[(table["task"] == "pos") & (table["layer"] == planted.TAG_AT)]
    assert len(own) == sum(len(doc) for doc in read.docs("test"))
    for row in own.head(40).itertuples():
        assert texts[row.sentence] == row.text
        assert tags[row.text[row.span1_start : row.span1_end]] == row.gold
        assert row.right == (row.gold == row.predicted)
    assert own["right"].mean() > 0.97
    gains = answer.tables["gains"]
    tag_gains = gains[(gains["task"] == "pos") & (gains["layer"] == planted.TAG_AT)]
    assert len(tag_gains) == 20
    assert (tag_gains["gold"] != tag_gains["below"]).all()


def test_labels_and_confusions_add_up(answer: Result) -> None:
    tested = answer.tables["tasks"].set_index("task")["test"]
    labels = answer.tables["per_label"]
    one = labels[(labels["task"] == "pos") & (labels["layer"] == 3) & (labels["mode"] == "layer")]
    assert one["n"].sum() == tested["pos"]
    confusion = answer.tables["confusion"]
    one = confusion[(confusion["task"] == "pos") & (confusion["layer"] == 3)]
    assert one.loc[one["mode"] == "layer", "n"].sum() == tested["pos"]


class Kept(NamedTuple):
    """A run and the folder of its trials."""

    result: Result
    scratch: Path


FEW_TRIALS: dict[str, Any] = {
    "tasks": ("pos", "dependencies"), "modes": ("layer",), "max_epochs": 2,
    "save_predictions": True,
}  # fmt: skip


@pytest.fixture(scope="module")
def few(short: Corpus, tmp_path_factory: pytest.TempPathFactory) -> Kept:
    scratch = tmp_path_factory.mktemp("trials")
    return Kept(probe(short, scratch=scratch, **FEW_TRIALS), scratch)


def test_nothing_of_the_test_part_is_fitted(short: Corpus, few: Kept) -> None:
    """Poison the test part's labels: every answer stays what it was."""

    def poisoned() -> Iterator[Doc]:
        for doc in short.splits["test"]():
            for_each = {"words": [t.text for t in doc], "heads": [t.head.i for t in doc]}
            yield Doc(doc.vocab, pos=["X"] * len(doc), deps=["dep"] * len(doc), **for_each)

    other = replace(short, splits={**short.splits, "test": poisoned})
    found = probe(other, planted.model(short), **FEW_TRIALS)
    before, after = few.result.tables["predictions"], found.tables["predictions"]
    own = before[before["task"] == "pos"]["predicted"].tolist()
    assert after[after["task"] == "pos"]["predicted"].tolist() == own
    assert not after["right"].any(), "and labels that train does not have are missed"
    scores = found.tables["scores"]
    assert (scores.loc[~scores["control"], "value"] == 0).all()


def test_a_stopped_run_goes_on_and_says_the_same(short: Corpus, few: Kept, tmp_path: Path) -> None:
    first = shutil.copytree(few.scratch, tmp_path / "stopped")
    kept = sorted(first.glob("trial-*.npz"))
    assert len(kept) > 1
    kept[-1].unlink()
    changed = [path.stat().st_mtime_ns for path in kept[:-1]]
    again = probe(short, scratch=first, **FEW_TRIALS)
    assert [path.stat().st_mtime_ns for path in kept[:-1]] == changed
    for name, table in few.result.tables.items():
        assert table.equals(again.tables[name]), name


def test_a_control_is_learnt_by_a_large_probe_and_not_by_a_small_one() -> None:
    """Sixty types, a label each: a wide MLP has room for them, one hidden unit has not."""
    from random import Random

    random = Random(0)
    types = [f"w{number}" for number in range(60)]

    def docs(number: int) -> list[Doc]:
        from workbench.corpora.layers import vocabulary

        return [
            Doc(vocabulary("en"), words=(w := random.choices(types, k=8)),
                pos=[planted.TAGS[int(word[1:]) % 4] for word in w])
            for _ in range(number)
        ]  # fmt: skip

    splits = {"train": docs(200), "dev": docs(40), "test": docs(60)}
    read = Corpus("types", {name: (lambda d=d: iter(d)) for name, d in splits.items()})
    import torch

    from workbench.models.word_models import Vectors

    torch.manual_seed(0)
    table = Vectors(types, torch.randn(60, 24))

    def selectivity(hidden: int) -> float:
        from workbench.models.word_models import WordModel

        def states(sentences: Any) -> list[torch.Tensor]:
            out = torch.zeros(len(sentences), max(map(len, sentences)), 24)
            for row, words in enumerate(sentences):
                out[row, : len(words)] = table.lookup(words)
            return [out]

        model = WordModel("types", "vectors", 0, 24, {"table": table.table}, states, types)
        found = probe(
            read, model, probes=("mlp",), hidden_size=hidden, random_baseline=False, max_epochs=40
        )
        scores = found.tables["scores"]
        own = scores[(scores["encoder"] == "model") & scores["control"]]
        return float(own["value"].max())

    assert selectivity(256) > 0.95
    assert selectivity(1) < 0.7


def test_a_preview_says_so_and_finds_the_same_layers(read: Corpus) -> None:
    found = probe(read, preview=True)
    summary = found.tables["summary"].set_index("task")
    assert summary.loc["pos", "best_layer"] >= planted.TAG_AT
    assert summary.loc["dependencies", "best_layer"] >= planted.ARC_AT
    assert (summary["best_score"] > 0.97).all()
    assert any("preview" in caveat.text for caveat in found.caveats)
    assert set(found.tables["scores"]["probe"]) == {"ridge", "majority"}


def test_learning_curves_rise(read: Corpus) -> None:
    few: dict[str, Any] = {"modes": ("top",), "control_tasks": False, "random_baseline": False}
    found = probe(read, tasks=("pos",), data_fractions=(0.02, 1.0), **few)
    means = found.tables["means"]
    own = means[(means["encoder"] == "model") & (means["layer"] == planted.LAYERS)]
    by_share = own[own["mode"] == "top"].set_index("share")["mean"]
    assert by_share[1.0] > by_share[0.02]


def test_cnn_windows_add_baselines(short: Corpus) -> None:
    few: dict[str, Any] = {"modes": ("top",), "control_tasks": False, "max_epochs": 2}
    found = probe(short, tasks=("pos",), cnn_windows=(1, 2), **few)
    assert {"cnn1", "cnn2"} <= set(found.tables["scores"]["encoder"])


# --- what the curves can be trusted with --------------------------------------------------------


def told(found: Result, noun: str) -> bool:
    return any(noun in caveat.text for caveat in found.caveats)


def test_a_probe_that_was_cut_off_is_marked_and_one_that_was_not_is_not(read: Corpus) -> None:
    few = {"tasks": ("pos",), "modes": ("top",), "control_tasks": False, "random_baseline": False}
    cut = probe(read, **few, max_epochs=2)
    means = cut.tables["means"]
    assert not means.loc[means["encoder"] == "model", "converged"].any()
    assert told(cut, "still improving at the maximum number of epochs, 2")
    whole = probe(read, **few, max_epochs=60, patience=2)
    assert whole.tables["means"]["converged"].all() and whole.tables["scores"]["converged"].all()
    assert not told(whole, "still improving")
    optimum = probe(read, **few, probes=("linear",), max_epochs=1)
    assert optimum.tables["means"]["converged"].all(), "it knows no epochs"


def test_a_probe_under_its_baseline_did_not_learn_and_says_so(read: Corpus) -> None:
    found = probe(
        read, tasks=("pos",), modes=("layer",), max_epochs=1, learning_rate=1e-9, batch_size=512
    )
    means = found.tables["means"]
    layers = means[(means["encoder"] == "model") & ~means["control"]].set_index("layer")
    layers = layers[layers["mode"] == "layer"]
    control = means[means["control"] & (means["mode"] == "layer")].set_index("layer")["mean"]
    majority = means.set_index("encoder").loc["majority", "mean"]
    under = (layers["mean"] < majority) | (layers["mean"] < control)
    assert under.sum() > 1, "noise, hardly looked at"
    assert layers["learnt"].tolist() == (~under).tolist()
    assert told(found, "did not learn the task")
    assert told(found, "(pos, embeddings; pos, layer 1") and not told(found, "layer 0")
    from workbench.drawing.primitives import NOT_LEARNED

    curves = EDGE_PROBING.drawings()["curves"]

    marks = dict(
        pair
        for trace in curves(found.tables).data
        if trace.mode == "lines+markers"
        for pair in zip(trace.x, trace.marker.symbol, strict=True)
    )
    failed = set(layers.index[~layers["learnt"]])
    assert failed == {layer for layer, mark in marks.items() if mark == NOT_LEARNED}


def test_hollow_marks_are_of_probes_that_were_cut_off(answer: Result) -> None:
    curves = EDGE_PROBING.drawings()["curves"]

    tables = {name: table.copy() for name, table in answer.tables.items()}
    means = tables["means"]
    means["converged"] = means["layer"] != 3
    symbols = {
        (layer, str(mark).endswith("-open"))
        for trace in curves(tables).data
        if trace.mode == "lines+markers"
        for layer, mark in zip(trace.x, trace.marker.symbol, strict=True)
        if mark != "x-thin-open"
    }
    assert symbols >= {(3, True), (4, False)} and (3, False) not in symbols
    del means["converged"], means["learnt"]  # a run from before these were known
    lines = [trace for trace in curves(tables).data if trace.mode == "lines+markers"]
    assert not any("open" in mark for trace in lines for mark in trace.marker.symbol)


def test_the_gain_of_more_data_is_said_once_by_the_finding(read: Corpus) -> None:
    """A dozen targets do not settle four tags; nine hundred do."""
    few = {
        "tasks": ("pos",), "modes": ("layer",), "control_tasks": False, "random_baseline": False,
        "half_data_check": True,
        "probes": ("linear",),
    }  # fmt: skip
    starved = probe(read, **few, max_targets=16)
    row = starved.tables["summary"].iloc[0]
    assert row["data_gain"] > 0.05 and not row["enough_data"]
    said = [each.claim for each in EDGE_PROBING.findings_of(starved.tables)]
    assert sum("still rises with more data: read it as a lower bound" in each for each in said) == 1
    assert not told(starved, "more data")
    halves = starved.tables["halves"]
    assert row["data_gain"] == pytest.approx(halves["gain"].max())
    own = starved.tables["means"].set_index(["encoder", "mode", "layer"])["mean"]
    for each in halves[halves["mode"] == "layer"].itertuples():
        assert each.all == own["model", "layer", each.layer]
    fed = probe(read, **few)
    by_layer = fed.tables["halves"].set_index(["mode", "layer"])["gain"]
    assert abs(by_layer["layer", planted.LAYERS]) < 0.02
    assert set(fed.tables["scores"]["share"]) == {1.0}, "halves stand apart"


def test_presets_set_targets_seeds_and_epochs_together() -> None:
    assert EdgeProbing().budget == BUDGETS["standard"]
    assert EdgeProbing(effort="full").budget.targets is None
    mixed = EdgeProbing(effort="quick", seeds=(4, 5)).budget
    assert mixed == replace(BUDGETS["quick"], seeds=(4, 5))


def test_a_quick_run_says_that_it_is_rough_and_how_long_it_takes(short: Corpus) -> None:
    log = Silent()
    own = EdgeProbing(
        effort="quick",
        modes=("top",),
        control_tasks=False,
        random_baseline=False,
        half_data_check=False,
    )
    found = EDGE_PROBING.run(Inputs((planted.model(short),), (short,)), own, log)
    assert told(found, "Effort quick")
    assert found.tables["summary"]["enough_data"].isna().all(), "the halves were not trained"
    assert any("effort quick): about" in line for line in log.lines), log.lines


# --- losses ---------------------------------------------------------------------------------------


def test_the_loss_goes_with_the_task_and_the_result_names_it(
    short: Corpus, bert: Callable[[], Any]
) -> None:
    single = {"modes": ("top",), "control_tasks": False, "random_baseline": False, "max_epochs": 2}
    assert set(probe(short, **single).tables["tasks"]["loss"]) == {"softmax"}
    assert set(probe(short, **single, loss="sigmoid").tables["tasks"]["loss"]) == {"sigmoid"}
    several = of(*[edges(*[("a b c", [((0, 1), None, ("p", "q"))]), A] * 20)] * 3)
    assert probe(several, bert(), **single).tables["tasks"]["loss"].tolist() == ["sigmoid"]
    with pytest.raises(WorkbenchError, match="setting-invalid"):
        probe(several, bert(), **single, loss="softmax")


def test_a_majority_that_is_not_scored_gives_way_to_the_commonest_that_is(
    bert: Callable[[], Any],
) -> None:
    other, cause = ((0, 1), (1, 2), ("Other",)), ((1, 2), (2, 3), ("Cause",))
    docs = edges(*[("a b c", [other, other, cause])] * 20)
    for doc in docs:
        doc._.edges = {"relations": doc._.edges["mine"]}
    found = probe(of(docs, docs, docs), bert(), random_baseline=False)
    assert found.tables["summary"]["baseline_majority"].iloc[0] == pytest.approx(0.5)
    assert told(found, "'Other', does not count in the score")


@pytest.mark.slow  # by day, edge probes find nearly all labels of the planted layers
@pytest.mark.parametrize(("seed", "mode"), [(0, "top"), (0, "layer"), (1, "layer")])
def test_an_edge_probe_is_at_most_a_point_under_a_linear_one(seed: int, mode: str) -> None:
    """Pairs of spans from planted labels, fifteen hundred targets."""
    read = planted.corpus({"train": 330, "dev": 100, "test": 200}, seed=seed)
    found = probe(
        read, planted.model(read, seed), tasks=("dependencies",), modes=(mode,),
        control_tasks=False,
        random_baseline=False, probes=("edge", "linear"), max_targets=1500, max_epochs=60,
        hidden_size=128, learning_rate=3e-3,
        batch_size=512,
    )  # fmt: skip
    means = found.tables["means"].set_index(["probe", "encoder", "mode", "layer"])["mean"]
    for layer in range(planted.LAYERS if mode == "top" else planted.ARC_AT, planted.LAYERS + 1):
        key = ("model", mode, layer)
        assert means[("edge", *key)] >= means[("linear", *key)] - 0.01


# --- odd corpora ----------------------------------------------------------------------------------


def edges(*sentences: tuple[str, list[Any]]) -> list[Doc]:
    from workbench.corpora.layers import Edge, vocabulary

    docs = []
    for text, targets in sentences:
        doc = Doc(vocabulary("en"), words=text.split())
        doc._.edges = {"mine": [Edge(*target) for target in targets]}
        docs.append(doc)
    return docs


def of(train: list[Doc], dev: list[Doc], test: list[Doc]) -> Corpus:
    splits = {"train": train, "dev": dev, "test": test}
    return Corpus("odd", {name: (lambda d=d: iter(d)) for name, d in splits.items()})


A, B = ("a b c", [((0, 1), None, ("x",))]), ("d e f", [((1, 2), None, ("y",))])


@pytest.mark.parametrize(
    ("train", "dev", "test", "said"),
    [
        ([A, A], [A], [A], "every training target is 'x'"),
        ([A], [B], [A], "every training target"),
        ([A, B], [("d e f", [])], [A], "dev has no targets"),
        (
            [A, B],
            [A],
            [("a b c", [((0, 1), None, ("z",))])],
            "1 gold label does not occur in train",
        ),
        ([A, B, ("a b c", [((1, 1), None, ("x",))])], [A], [B], "an empty span"),
    ],
)
def test_unusual_labels_give_a_caveat(
    train: Any, dev: Any, test: Any, said: str, bert: Callable[[], Any]
) -> None:
    read = of(edges(*train), edges(*dev), edges(*test))
    found = probe(read, bert(), random_baseline=False)
    assert any(said in caveat.text for caveat in found.caveats), found.caveats
    assert found.tables["scores"]["value"].between(0, 1).all()


def test_a_task_with_nothing_to_learn_from_is_refused_by_name(bert: Callable[[], Any]) -> None:
    read = of(edges(("a b", [])), edges(A), edges(A))
    with pytest.raises(WorkbenchError, match="too-few-targets"):
        probe(read, bert())


def test_a_span_off_the_end_is_refused_by_name(bert: Callable[[], Any]) -> None:
    read = of(edges(A, ("a b", [((1, 9), None, ("x",))])), edges(A), edges(A))
    with pytest.raises(WorkbenchError, match=r"'mine'.*no words 1 to 9"):
        probe(read, bert())


def test_several_labels_a_target_are_a_task_too(bert: Callable[[], Any]) -> None:
    many = [("a b c", [((0, 1), (1, 2), ("p", "q")), ((1, 2), (2, 3), ())])] * 20
    found = probe(of(edges(*many), edges(*many), edges(*many)), bert(), random_baseline=False)
    assert found.tables["summary"]["best_score"].iloc[0] > 0.95
    assert found.tables["confusion"].empty


def test_an_unknown_task_names_what_there_is(read: Corpus) -> None:
    with pytest.raises(WorkbenchError, match="Did you mean 'dependencies'"):
        fits(read, EdgeProbing(tasks=("dependancies",)))
    found = unmet_requirements(EDGE_PROBING, EdgeProbing(tasks=("roles",)), (), (read,))
    assert "task-not-found" in str(found[0])


@pytest.fixture
def bert() -> Callable[[], Any]:
    """A small model for words a to f."""
    import torch

    from workbench.models.word_models import Vectors, WordModel

    torch.manual_seed(0)
    table = Vectors(list("abcdef"), torch.randn(6, 8))

    def states(sentences: Any) -> list[torch.Tensor]:
        out = torch.zeros(len(sentences), max(map(len, sentences)), 8)
        for row, words in enumerate(sentences):
            out[row, : len(words)] = table.lookup(words)
        return [out, out]

    def make_random(seed: int) -> WordModel:
        return WordModel("letters", "letters", 1, 8, {"t": table.table + 1}, states, "abcdef")

    return lambda: WordModel(
        "letters", "letters", 1, 8, {"t": table.table}, states, "abcdef", make_random=make_random
    )


@pytest.mark.parametrize("harm", ["no text", "deep"])
def test_a_trial_that_cannot_be_read_is_done_again(
    harm: str, short: Corpus, few: Kept, tmp_path: Path
) -> None:
    harmed = shutil.copytree(few.scratch, tmp_path / "harmed")
    put(harm, sorted(harmed.glob("trial-*.npz"))[-1])
    with in_time():
        again = probe(short, scratch=harmed, **FEW_TRIALS)
    for name, table in few.result.tables.items():
        assert table.equals(again.tables[name]), name
