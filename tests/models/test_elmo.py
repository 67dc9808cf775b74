"""ELMo gives what the original's equations give, worked out here in plain numpy, word by word."""

import json
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch
from torch import Tensor

from tests.night import mostly
from workbench.models.elmo import (
    Elmo,
    ElmoOptions,
    _lstm,
    cell_name,
    dataset_shapes,
    options_as_json,
)

SMALL = ElmoOptions(
    character_width=4,
    filters=((1, 4), (2, 6), (5, 8)),
    cells=12,
    width=5,
    cell_clip=0.3,
    projection_clip=0.15,
)
FORMS = {
    "as published": SMALL,
    "no skip connections": replace(SMALL, skip=False),
    "no clipping": replace(SMALL, cell_clip=None, projection_clip=None),
    "tanh, no highway": replace(SMALL, activation="tanh", highways=0),
    "one layer": replace(SMALL, layers=1),
    "three layers": replace(SMALL, layers=3),
    "filters as wide as the output": replace(SMALL, filters=((1, 2), (3, 3))),
    "cells as wide as the output": replace(SMALL, cells=5),
    "words of 12 characters": replace(SMALL, max_characters=12),
}
SENTENCES = [
    ["The", "naïve", "café", "漢字", "👩‍🚀", "."],
    ["Donaudampfschifffahrtsgesellschaftskapitänsmützenabzeichen", "x" * 48, "x" * 49, "x" * 80],
    ["ü" * 23 + "xü", "a\ud800b", ""],  # the 48th byte is half a letter; half a pair; nothing
    ["One"],
    ["The", "cat", "<S>", "sat", "</S>", "The", "The"],
]


def write(folder: Path, options: ElmoOptions, **changes: Any) -> tuple[Path, Path]:
    """The original's two files with random weights; a dataset is replaced, or left out for None."""
    rng = np.random.default_rng(0)
    values: dict[str, Any] = {
        name: rng.normal(scale=0.5, size=shape).astype(np.float32)
        for name, shape in dataset_shapes(options).items()
    }
    values |= changes
    folder.mkdir(exist_ok=True)
    (folder / "options.json").write_text(json.dumps(options_as_json(options)))
    with h5py.File(folder / "weights.hdf5", "w") as file:
        for name, value in values.items():
            if value is not None:
                file[name] = value
    return folder / "options.json", folder / "weights.hdf5"


class Original:
    """The equations of the TensorFlow program for one sentence, in float64, and its clip counts."""

    def __init__(self, options: Path, weights: Path) -> None:
        self.options = json.loads(options.read_text())
        with h5py.File(weights) as file:
            names: list[str] = []
            file.visit(names.append)
            held = [name for name in names if isinstance(file[name], h5py.Dataset)]
            self.weights = {name: file[name][...].astype(np.float64) for name in held}
        self.clipped = {"cell": 0, "projection": 0}

    def __call__(self, sentence: list[str]) -> list[np.ndarray]:
        """Each layer, boundaries removed.  # [words, 2 * width]"""
        tokens = [self.token(word) for word in ["<S>", *sentence, "</S>"]]
        forward = self.direction("RNN_0", tokens)
        backward = [layer[::-1] for layer in self.direction("RNN_1", tokens[::-1])]
        layers = [(tokens, tokens), *zip(forward, backward, strict=True)]
        return [np.array([[*f, *b] for f, b in zip(*pair, strict=True)])[1:-1] for pair in layers]

    def token(self, word: str) -> np.ndarray:
        cnn = self.options["char_cnn"]
        most = cnn["max_characters_per_token"]
        if word in ("<S>", "</S>"):
            ids = [258, 256 if word == "<S>" else 257, 259]
        else:
            ids = [258, *word.encode("utf-8", "ignore")[: most - 2], 259]
        ids += [260] * (most - len(ids))
        # The original adds a row of zeros before the file's rows, and one to each id.
        table = np.vstack([np.zeros((1, cnn["embedding"]["dim"])), self.weights["char_embed"]])
        letters = table[np.array(ids) + 1]  # [characters, letter]
        x = np.concatenate([self.filter(i, letters) for i in range(len(cnn["filters"]))])
        for i in range(cnn["n_highway"]):
            carry = sigmoid(self.affine(x, f"CNN_high_{i}", "carry"))
            x = (
                carry * np.maximum(self.affine(x, f"CNN_high_{i}", "transform"), 0)
                + (1 - carry) * x
            )
        return self.affine(x, "CNN_proj", "proj") if "CNN_proj/W_proj" in self.weights else x

    def filter(self, i: int, letters: np.ndarray) -> np.ndarray:
        kernel, bias = self.weights[f"CNN/W_cnn_{i}"][0], self.weights[f"CNN/b_cnn_{i}"]
        seen = len(kernel)  # [seen, letter, filters]
        windows = [letters[at : at + seen] for at in range(len(letters) - seen + 1)]
        best = np.max([np.einsum("sl,slf->f", window, kernel) + bias for window in windows], axis=0)
        return (
            np.maximum(best, 0)
            if self.options["char_cnn"]["activation"] == "relu"
            else np.tanh(best)
        )

    def affine(self, x: np.ndarray, group: str, name: str) -> np.ndarray:
        return x @ self.weights[f"{group}/W_{name}"] + self.weights[f"{group}/b_{name}"]

    def direction(self, root: str, inputs: list[np.ndarray]) -> list[list[np.ndarray]]:
        layers = []
        for i in range(self.options["lstm"]["n_layers"]):
            outputs = self.lstm(f"{root}/RNN/MultiRNNCell/Cell{i}/LSTMCell", inputs)
            if self.options["lstm"]["use_skip_connections"] and i > 0:
                outputs = [out + x for out, x in zip(outputs, inputs, strict=True)]
            layers.append(outputs)
            inputs = outputs
        return layers

    def lstm(self, name: str, inputs: list[np.ndarray]) -> list[np.ndarray]:
        lstm, outputs = self.options["lstm"], []
        m, c = np.zeros(lstm["projection_dim"]), np.zeros(lstm["dim"])
        for x in inputs:
            gates = np.concatenate([x, m]) @ self.weights[f"{name}/W_0"] + self.weights[f"{name}/B"]
            i, j, f, o = np.split(gates, 4)
            c = sigmoid(f + 1.0) * c + sigmoid(i) * np.tanh(j)
            c = self.clip("cell", c, lstm["cell_clip"])
            m = sigmoid(o) * np.tanh(c)
            if f"{name}/W_P_0" in self.weights:
                m = self.clip("projection", m @ self.weights[f"{name}/W_P_0"], lstm["proj_clip"])
            outputs.append(m)
        return outputs

    def clip(self, what: str, values: np.ndarray, most: float | None) -> np.ndarray:
        if most is None:
            return values
        self.clipped[what] += int((np.abs(values) > most).sum())
        return np.clip(values, -most, most)


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def apart(found: torch.Tensor, expected: Any) -> float:
    """The largest difference between the two."""
    assert found.shape == expected.shape
    return float(np.abs(found.detach().numpy() - np.asarray(expected)).max(initial=0))


@pytest.mark.parametrize("form", mostly(FORMS, "as published", "tanh, no highway", "three layers"))
def test_every_layer_of_every_word_is_the_originals(tmp_path: Path, form: str) -> None:
    files = write(tmp_path, FORMS[form])
    original, elmo = Original(*files), Elmo.from_original(*files)
    for sentence in SENTENCES:
        layers, mask = elmo([sentence])
        assert mask.all()
        expected = original(sentence)
        assert len(layers) == FORMS[form].layers + 1 == len(expected)
        for found, wanted in zip(layers, expected, strict=True):
            assert apart(found[0], wanted) < 1e-5
    if form == "as published":
        assert min(original.clipped.values()) > 100  # or nothing would be said of clipping


def test_sentences_of_many_lengths_in_one_batch_are_as_when_read_alone(tmp_path: Path) -> None:
    elmo = Elmo.from_original(*write(tmp_path, SMALL))
    batch = [SENTENCES[3], [], *SENTENCES, SENTENCES[0]]
    layers, mask = elmo(batch)
    assert mask.sum(dim=1).tolist() == [len(sentence) for sentence in batch]
    for row, sentence in enumerate(batch):
        alone, _ = elmo([sentence])
        for together, single in zip(layers, alone, strict=True):
            assert apart(together[row, : len(sentence)], single[0].detach()) < 1e-5
            assert not together[row, len(sentence) :].any()


def test_boundaries_stay_where_a_language_model_asks_for_them(tmp_path: Path) -> None:
    elmo = Elmo.from_original(*write(tmp_path, SMALL))
    (plain, _), (bounded, lengths) = elmo(SENTENCES[:1]), elmo.with_boundaries(SENTENCES[:1])
    assert lengths.tolist() == [len(SENTENCES[0]) + 2]
    assert all(torch.equal(p, b[:, 1:-1]) for p, b in zip(plain, bounded, strict=True))
    # Read forward, the first boundary cannot know what follows; read backward, it knows all.
    other, _ = elmo.with_boundaries([["Other", "words"]])
    first, second = bounded[-1][0, 0].split(SMALL.width), other[-1][0, 0].split(SMALL.width)
    assert torch.equal(first[0], second[0])
    assert not torch.allclose(first[1], second[1])


def test_without_sentences_there_are_layers_without_rows(tmp_path: Path) -> None:
    elmo = Elmo.from_original(*write(tmp_path, SMALL))
    layers, mask = elmo([])
    assert [layer.shape for layer in layers] == [(0, 0, 2 * SMALL.width)] * 3
    assert mask.shape == (0, 0)


def test_nothing_is_carried_from_one_batch_to_the_next(tmp_path: Path) -> None:
    elmo = Elmo.from_original(*write(tmp_path, SMALL))
    first, _ = elmo(SENTENCES)
    again, _ = elmo(SENTENCES)
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))


def test_more_distinct_words_than_are_spelt_at_once_come_out_in_their_places(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elmo = Elmo.from_original(*write(tmp_path, SMALL))
    whole, _ = elmo(SENTENCES)
    monkeypatch.setattr("workbench.models.elmo.WORDS_AT_ONCE", {"cpu": 3})
    parts, _ = elmo(SENTENCES)
    assert all(apart(p, w.detach()) < 1e-6 for p, w in zip(parts, whole, strict=True))


@pytest.mark.parametrize("form", FORMS)
def test_gradients_reach_every_weight(form: str) -> None:
    options = replace(FORMS[form], cell_clip=None, projection_clip=None)
    elmo = Elmo.random(options, seed=0)
    layers, _ = elmo(SENTENCES)
    sum(layer.square().sum() for layer in layers).backward()  # type: ignore[union-attr]
    assert [name for name, weight in elmo.weights.items() if not weight.grad.any()] == []


def test_what_is_saved_is_read_back_the_same_and_obeys_the_originals_equations(
    tmp_path: Path,
) -> None:
    elmo = Elmo.random(SMALL, seed=3)
    elmo.save_original(tmp_path)
    files = tmp_path / "options.json", tmp_path / "weights.hdf5"
    again = Elmo.from_original(*files)
    assert again.options == SMALL
    layers, same = elmo(SENTENCES)[0], again(SENTENCES)[0]
    assert all(torch.equal(a, b) for a, b in zip(layers, same, strict=True))
    assert apart(layers[2][0, : len(SENTENCES[0])], Original(*files)(SENTENCES[0])[2]) < 1e-5
    assert json.loads(files[0].read_text())["char_cnn"]["n_characters"] == 262
    with h5py.File(files[1]) as file:
        assert file["char_embed"].shape == (261, SMALL.character_width)


def test_half_precision_is_saved_as_the_original_has_it(tmp_path: Path) -> None:
    elmo = Elmo.random(SMALL, seed=3).bfloat16()
    layers, _ = elmo(SENTENCES)
    assert layers[0].dtype == torch.bfloat16
    elmo.save_original(tmp_path)
    again = Elmo.from_original(tmp_path / "options.json", tmp_path / "weights.hdf5")
    assert all(
        weight.dtype == torch.float32 and torch.equal(weight, elmo.weights[name].float())
        for name, weight in again.weights.items()
    )


def test_fresh_weights_follow_the_seed_and_leave_the_global_one_alone() -> None:
    torch.manual_seed(1)
    expected = torch.rand(1)
    torch.manual_seed(1)
    first, again, other = (Elmo.random(SMALL, seed=seed) for seed in (3, 3, 4))
    assert torch.equal(torch.rand(1), expected)
    for name, weight in first.weights.items():
        assert torch.equal(weight, again.weights[name])
        assert weight.ndim == 1 or not torch.equal(weight, other.weights[name])


def test_fresh_weights_are_drawn_as_the_originals_training_draws_them() -> None:
    options = ElmoOptions(character_width=8, filters=((3, 400),), cells=300, width=200)
    relu, tanh = (
        {name: weight.detach() for name, weight in Elmo.random(drawn, seed=0).weights.items()}
        for drawn in (options, replace(options, activation="tanh"))
    )
    cell = "RNN_1/RNN/MultiRNNCell/Cell1/LSTMCell"
    for weight, bound in (
        (relu["char_embed"], 1),
        (relu["CNN/W_cnn_0"], 0.05),
        (relu[f"{cell}/W_0"], (6 / (400 + 1200)) ** 0.5),
        (relu[f"{cell}/W_P_0"], (6 / (300 + 200)) ** 0.5),
    ):  # uniform up to the bound
        assert float(weight.abs().max()) == pytest.approx(bound, rel=0.01)
        assert float(weight.std()) == pytest.approx(bound / 3**0.5, rel=0.05)
    for weight, spread in (
        (tanh["CNN/W_cnn_0"], (3 * 8) ** -0.5),
        (relu["CNN_high_1/W_carry"], 400**-0.5),
        (relu["CNN_proj/W_proj"], 400**-0.5),
    ):  # normal
        assert float(weight.std()) == pytest.approx(spread, rel=0.05)
        assert float(weight.abs().max()) > 3 * spread
    assert (relu["CNN_high_0/b_carry"] == -2).all()
    assert not relu[f"{cell}/B"].any() and not relu["CNN_high_0/b_transform"].any()


def test_the_published_size_has_the_published_number_of_parameters() -> None:
    with torch.device("meta"):
        elmo = Elmo(ElmoOptions())
    assert sum(weight.numel() for weight in elmo.parameters()) == 93_600_848


TINY = replace(SMALL, cells=4, width=3)
PLAIN = replace(SMALL, cells=3, width=3)  # without a projection
LEARNS = ("rows", "weights", "both")


@pytest.mark.parametrize(
    ("options", "learns"),
    mostly(product((TINY, PLAIN), LEARNS), (TINY, "both"), (PLAIN, "rows"), (PLAIN, "weights")),
)
def test_gradients_equal_finite_differences(options: ElmoOptions, learns: str) -> None:
    torch.manual_seed(0)
    elmo = Elmo.random(options, seed=0).double()
    sizes = [3, 3, 2, 1]
    cell = cell_name(0, 0)
    names = [name for name in elmo.weights if name.startswith(cell)]
    weights = [elmo.weights[name].detach().clone() for name in names]
    rows = torch.randn(sum(sizes), options.width, dtype=torch.float64)

    def read(rows: Tensor, *own: Tensor) -> Tensor:
        return _lstm(rows, sizes, dict(zip(names, own, strict=True)), cell, options)  # type: ignore[arg-type]

    for given in (rows, *weights):
        given.requires_grad_(learns == "both" or (given is rows) == (learns == "rows"))
    assert torch.autograd.gradcheck(read, (rows, *weights), eps=1e-7)
