"""Minimal pairs, with models whose preferences are known."""

import json
from pathlib import Path

import pandas as pd
import pytest
import torch

from tests.models import bilms, headed, zoo
from workbench.corpora import Corpus, encode, read
from workbench.corpora.pairs import minimal_pairs
from workbench.engine.model import Model
from workbench.errors import WorkbenchError
from workbench.experiment import EXPERIMENTS, Inputs, Settings, misfits
from workbench.facts.pairs import EXPERIMENT
from workbench.models.catalogue import facts
from workbench.models.huggingface import HuggingFace
from workbench.models.loading import load
from workbench.models.scoring import score


class Quiet:
    """Progress that nobody watches."""

    def __call__(self, done: int, total: int | None = None, doing: str = "") -> None: ...

    def log(self, text: str) -> None: ...

    def warn(self, text: str) -> None: ...


@pytest.fixture(scope="module")
def fond_of_are(tmp_path_factory: pytest.TempPathFactory) -> HuggingFace:
    """A BERT to which every piece is as likely as any other, but for `are`."""
    body = zoo.make("bert", tmp_path_factory.mktemp("body"))
    folder = tmp_path_factory.mktemp("uniform")
    model = headed.opened(headed.saved(body, "BertForMaskedLM", folder, uniform=True))
    (number,) = model.tokenizer("are", add_special_tokens=False)["input_ids"][:1]
    with torch.no_grad():
        model.net.cls.predictions.bias[number] = 5.0
    return model


@pytest.fixture
def blimp(tmp_path: Path) -> Path:
    rows = [
        ("The dogs are old.", "The dogs is old.", "plural"),
        ("The cats are old.", "The cats is old.", "plural"),
        ("The dog is old.", "The dog are old.", "singular"),
    ]
    path = tmp_path / "blimp.jsonl"
    path.write_text(
        "".join(
            json.dumps({"sentence_good": good, "sentence_bad": bad, "UID": about}) + "\n"
            for good, bad, about in rows
        )
    )
    return path


def opened(path: Path) -> Corpus:
    return read(path, text=["sentence_good", "sentence_bad"], labels=["UID"])


def table(model: Model, corpus: Corpus) -> pd.DataFrame:
    found = EXPERIMENT.run(Inputs((model,), (corpus,)), Settings(), Quiet())
    return found.tables["pairs"].set_index("phenomenon")


def test_the_registry_has_it() -> None:
    assert EXPERIMENTS["minimal-pairs"] is EXPERIMENT


def test_blimps_rows_are_pairs(blimp: Path) -> None:
    pairs = list(minimal_pairs(opened(blimp)))
    assert [(p.good.text, p.bad.text, p.phenomenon) for p in pairs][2] == (
        "The dog is old.",
        "The dog are old.",
        "singular",
    )


def test_a_model_fond_of_a_word_prefers_the_sentences_that_have_it(
    fond_of_are: HuggingFace, blimp: Path
) -> None:
    found = table(fond_of_are, opened(blimp))
    assert found["accuracy"].to_dict() == {"plural": 1, "singular": 0, "all": pytest.approx(2 / 3)}
    assert found["n"].to_dict() == {"plural": 2, "singular": 1, "all": 3}
    assert (found["lower"] <= found["accuracy"]).all()
    assert found.loc["plural", "gap"] > 1 > -1 > found.loc["singular", "gap"]


def test_elmo_finds_likely_what_both_directions_do(blimp: Path, tmp_path: Path) -> None:
    words = "The dogs dog cats are old .".split()  # not: is
    net = bilms.saved(tmp_path / "elmo", words)
    with torch.no_grad():
        net.weight.zero_()
        net.bias.zero_()
        net.bias[net.words.words.index("are")] = 5.0
    net.save(tmp_path / "elmo")
    model = load(tmp_path / "elmo", "cpu")
    found = EXPERIMENT.run(Inputs((model,), (opened(blimp),)), Settings(), Quiet())
    pairs = found.tables["pairs"].set_index("phenomenon")
    assert pairs["accuracy"].to_dict() == {"plural": 1, "singular": 0, "all": pytest.approx(2 / 3)}
    # -log p of `are` is 5 less than that of `<UNK>`, in either direction
    assert pairs["gap"].to_dict() == pytest.approx({"plural": 5, "singular": -5, "all": 5 / 3})
    (caveat,) = found.caveats
    assert "mean of both directions" in caveat.text and "<UNK>" in caveat.text
    assert not misfits(EXPERIMENT, Settings(), [facts(model)])
    (first, *_) = minimal_pairs(opened(blimp))
    nats = score(model, encode([first.good, first.bad])).nats
    assert nats[1] - nats[0] == pytest.approx(5)


def test_primers_twins_are_pairs_and_the_right_one_is_first() -> None:
    pairs = list(minimal_pairs(read("primer/acceptability").docs("test", 40)))
    assert len(pairs) == 20
    assert {pair.good._.labels["acceptability"] for pair in pairs} == {"acceptable"}
    assert {pair.bad._.labels["acceptability"] for pair in pairs} == {"unacceptable"}
    assert {"agreement", "reflexive"} <= {pair.phenomenon for pair in pairs}


def test_a_corpus_without_pairs_is_told_so() -> None:
    with pytest.raises(WorkbenchError, match="no minimal pairs"):
        list(minimal_pairs(read("primer").docs("test", 5)))


def test_a_model_without_a_head_does_not_fit(tmp_path: Path) -> None:
    body = facts(headed.opened(zoo.make("bert", tmp_path)))
    (reason,) = misfits(EXPERIMENT, Settings(), [body])
    assert "language-model head" in str(reason)
