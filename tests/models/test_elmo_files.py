"""Every fault in ELMo's two files is refused by file and by the name it has there."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch

from workbench import WorkbenchError
from workbench.models.elmo import Elmo, ElmoOptions, dataset_shapes

SMALL = ElmoOptions(character_width=4, filters=((1, 4), (2, 6)), cells=8, width=5)


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    Elmo.random(SMALL, seed=0).save_original(tmp_path)
    return tmp_path / "options.json", tmp_path / "weights.hdf5"


def refusal(files: tuple[Path, Path]) -> WorkbenchError:
    with pytest.raises(WorkbenchError) as caught:
        Elmo.from_original(*files)
    assert caught.value.remedy
    return caught.value


def change(options: Path, key: str, value: Any) -> None:
    """Set one key of the options, or leave it out for `...`."""
    raw = json.loads(options.read_text())
    *sections, last = key.split(".")
    section = raw
    for part in sections:
        section = section[part]
    if value is ...:
        del section[last]
    else:
        section[last] = value
    options.write_text(json.dumps(raw))


def test_datasets_are_named_and_shaped_as_the_original_has_them(files: tuple[Path, Path]) -> None:
    layout = {
        "char_embed": (261, 4),
        "CNN/W_cnn_0": (1, 1, 4, 4),
        "CNN/b_cnn_0": (4,),
        "CNN/W_cnn_1": (1, 2, 4, 6),
        "CNN/b_cnn_1": (6,),
        "CNN_proj/W_proj": (10, 5),
        "CNN_proj/b_proj": (5,),
    }
    for i in range(2):
        layout |= {f"CNN_high_{i}/W_{gate}": (10, 10) for gate in ("carry", "transform")}
        layout |= {f"CNN_high_{i}/b_{gate}": (10,) for gate in ("carry", "transform")}
    for cell in (f"RNN_{i}/RNN/MultiRNNCell/Cell{j}/LSTMCell" for i in range(2) for j in range(2)):
        layout |= {f"{cell}/W_0": (10, 32), f"{cell}/B": (32,), f"{cell}/W_P_0": (8, 5)}
    with h5py.File(files[1]) as file:
        names: list[str] = []
        file.visit(names.append)
        found = {n: file[n].shape for n in names if isinstance(file[n], h5py.Dataset)}
        assert {file[name].dtype for name in found} == {np.dtype("float32")}
    assert found == layout


def test_there_is_no_projection_where_the_width_is_right_without() -> None:
    assert not any("proj" in name for name in dataset_shapes(replace(SMALL, width=10, cells=12)))
    assert not any("W_P_0" in name for name in dataset_shapes(replace(SMALL, width=8)))


@pytest.mark.parametrize("name", dataset_shapes(SMALL))
def test_a_missing_dataset_is_named_with_the_shape_it_should_have(
    files: tuple[Path, Path], name: str
) -> None:
    with h5py.File(files[1], "a") as file:
        del file[name]
    error = refusal(files)
    assert error.where == str(files[1])
    assert f"{name!r}" in error.what and str(list(dataset_shapes(SMALL)[name])) in error.what


@pytest.mark.parametrize("name", dataset_shapes(SMALL))
def test_a_misshapen_dataset_is_named_with_both_shapes(files: tuple[Path, Path], name: str) -> None:
    shape = dataset_shapes(SMALL)[name]
    wrong = (*shape[:-1], shape[-1] + 1)
    with h5py.File(files[1], "a") as file:
        del file[name]
        file[name] = np.zeros(wrong, dtype=np.float32)
    error = refusal(files)
    assert error.where == str(files[1])
    assert all(part in error.what for part in (f"{name!r}", str(list(shape)), str(list(wrong))))


@pytest.mark.parametrize("wrong", [np.zeros(5, dtype=np.int64), b"text", None])
def test_a_dataset_must_hold_floats(files: tuple[Path, Path], wrong: Any) -> None:
    with h5py.File(files[1], "a") as file:
        del file["CNN_proj/b_proj"]
        if wrong is None:
            file.create_group("CNN_proj/b_proj")
        else:
            file["CNN_proj/b_proj"] = wrong
    assert "'CNN_proj/b_proj'" in refusal(files).what


@pytest.mark.parametrize(
    ("key", "value", "left_over"),
    [
        ("lstm.n_layers", 1, "RNN_0/RNN/MultiRNNCell/Cell1"),
        ("char_cnn.n_highway", 1, "CNN_high_1"),
        ("char_cnn.n_highway", ..., "CNN_high_0"),
    ],
)
def test_weights_that_the_options_would_leave_out_are_named(
    files: tuple[Path, Path], key: str, value: Any, left_over: str
) -> None:
    change(files[0], key, value)
    assert f"{left_over!r}" in refusal(files).what


def test_datasets_of_the_language_models_softmax_do_no_harm(files: tuple[Path, Path]) -> None:
    with h5py.File(files[1], "a") as file:
        file["softmax/W"] = np.zeros((7, 5), dtype=np.float32)
    Elmo.from_original(*files)


@pytest.mark.parametrize("first", [True, False], ids=["zeros first", "unused last"])
def test_a_spare_row_of_characters_is_left_out(files: tuple[Path, Path], first: bool) -> None:
    expected = Elmo.from_original(*files).weights["char_embed"]
    rows = expected.detach().numpy()
    spare = np.zeros((1, 4), dtype=np.float32)
    with h5py.File(files[1], "a") as file:
        del file["char_embed"]
        file["char_embed"] = np.vstack([spare, rows] if first else [rows, spare + 1])
    assert torch.equal(Elmo.from_original(*files).weights["char_embed"], expected)


def test_weights_in_double_precision_are_read(files: tuple[Path, Path]) -> None:
    expected = Elmo.from_original(*files)(["A", "word"])[0]
    with h5py.File(files[1], "a") as file:
        for name in dataset_shapes(SMALL):
            values = file[name][...].astype(np.float64)
            del file[name]
            file[name] = values
    found = Elmo.from_original(*files)(["A", "word"])[0]
    assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))


def test_a_text_file_in_the_place_of_the_weights(files: tuple[Path, Path]) -> None:
    files[1].write_text("these are no weights\n")
    error = refusal(files)
    assert "HDF5" in error.what and error.where == str(files[1])


def test_a_name_that_is_no_text(files: tuple[Path, Path]) -> None:
    damaged = files[1].read_bytes().replace(b"CNN_high_1", b"CNN_high_\xff")
    files[1].write_bytes(damaged)
    assert "CNN_high_" in refusal(files).what


def test_weights_that_were_cut_off_or_are_not_there(files: tuple[Path, Path]) -> None:
    whole = files[1].read_bytes()
    files[1].write_bytes(whole[: len(whole) // 2])
    assert refusal(files).where == str(files[1])
    files[1].unlink()
    assert "no such file" in refusal(files).what


@pytest.mark.parametrize(
    "key",
    """char_cnn char_cnn.activation char_cnn.embedding.dim char_cnn.filters
    char_cnn.max_characters_per_token lstm lstm.dim lstm.projection_dim
    lstm.use_skip_connections""".split(),
)
def test_a_missing_option_is_named(files: tuple[Path, Path], key: str) -> None:
    change(files[0], key, ...)
    error = refusal(files)
    assert error.where == str(files[0])
    assert f"'{key}" in error.what  # of a missing section, its first key


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("char_cnn.activation", "gelu"),
        ("char_cnn.embedding.dim", 0),
        ("char_cnn.filters", []),
        ("char_cnn.filters", [[1, 4], [2]]),
        ("char_cnn.filters", [[1, 4], [0, 6]]),
        ("char_cnn.filters", {"1": 4}),
        ("char_cnn.max_characters_per_token", 2),
        ("char_cnn.n_characters", 60),
        ("char_cnn.n_highway", -1),
        ("lstm.dim", "8"),
        ("lstm.dim", True),
        ("lstm.projection_dim", 9),
        ("lstm.n_layers", 0),
        ("lstm.n_layers", 2.0),
        ("lstm.cell_clip", 0),
        ("lstm.cell_clip", "3"),
        ("lstm.proj_clip", True),
        ("lstm.use_skip_connections", 1),
    ],
)
def test_an_option_out_of_its_range_is_named(
    files: tuple[Path, Path], key: str, value: Any
) -> None:
    change(files[0], key, value)
    error = refusal(files)
    assert error.where == str(files[0])
    assert key in error.what


def test_words_must_hold_the_widest_filter(files: tuple[Path, Path]) -> None:
    change(files[0], "char_cnn.filters", [[1, 4], [51, 6]])
    assert "char_cnn.max_characters_per_token is 50, below 51" in refusal(files).what


@pytest.mark.parametrize("characters", [261, 262, ...])
def test_the_number_of_characters_is_said_as_in_training_or_as_when_run(
    files: tuple[Path, Path], characters: Any
) -> None:
    change(files[0], "char_cnn.n_characters", characters)
    assert Elmo.from_original(*files).options == SMALL


def test_keys_of_training_do_no_harm_and_missing_clips_mean_none(files: tuple[Path, Path]) -> None:
    change(files[0], "dropout", 0.1)
    change(files[0], "lstm.cell_clip", ...)
    change(files[0], "lstm.proj_clip", None)
    options = Elmo.from_original(*files).options
    assert options.cell_clip is None and options.projection_clip is None


@pytest.mark.parametrize(
    ("text", "line"), [("", ":1"), ('{"lstm":\n oops}', ":2"), ("[1, 2]", ""), ("3", "")]
)
def test_options_that_are_not_an_object_in_json(
    files: tuple[Path, Path], text: str, line: str
) -> None:
    files[0].write_text(text)
    assert refusal(files).where == f"{files[0]}{line}"


def test_options_that_are_not_there_or_not_text(files: tuple[Path, Path]) -> None:
    files[0].write_bytes(b"\xff\xfe\x00")
    assert "UTF-8" in refusal(files).what
    files[0].unlink()
    assert "cannot be read" in refusal(files).what
    address = Path("https://example.org/options.json")
    assert "on this machine" in refusal((address, files[1])).remedy


def test_options_made_in_python_are_checked_too() -> None:
    with pytest.raises(WorkbenchError, match="projection_dim is 9, above"):
        ElmoOptions(cells=8, width=9)
