"""Experiments on an edited model by its reference: they read the model with the edit in it."""

from pathlib import Path
from typing import Any

import pytest

import workbench as wb
from tests.composition.producers import PRIMER
from tests.composition.test_matrix import EXPERIMENT_SETTINGS, corpus_of, home  # noqa: F401
from tests.night import mostly
from workbench import WorkbenchError
from workbench.models.net_parts import probe
from workbench.runs import launch
from workbench.runs.execute import open_inputs
from workbench.runs.request import make_request
from workbench.runs.subruns import in_process

EDIT = "mini:bert@edit:1.mlp=0.5,3.2=0"
EDIT_OF_HEAD = "mini:bert@edit:3.2=0"
TAKERS = ("heads", "lens", "minimal-pairs", "patching", "attribution", "contributions",
          "edge-probing", "finetune", "head-pruning", "neighbours", "geometry")  # fmt: skip


def run(name: str, model: wb.Model | str, **more: Any) -> wb.Run:
    corpus, settings = EXPERIMENT_SETTINGS[name]
    return wb.run(
        name, model=model, corpus=corpus_of(corpus or PRIMER), device="cpu",
        progress=lambda event: None, **{**settings, **more},
    )  # fmt: skip


@pytest.mark.usefixtures("home", "undrawn")
@pytest.mark.parametrize("name", mostly(TAKERS, "minimal-pairs"))
def test_an_experiment_takes_a_model_with_an_edit(name: str) -> None:
    corpus, settings = EXPERIMENT_SETTINGS[name]
    asked = make_request(name, [EDIT], [corpus_of(corpus or PRIMER)], settings, device="cpu").spec
    found = launch.start(asked, compute=in_process(open_inputs))
    again = wb.open_run(found.name)
    assert again.spec.models[0].name == again.spec.models[0].ref == EDIT
    assert again.findings == found.findings


def name_of(model: str) -> str:
    """The name of a run of `profile` on the model of this reference."""
    _, settings = EXPERIMENT_SETTINGS["profile"]
    request = make_request("profile", [model], [corpus_of(PRIMER)], settings, device="cpu")
    return request.spec.name


@pytest.mark.usefixtures("home", "undrawn")
def test_its_loss_is_that_of_the_edited_model_in_python() -> None:
    model = wb.load("mini:bert", device="cpu")
    edited, plain = (
        run("profile", each) for each in (model.edited("3.2=0").edited("1.mlp=0.5"), model)
    )
    assert name_of(EDIT) == edited.name != plain.name, "the same content, the same run"
    assert not edited.tables["losses"].equals(plain.tables["losses"])


@pytest.mark.usefixtures("home", "undrawn")
def test_an_ablation_counts_an_edited_head_as_it_is() -> None:
    """A head that is off changes nothing when it is removed; another one changes something."""
    model = wb.load(EDIT, device="cpu")
    table = run("head-ablation", model).tables["ablation"].query("metric == 'loss'")
    changes = table.set_index(["layer", "head"])["delta"]
    assert changes[2, 1] == 0 and (changes.drop((2, 1)) != 0).all()


@pytest.mark.usefixtures("home", "undrawn")
def test_an_experiment_takes_a_direction_of_a_run() -> None:
    ref = "mini:gpt@edit:3.steering-mini-gpt=-1"
    edited, plain = (run("profile", wb.load(each, device="cpu")) for each in (ref, "mini:gpt"))
    assert name_of(ref) == edited.name != plain.name, "the same content, the same run"
    assert not edited.tables["losses"].equals(plain.tables["losses"])


@pytest.mark.usefixtures("home")
def test_a_request_with_a_wrong_edit_is_refused_before_it_runs(tmp_path: Path) -> None:
    for edit, code in (("3.9=0", "head-missing"), ("3.2", "edit-invalid")):
        with pytest.raises(WorkbenchError) as caught:
            run("profile", f"mini:bert@edit:{edit}")
        assert caught.value.code == code
    assert not (tmp_path / "runs").exists() or not any((tmp_path / "runs").glob("profile*"))


def test_a_model_is_edited_while_an_explanation_reads_other_vectors_with_it() -> None:
    """As when the app goes on to a head while the page before still explains a prediction."""
    model: Any = wb.load("mini:bert", device="cpu")
    vectors = model.input_vectors(probe(model.net))
    with model.reading({stack: 0 * each for stack, each in vectors.items()}):
        edited = model.edited("3.2=0")
    text = "The girls [MASK] tall."
    expected = wb.fill(wb.load(EDIT_OF_HEAD, device="cpu"), text).first
    found = wb.fill(edited, text).first
    assert (found.text, found.probability) == (expected.text, expected.probability)
