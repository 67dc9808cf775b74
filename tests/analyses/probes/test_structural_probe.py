"""The structural probe on whole models: what its tables hold, and that the test part stays out."""

from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from spacy.tokens import Doc

import workbench as wb
from tests.analyses.probes.test_trees import doc_of
from tests.models import bilms, zoo
from workbench import Corpus, Model, Result, WorkbenchError, load
from workbench.analyses.probes.experiments import LAYER, STRUCTURAL_PROBE, StructuralProbe
from workbench.analyses.probes.structural_probe import (
    CHAIN_KEY,
    Key,
    TrainedProbes,
    _Counts,
    _interval,
    learn,
    run,
    still_open,
)
from workbench.core.stats import resampled, share
from workbench.experiment import Inputs
from workbench.models.word_models import Vectors

FIGURES = STRUCTURAL_PROBE.drawings()


class Quiet:
    def __call__(self, done: int, total: int | None = None, doing: str = "") -> None: ...
    def log(self, text: str) -> None: ...
    def warn(self, text: str) -> None: ...


Opened = Callable[[str], Model]
SMALL = {"max_sentences": 12, "seeds": (0, 1), "probe_rank": 8}


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Opened:
    @cache
    def made(name: str) -> Model:
        folder = tmp_path_factory.mktemp(name)
        words = [token.text for doc in wb.read("primer").docs("dev", 40) for token in doc]
        if name == "elmo":
            bilms.saved(folder, words)
        elif name == "vectors":
            Vectors(["the", "old", "."], torch.eye(3)).save(folder)
        else:
            zoo.make(name, folder)
        return load(folder, "cpu")

    return made


def corpus_of(train: list[Doc], dev: list[Doc], test: list[Doc]) -> Corpus:
    parts = {"train": train, "dev": dev, "test": test}
    return Corpus("docs", {name: lambda own=own: iter(own) for name, own in parts.items()})


@cache
def primer() -> Corpus:
    """Read once: what layers it has is told of all its texts."""
    return wb.read("primer:size=200")


def probed(model: Model, corpus: Corpus | None = None, **settings: object) -> Result:
    inputs = Inputs((model,), (corpus or primer(),))
    return run(inputs, StructuralProbe(**{**SMALL, **settings}), Quiet())


@pytest.fixture(scope="module")
def found(opened: Opened) -> Result:
    """What probes find in BERT that are not cut off."""
    return probed(opened("bert"), seeds=(0,))


@pytest.fixture(autouse=True)
def _few_epochs(found: Result, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other probes are cut off after two epochs: no other test depends on what they learn."""
    place = "workbench.analyses.probes.structural_training"
    monkeypatch.setattr(f"{place}.EPOCHS", 2)
    monkeypatch.setattr(f"{place}.trained.__defaults__", (lambda *_: None, 2))


@pytest.mark.parametrize(
    "name",  # a net of one stack has what each stack of T5 has
    [
        *(pytest.param(one, marks=pytest.mark.slow) for one in ("bert", "gpt2", "elmo")),
        "t5",
        "vectors",
    ],
)
def test_every_layer_of_every_stack_has_its_baselines(opened: Opened, name: str) -> None:
    model = opened(name)
    result = probed(model, seeds=(0,), max_sentences=5)
    assert set(result.tables) == set(STRUCTURAL_PROBE.tables)
    for table, about in STRUCTURAL_PROBE.tables.items():
        found = result.tables[table]
        assert len(found) and not found.duplicated(list(about.keys)).any()
    means = result.tables["means"].set_index(list(LAYER))["value"]
    for metric in ("uuas", "dspr", "root", "nspr"):
        task = "distance" if metric in ("uuas", "dspr") else "depth"
        for stack in model.stacks:
            for encoder in ("model", "random"):
                for layer in range(stack.layers + 1):
                    assert (task, encoder, stack.name, layer, metric) in means.index
        assert (task, "static", "static", -1, metric) in means.index
        assert (task, "chain", "chain", -1, metric) in means.index
    assert means.between(-1, 1).all()
    summary = result.tables["summary"]
    assert list(summary["stack"].unique()) == [stack.name for stack in model.stacks]
    assert summary.notna().all(axis=None)
    for draw in FIGURES.values():
        assert draw(result.tables).data


def test_where_every_root_is_found_the_interval_is_that_of_a_share() -> None:
    keys = (Key("model", "encoder", 0), CHAIN_KEY)
    numbers = np.stack([np.full((1, 200, 2), (1, 1)), np.full((1, 200, 2), (0, 1))]).astype(float)
    counts = _Counts("depth", "root", keys, numbers, share, 200, {})
    draws = resampled(counts.numbers, counts.measure, 0)
    lower, upper = _interval(counts, counts.values.mean(1), draws)
    assert lower[0] == pytest.approx(0.981, abs=1e-3) and upper[0] == 1  # 0 of 200 are missed


def test_what_more_sentences_would_raise_has_the_names_of_the_findings() -> None:
    means = pd.DataFrame({"encoder": "model", "metric": ["uuas", "root"], "half_loss": 0.03})
    assert list(still_open({"means": means})) == [
        f"how far {name} rises with more sentences (the second half adds up to 3.0 points)"
        for name in ("UUAS", "the share of roots")
    ]


def test_the_same_seed_gives_the_same_tables_and_another_gives_others(opened: Opened) -> None:
    first, again = (probed(opened("bert")).tables for _ in range(2))
    for name, table in first.items():
        pd.testing.assert_frame_equal(table, again[name])
    assert set(first["scores"]["seed"]) == {0, 1}
    own = first["scores"].query("encoder == 'model' and metric == 'dspr'")
    assert own.groupby("layer")["value"].nunique().max() == 2


def turned(doc: Doc) -> Doc:
    """The same words in another tree: each on the one before."""
    heads = [0, *range(len(doc) - 1)]
    return Doc(
        doc.vocab,
        words=[token.text for token in doc],
        spaces=[bool(token.whitespace_) for token in doc],
        heads=heads,
        deps=["root", *["dep"] * (len(doc) - 1)],
        pos=[token.pos_ for token in doc],
    )


def test_the_gold_of_the_test_part_changes_no_weight(opened: Opened, tmp_path: Path) -> None:
    primer = wb.read("primer:size=200")
    train, dev, test = (list(primer.docs(part, 8)) for part in ("train", "dev", "test"))
    poisoned = [turned(doc) for doc in test]

    def learnt(scored: list[Doc]) -> TrainedProbes:
        inputs = Inputs((opened("bert"),), (corpus_of(train, dev, scored),))
        return learn(inputs, StructuralProbe(**{**SMALL, "seeds": (0,)}), Quiet(), tmp_path)

    clean, other = learnt(test), learnt(poisoned)
    assert torch.equal(clean.matrices, other.matrices)
    assert all(torch.equal(clean.halves[probe], other.halves[probe]) for probe in clean.halves)
    first, second = clean.trees["test"][0].distances, other.trees["test"][0].distances
    assert (first != second).any()
    found = [
        probed(opened("bert"), corpus_of(train, dev, scored), seeds=(0,)).tables["summary"]
        for scored in (test, poisoned)
    ]
    assert list(found[0]["best_layer"]) == list(found[1]["best_layer"])
    chain = found[1].set_index("metric")["baseline_chain"]
    assert chain["uuas"] == pytest.approx(1, abs=0.1)  # these trees are chains, but for commas


def test_the_chain_of_words_by_hand(opened: Opened) -> None:
    fan, line = doc_of([0, 0, 0, 0, 0]), doc_of([0, 0, 1, 2, 3])
    result = probed(opened("bert"), corpus_of([fan] * 3, [fan], [fan, line]), max_sentences=None)
    chain = result.tables["means"].query("encoder == 'chain'").set_index("metric")
    assert chain.loc["uuas", "value"] == pytest.approx((1 + 4) / 8)
    assert chain.loc["uuas", "n"] == 8
    assert chain.loc["root", "value"] == 1 and chain.loc["root", "n"] == 2


def test_one_measure_alone_can_be_requested(opened: Opened) -> None:
    tables = probed(opened("vectors"), measures=("depth",)).tables
    assert set(tables["scores"]["metric"]) == {"root", "nspr"}
    assert tables["trees"].empty


def test_short_sentences_and_isolated_words_give_a_caveat(opened: Opened) -> None:
    docs = [doc_of([0, 0]), doc_of([0]), doc_of([0, 0, 1])]
    result = probed(opened("bert"), corpus_of(docs, docs, docs), max_sentences=None)
    assert set(result.tables["summary"]["metric"]) == {"uuas", "root"}
    said = " ".join(caveat.text for caveat in result.caveats)
    assert "3 words have no head" in said and "2 of 2 sentences have fewer than 5" in said


def test_punctuation_alone_leaves_nothing_to_score(opened: Opened) -> None:
    dots = [doc_of([0, 0], ["PUNCT", "PUNCT"])]
    tables = probed(opened("bert"), corpus_of(dots, dots, dots)).tables
    assert tables["summary"].empty and tables["scores"].empty


def test_no_tree_is_an_error_that_says_where(opened: Opened) -> None:
    lone = [doc_of([0])]
    with pytest.raises(WorkbenchError, match="train has no tree"):
        probed(opened("bert"), corpus_of(lone, lone, lone))


def test_words_beyond_the_models_length_give_a_caveat_and_are_left_out(opened: Opened) -> None:
    short, long = doc_of([0, 0, 1]), doc_of([0, *range(149)])
    result = probed(
        opened("bert"), corpus_of([short, long], [short], [short, long]), max_sentences=None
    )
    assert any("words were cut off" in each.text for each in result.caveats)
    assert any("sentences are scored" in each.text for each in result.caveats)
    chain = result.tables["means"].query("encoder == 'chain' and metric == 'uuas'")
    assert 2 < chain["n"].iloc[0] < 2 + 149


def test_a_result_says_what_was_not_learnt_and_what_was_cut_off(
    opened: Opened, found: Result
) -> None:
    means = found.tables["means"].set_index(list(LAYER))
    for (task, encoder, stack, layer, metric), row in means.iterrows():
        under = [means.loc[(task, "chain", "chain", -1, metric), "value"]]
        if encoder == "model":
            under.append(means.loc[(task, "random", stack, layer, metric), "value"])
        assert row["learnt"] == (encoder == "chain" or row["value"] > max(under))
        assert np.isnan(row["half"]) == (encoder in ("random", "chain"))
    said = " ".join(caveat.text for caveat in found.caveats)
    assert ("not above the chain baseline" in said) == (not means["learnt"].all())
    short = probed(opened("bert"), seeds=(0,))
    assert not short.tables["scores"].query("encoder != 'chain'")["converged"].any()
    assert any("still improving" in caveat.text for caveat in short.caveats)
    figure = FIGURES["layers"](short.tables)
    curves = [trace for trace in figure.data if trace.mode == "lines+markers"]
    assert curves and all("open" in symbol for line in curves for symbol in line.marker.symbol)
