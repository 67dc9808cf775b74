"""A pipe or nonsense among a training's files is an error that names it, or is made again."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from transformers import ElectraConfig, ElectraForMaskedLM, ElectraForPreTraining

from tests.analyses.training.lessons import lesson, settings
from tests.cli.harms import in_time, put
from workbench import WorkbenchError
from workbench.analyses.training.curves import read_curves
from workbench.analyses.training.objectives.electra import Electra, open_electra
from workbench.analyses.training.train import CURVES, PREPARED, RECIPE, SCRATCH, read_recipe, train

HARMFUL = ["pipe", "socket", "endless", "deep", "no text"]


@pytest.mark.parametrize("harm", HARMFUL)
@pytest.mark.parametrize(("name", "read"), [(CURVES, read_curves), (RECIPE, read_recipe)])
def test_what_a_training_wrote(
    name: str, read: Callable[[Path], object], harm: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    put(harm, path)
    with in_time(), pytest.raises(WorkbenchError) as caught:
        read(path if name == CURVES else tmp_path)
    assert caught.value.where == str(path)
    assert str(caught.value).count(str(path)) == 1


@pytest.mark.parametrize("harm", ["deep", "no text"])
def test_a_note_that_cannot_be_read_is_made_again(harm: str, tmp_path: Path) -> None:
    out = tmp_path / "model"
    out.mkdir()
    (out / SCRATCH).mkdir()
    put(harm, out / SCRATCH / PREPARED)
    with in_time():
        assert train("gpt", lesson(), out, settings(1), home=tmp_path / "tokens").rows


def test_a_pipe_in_the_place_of_the_note_is_an_error(tmp_path: Path) -> None:
    note = tmp_path / "model" / SCRATCH / PREPARED
    note.parent.mkdir(parents=True)
    os.mkfifo(note)
    with in_time(), pytest.raises(WorkbenchError, match="regular file") as caught:
        train("gpt", lesson(), tmp_path / "model", settings(1), home=tmp_path / "tokens")
    assert caught.value.where == str(note)


@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
@pytest.mark.parametrize("half", ["generator", "."])
def test_electras_halves(half: str, name: str, tmp_path: Path) -> None:
    config = ElectraConfig(
        vocab_size=10,
        embedding_size=4,
        hidden_size=4,
        num_hidden_layers=1,
        num_attention_heads=1,
        intermediate_size=4,
        max_position_embeddings=8,
    )
    net = Electra(ElectraForMaskedLM(config), ElectraForPreTraining(config))
    net.save_pretrained(tmp_path)
    assert open_electra(tmp_path)
    put("pipe", tmp_path / half / name)
    with in_time(), pytest.raises(WorkbenchError):
        open_electra(tmp_path)
