"""Directions of runs in the references of models: what they compute, and what is refused."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

import workbench as wb
from tests.judges.odd import run_here
from workbench import WorkbenchError
from workbench.analyses.predictions.target import Target
from workbench.analyses.steering import steering_corpus
from workbench.analyses.steering.experiments import Steering
from workbench.experiment import Inputs
from workbench.models.edit_terms import digest_of, terms_of, written
from workbench.runs.run import write_array

RUN = "steering-0123456789ab"
TEXT = "The girls did not visit it because they were tall."
SMALL = {"max_words": 1, "max_texts": 16, "random_directions": 20}


def planted(folder: Path, run: str = RUN, width: int = 128, seed: int = 0) -> torch.Tensor:
    """A run with directions of two pairs of words at five layers.  # [2, 5, width]"""
    drawn = np.random.default_rng(seed).normal(size=(2, 5, width)).astype(np.float32)
    write_array(folder / run, "directions", drawn)
    return torch.from_numpy(drawn)


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WORKBENCH_RUNS", str(tmp_path))
    return tmp_path


def logits(model: wb.Model) -> Tensor:
    from workbench.corpora.typed import readable
    from workbench.engine.batch import of_texts

    pieces = model.encode(of_texts([readable(TEXT).text]))
    more = {"targets": pieces} if model.objective == "seq2seq" else {}
    with torch.no_grad():
        found = model.forward(pieces, logits=True, **more).logits  # type: ignore[arg-type]
    assert isinstance(found, Tensor)
    return found


@pytest.mark.parametrize(
    ("name", "place", "site", "index"),
    [
        ("mini:bert", f"3.{RUN}", "block 3", (0, 3)),
        ("mini:gpt", f"2.{RUN}.2", "block 2", (1, 2)),
        ("mini:gpt", f"embeddings.{RUN}", "embeddings", (0, 0)),
        ("mini:t5", f"decoder.2.{RUN}", "decoder block 2", (0, 2)),
    ],
)
def test_it_is_what_write_adds_to_the_last_digit(
    runs: Path, name: str, place: str, site: str, index: tuple[int, int]
) -> None:
    vector = planted(runs)[index]
    model = wb.load(name, device="cpu")
    twin = wb.load(f"{name}@edit:{place}=1.5", device="cpu")
    assert twin.name == f"{name}@edit:{place}=1.5"
    found = logits(twin)
    assert torch.equal(found, logits(wb.Write(site, plus=1.5 * vector).into(model)))
    assert (found - logits(model)).abs().max() > 0.01
    assert model.edited(f"{place}=0") is model


def test_an_elmo_is_steered_after_its_states_are_scaled(runs: Path) -> None:
    model = wb.load("mini:elmo", device="cpu")
    vector = planted(runs, width=model.width)[0, 2]
    seen = []
    for one in (
        model.edited(f"2=0.5,2.{RUN}=2"),
        wb.Write("block 2", times=0.5, plus=2 * vector).into(model),
    ):
        seen.append(wb.fill(one, "The girls [MASK] tall.").table["probability"].tolist())
    assert seen[0] == seen[1]


def test_several_directions_and_heads_go_together_in_any_order(runs: Path) -> None:
    vectors = planted(runs)
    model = wb.load("mini:gpt", device="cpu")
    edit = f"3.{RUN}=2,2.1=0,3.{RUN}.2=-1"
    twin = model.edited(edit)
    assert twin.name == f"mini:gpt@edit:2.1=0,{edit.replace('2.1=0,', '')}"
    both = wb.Write("block 3", plus=2 * vectors[0, 3]).into(model.edited("2.1=0"))
    both = wb.Write("block 3", plus=-vectors[1, 3]).into(both)
    assert torch.equal(logits(twin), logits(both))
    assert (
        twin.content_hash == model.edited(f"3.{RUN}.2=-1").edited(f"3.{RUN}=2,2.1=0").content_hash
    )


def test_steering_stores_the_differences_that_it_adds(runs: Path) -> None:
    """After the last layer nothing mixes positions: effects are those of the edited model."""
    model, corpus = wb.load("mini:gpt", device="cpu"), wb.read("primer/counterfactuals")
    found = run_here("steering", model, corpus, **SMALL)
    vectors = torch.from_numpy(found.arrays["directions"])  # [pairs, layers, width]
    rows = found.tables["directions"]
    assert vectors.norm(dim=-1).flatten().tolist() == pytest.approx(rows["norm"].tolist())
    write_array(runs / RUN, "directions", found.arrays["directions"])
    inputs = Inputs((model,), (corpus,), split="test", seed=0, limit=None)
    (group,), n_untested = steering_corpus.word_pairs(model, inputs, Steering(**SMALL))
    untested = f"{n_untested} further pairs of words were not tested"
    assert n_untested > 1 and any(untested in each.text for each in found.caveats)
    last = model.stacks[-1].layers
    strengths = found.tables["strengths"].query(f"layer == {last}").set_index("strength")["effect"]
    for strength in (2.0,):
        sides: dict[bool, wb.Model] = {  # towards the other word
            is_first: model.edited(f"{last}.{RUN}={-strength if is_first else strength}")
            for is_first in (True, False)
        }
        effects = []
        for side, is_first, is_fitted in zip(
            group.sides, group.is_first, group.fitted(0), strict=True
        ):
            if is_fitted:
                continue
            value = Target(side.other, side.choice).value
            with torch.no_grad():
                plain, steered = (
                    float(value(of_model(each, side.prediction))[0])
                    for each in (model, sides[bool(is_first)])
                )
            effects.append(steered - plain)
        assert strengths[strength] == pytest.approx(np.mean(effects), abs=1e-5)
        assert np.mean(effects) > 0


def of_model(model: wb.Model, prediction: object) -> Tensor:
    """The logits of the same prediction by another model.  # [1, choices]"""
    from dataclasses import replace

    found: Tensor = replace(prediction, model=model).logits()  # type: ignore[type-var,attr-defined]
    return found


@pytest.mark.parametrize(
    ("edit", "code", "words"),
    [
        ("3.steering-ffff=2", "run-not-found", "workbench runs list"),
        (f"3.{RUN}.3=2", "direction-missing", "pair from 1 to 2"),
        (f"9.{RUN}=2", "layer-missing", "1 to 4"),
        ("3.steering-wide=2", "direction-misfit", "same width"),
        ("3.steering-short=2", "layer-missing", "last layer is 1"),
        ("3.steering-broken=2", "direction-missing", "Run steering again"),
        ("3.steering-old=2", "direction-missing", "Run steering again"),
        (f"decoder.3.{RUN}=2", "layer-missing", "Leave out decoder"),
        (f"3.{RUN}=mean", "edit-invalid", "Write a number"),
        ("embeddings=2", "edit-invalid", "For example"),
        ("3.steering-w", "edit-invalid", "For example"),
    ],
)
def test_what_is_not_there_is_refused_with_a_way_out(
    runs: Path, edit: str, code: str, words: str
) -> None:
    planted(runs)
    planted(runs, "steering-wide", 64)
    write_array(runs / "steering-short", "directions", np.ones((1, 2, 128), np.float32))
    write_array(runs / "steering-broken", "directions", np.ones(3, np.float32))
    (runs / "steering-old").mkdir()
    with pytest.raises(WorkbenchError) as caught:
        wb.load("mini:bert", device="cpu").edited(edit)
    assert caught.value.code == code and words in str(caught.value.remedy)


def test_the_beginning_of_a_name_is_enough_if_it_is_the_only_one(runs: Path) -> None:
    planted(runs)
    model = wb.load("mini:gpt", device="cpu")
    assert torch.equal(logits(model.edited("3.steering-01=2")), logits(model.edited(f"3.{RUN}=2")))
    planted(runs, "steering-0199")
    with pytest.raises(WorkbenchError, match="2 runs begin with steering-01"):
        model.edited("3.steering-01=2")


def test_other_numbers_are_another_model(runs: Path) -> None:
    planted(runs)
    before = digest_of(f"3.{RUN}=2")
    planted(runs, seed=1)
    assert digest_of(f"3.{RUN}=2") != before


def test_a_direction_of_the_encoder_of_a_t5_is_refused(runs: Path) -> None:
    planted(runs)
    with pytest.raises(WorkbenchError) as caught:
        wb.load("mini:t5", device="cpu").edited(f"2.{RUN}=1")
    assert f"Write decoder.2.{RUN}=1" in str(caught.value.remedy)


def test_a_direction_is_not_in_the_weights(runs: Path, tmp_path: Path) -> None:
    planted(runs)
    with pytest.raises(WorkbenchError, match="a direction is added"):
        wb.load(f"mini:gpt@edit:3.{RUN}=2", device="cpu").save(tmp_path / "saved")


def test_it_is_written_in_one_way() -> None:
    edit = f"embeddings.{RUN}=-0.50, 3.{RUN}.1=2.0,1.2=0,2.{RUN}=0"
    assert written(edit) == f"embeddings.{RUN}=-0.5,1.2=0,3.{RUN}=2"
    assert [term.site for term in terms_of(edit)] == ["embeddings", "head 1.2", "block 3"]
