"""A classifier with neurons or a layer that it does not need: the recipe removes them.

The labels of the texts are the classifier's own predictions, so that it is always right. Its random
twin needs all of its parts, and a classifier that has learnt nothing has no score to keep.
"""

import json
import random
from dataclasses import replace
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from spacy.tokens import Doc

import workbench as wb
from tests.findings import findings_of
from tests.judges.odd import Quiet, run_here
from tests.models import headed
from tests.models.compression.test_planted import useless
from tests.night import mostly
from workbench.analyses.compression.lost import FEWEST
from workbench.analyses.smaller_model import recipe
from workbench.analyses.smaller_model.experiments import SMALLER_MODEL, SmallerModel, kept_share
from workbench.analyses.smaller_model.figures import FIGURES
from workbench.analyses.smaller_model.result import _quality
from workbench.core.metrics import class_metrics
from workbench.engine.batch import Batch
from workbench.engine.task import Task
from workbench.experiment import Inputs
from workbench.models.compression.layers import cut_layers
from workbench.models.compression.neurons import cut_neurons
from workbench.models.huggingface import HuggingFace
from workbench.models.output_heads.task_heads import StandardHead
from workbench.models.tokenization import pad_id

CLASSES = ("no", "yes")
TASK = Task("says", "class", "says", CLASSES, False, "accuracy")
SMALL: dict[str, Any] = {
    "methods": ("neurons", "layers"), "amounts": (0.5,), "recovery_epochs": 0, "rounds": 0,
    "metric": "accuracy",
}  # fmt: skip


@pytest.fixture(autouse=True)
def opens_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the new process, which takes longer than all else."""
    row = {"opened_by": "transformers", "code": "", "works": True, "difference": 0.0, "error": ""}
    monkeypatch.setattr(recipe, "opened", lambda *_: row)


def classifier(family: str = "gpt2", kind: str = "GPT2ForSequenceClassification") -> HuggingFace:
    """A model with random weights and a head for two classes."""
    model = headed.made(family, kind)
    model.net.config.pad_token_id = pad_id(model.tokenizer)
    model.task_head = StandardHead(TASK)
    return model


@torch.no_grad()
def states_of(model: HuggingFace, texts: Batch) -> torch.Tensor:
    """What the head of a classifier reads.  # [texts, width]"""
    head, model.net.score = model.net.score, torch.nn.Identity()
    states = model.forward(model.encode(texts), hidden=False, logits=True).logits
    model.net.score = head
    assert states is not None
    return states


@cache
def _docs(texts: int) -> list[Doc]:
    return list(islice(wb.read("primer:size=600").docs(), texts))


@torch.no_grad()
def corpus_of(model: HuggingFace, file: Path, texts: int = 160) -> wb.Corpus:
    """Texts with the classes that the model predicts, when its head reads what it needs most.

    That is what half of its neurons and layers change most. The plane between the classes goes
    through the mean, as the head has no bias.
    """
    docs = _docs(texts)
    batch = wb.encode(docs)
    states = states_of(model, batch)
    smaller = cut_neurons(cut_layers(model, 0.5, texts=batch), 0.5)
    changes = states - states_of(smaller, batch)
    direction = torch.linalg.svd(changes - changes.mean(0), full_matrices=False).Vh[0]
    mean = states.mean(0)
    direction -= direction @ mean / (mean @ mean) * mean
    model.net.score.weight.copy_(torch.stack([torch.zeros_like(direction), 10 * direction]))
    says = [CLASSES[int(value > 0)] for value in states @ direction]
    assert 0.2 < says.count("yes") / texts < 0.8
    rows = [{"text": doc.text, "says": each} for doc, each in zip(docs, says, strict=True)]
    file.write_text("\n".join(map(json.dumps, rows)))
    return wb.read(file)


def with_useless_layer(model: HuggingFace) -> HuggingFace:
    """A copy whose last layer adds nothing."""
    twin = model.copy()
    last = model.stacks[0].layers - 1
    with torch.no_grad():
        for name, weights in twin.net.named_parameters():
            if f"h.{last}." in name and "c_proj" in name:
                weights.zero_()
    return twin


def chosen(tables: Any) -> set[tuple[str, str]]:
    if "points" not in tables:
        return set()
    points = tables["points"]
    return {
        *zip(points["stage"][points["chosen"]], points["amount"][points["chosen"]], strict=True)
    }


@pytest.mark.parametrize(("part", "found"), [
    ("neurons", {("neurons", "50 %")}), ("none", set()),
    pytest.param("layers", {("layers", "50 %")}, marks=pytest.mark.slow),
])  # fmt: skip
def test_useless_parts_are_removed(part: str, found: set[tuple[str, str]], tmp_path: Path) -> None:
    model = classifier()
    planted = {"neurons": lambda: useless(model, "neurons"), "layers": lambda:
               with_useless_layer(model), "none": lambda: model}[part]()  # fmt: skip
    corpus = corpus_of(planted, tmp_path / "texts.jsonl")
    result = run_here("smaller-model", planted, corpus, **SMALL)
    assert chosen(result.tables) == found
    test = result.tables["kept"].iloc[-1]
    finding = findings_of("smaller-model", result.tables)["smaller model"]
    if found:
        before, after = result.tables["sizes"].itertuples()
        assert test["kept"] == 1 and after.disk < before.disk
        assert finding.verdict == "supported" and part in finding.claim
    else:  # the nearest model is named, and nothing is claimed
        assert finding.verdict == "not supported" and "Nothing can be cut" in finding.claim
    for name in FIGURES:
        if name != "speed" and (name != "lost" or "lost" in result.tables):
            assert len(FIGURES[name](result.tables).data)


def test_a_model_that_was_cut_too_far_is_trained_again(tmp_path: Path) -> None:
    model = classifier()
    corpus = corpus_of(model, tmp_path / "texts.jsonl")
    settings = {**SMALL, "methods": ("neurons",), "recovery_epochs": 2, "keep": 0.999}
    points = run_here("smaller-model", model, corpus, **settings).tables["points"]
    before, after = points.itertuples()
    assert (before.trained, after.trained, before.keeps) == (False, True, False)
    assert before.disk == after.disk and after.kept > before.kept


def test_a_run_goes_on_after_the_last_stage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = useless(classifier(), "neurons")
    corpus = corpus_of(model, tmp_path / "texts.jsonl")
    inputs = Inputs((model,), (corpus,), scratch=tmp_path / "scratch")
    (tmp_path / "scratch").mkdir()
    cut, done, stops = recipe._cut, list[str](), ["layers"]

    def stop(bench: Any, state: Any, stage: str) -> None:
        if stage in stops:
            stops.remove(stage)
            raise KeyboardInterrupt
        done.append(stage)
        cut(bench, state, stage)

    monkeypatch.setattr(recipe, "_cut", stop)
    with pytest.raises(KeyboardInterrupt):
        SMALLER_MODEL.import_code()(inputs, SmallerModel(**SMALL), Quiet())
    assert done == ["neurons"]
    tables = SMALLER_MODEL.import_code()(inputs, SmallerModel(**SMALL), Quiet()).tables
    assert done == ["neurons", "layers"]
    whole = run_here("smaller-model", model, corpus, **SMALL).tables
    for name in ("points", "scores", "kept", "sizes"):
        pd.testing.assert_frame_equal(tables[name], whole[name])


@pytest.mark.parametrize("plain", mostly((True, False), True))
def test_only_what_plain_transformers_opens(
    plain: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = useless(classifier(), "neurons")
    corpus = corpus_of(model, tmp_path / "texts.jsonl")
    monkeypatch.setattr(recipe, "is_plain", lambda folder: folder.name == recipe.ORIGINAL)
    settings = {**SMALL, "methods": ("neurons",), "plain": plain}
    result = run_here("smaller-model", model, corpus, **settings)
    assert chosen(result.tables) == (set() if plain else {("neurons", "50 %")})
    assert any("plain=false" in caveat.text for caveat in result.caveats) is plain


def test_nothing_is_cut_from_a_model_that_has_learnt_nothing(tmp_path: Path) -> None:
    model = classifier()
    corpus_of(model, tmp_path / "texts.jsonl")
    rows = [json.loads(line) for line in (tmp_path / "texts.jsonl").read_text().splitlines()]
    draw = random.Random(0)
    for row in rows:
        row["says"] = draw.choice(CLASSES)
    (tmp_path / "texts.jsonl").write_text("\n".join(map(json.dumps, rows)))
    keep = tmp_path / "model"
    inputs = Inputs((model,), (wb.read(tmp_path / "texts.jsonl"),), keep=keep)
    result = SMALLER_MODEL.import_code()(inputs, SmallerModel(**SMALL), Quiet())
    (finding,) = findings_of("smaller-model", result.tables).values()
    assert finding.verdict == "not supported" and "not learnt" in finding.claim
    assert "points" not in result.tables and not keep.exists()


def test_a_share_is_that_of_the_definition() -> None:
    """A plain loop: macro F1 after, divided by that before."""
    draw = np.random.default_rng(0)
    gold, one, other = (draw.integers(0, 3, 60) for _ in range(3))
    one[:40] = gold[:40]

    def macro(guess: Any) -> float:
        values = []
        for k in range(3):
            hits = sum(g == k and p == k for g, p in zip(gold, guess, strict=True))
            values.append(2 * hits / (sum(gold == k) + sum(guess == k)))
        return sum(values) / 3

    first, second = (class_metrics(gold, guess, 3)["f1"].value() for guess in (one, other))
    share = float(recipe._share(first, second, 1))
    assert share == pytest.approx(macro(other) / macro(one), abs=1e-9)
    assert recipe._share(0.5, 1.0, -1) == 0.5  # of an error, less is better
    assert recipe._share(-0.1, 0.3, 1) == 0  # nothing was there to keep


@pytest.mark.parametrize(
    ("typed", "share"),
    [("99%", 0.99), ("0.99", 0.99), ("99", 0.99), (0.9, 0.9), (95, 0.95), ("100 %", 1), (1, 1)],
)
def test_a_bound_is_read(typed: Any, share: float) -> None:
    assert SmallerModel(keep=typed).keep == pytest.approx(share) == kept_share(typed)


@pytest.mark.parametrize(
    "typed", ["", "all", "0", "-5%", "101", "0.99%", "nan", "inf", True, None, "9 9", "1e9%", [99]]
)
def test_a_bound_that_is_none_gets_a_sentence(typed: Any) -> None:
    with pytest.raises(wb.WorkbenchError, match="keep") as error:
        SmallerModel(keep=typed)
    assert "99%" in str(error.value)


def test_unbalanced_classes_have_another_score(tmp_path: Path) -> None:
    rows = [{"text": f"A text, number {n}.", "topic": "abc"[(n % 10 > 6) + (n % 10 > 8)]}
            for n in range(100)]  # fmt: skip
    rows[5]["topic"] = None
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, rows)))
    corpus = wb.read(tmp_path / "a.jsonl")
    settings = SmallerModel()
    task = recipe.task_of(corpus, "", "")
    split = recipe.split_of(corpus, task, None, 0, settings.sizes)
    metric, why = recipe._metric(split, settings)
    assert metric == "f1" and "macro F1" in why and "% of train and dev are 'a'" in why
    assert recipe._metric(split, SmallerModel(metric="accuracy"))[1] == ""


def test_the_page_names_the_metric_as_the_finding_does() -> None:
    row = {"model": "original", "value": 0.3, "lower": 0.2, "upper": 0.4, "baseline": 0.1}
    scores = [{**row, "metric": "accuracy", "decides": False},
              {**row, "metric": "f1", "decides": True}]  # fmt: skip
    tables = {"kept": pd.DataFrame([{"score": "macro F1"}]), "scores": pd.DataFrame(scores)}
    assert [name for _, name, *_ in _quality(tables)] == [
        "metric",
        "accuracy",
        "macro F1 (decides)",
    ]


def test_classes_that_were_not_tested_for_what_they_lost_are_named(tmp_path: Path) -> None:
    rows = [{"text": f"A text, number {n}.", "topic": "rare" if n % 20 == 0 else "ab"[n % 2]}
            for n in range(400)]  # fmt: skip
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, rows)))
    corpus = wb.read(tmp_path / "a.jsonl")
    task = recipe.task_of(corpus, "", "")
    split = recipe.split_of(corpus, task, None, 0, SmallerModel().sizes)
    number = [task.names[place] for place in split.test.gold].count("rare")
    assert number < FEWEST
    why = recipe._too_few(split)
    assert f": “rare” ({number}). " in why and "of test" in why
    enough = replace(split, test=replace(split.test, gold=(0, 1, 2) * FEWEST))
    assert recipe._too_few(enough) == ""
