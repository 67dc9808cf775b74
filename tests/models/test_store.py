"""Activations on disk: the right numbers, found again by content, whole or not there."""

import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from tests import warm
from tests.cli.harms import in_time, put
from tests.models.stores import stored
from workbench import WorkbenchError, encode, read
from workbench.engine.activation_store import open_store
from workbench.engine.batch import Batch, save
from workbench.engine.words import by_word
from workbench.models.huggingface import HuggingFace
from workbench.models.loading import load

Folder = Callable[[str], Path]


@pytest.fixture(scope="module")
def batch() -> Batch:
    return encode(read("primer:size=60").docs("train"), ["constituents"])


@pytest.fixture(scope="module")
def bert(zoo_folder: Folder) -> HuggingFace:
    model = load(zoo_folder("bert"), "cpu")
    assert isinstance(model, HuggingFace)
    return model


def slowly(model: HuggingFace, batch: Batch) -> np.ndarray:
    """One document, one word at a time.  # [layers, words, width]"""
    rows = []
    for document in range(len(batch)):
        text = model.encode(batch, [document])
        with torch.no_grad():
            states = torch.stack(model.forward(text).hidden["encoder"])[:, 0]
        for word in range(int(text.word_counts[0])):
            own = states[:, text.words[0] == word]
            assert own.shape[1], "every word of primer has a piece"
            rows.append(own.mean(1))
    return torch.stack(rows, 1).numpy()


def test_rows_are_the_means_of_the_pieces_of_words(
    bert: HuggingFace, batch: Batch, tmp_path: Path
) -> None:
    store, _ = stored(bert, batch, tmp_path, kind="fp32", pieces=200)
    assert not store.missing.any()
    for layer, states in enumerate(slowly(bert, batch)):
        np.testing.assert_allclose(store.layer(layer).numpy(), states, atol=1e-5)
    assert layer == 2


def test_a_span_is_the_mean_of_its_words(bert: HuggingFace, batch: Batch, tmp_path: Path) -> None:
    edges = batch.edges["constituents"]
    document = np.repeat(np.arange(len(batch)), np.diff(edges.offsets))
    spans = np.column_stack([document, edges.span1]).astype(np.int64)
    store, _ = stored(bert, batch, tmp_path, spans=spans, kind="fp32")
    words, _ = stored(bert, batch, tmp_path, kind="fp32")
    by_words = words.layer(2).numpy()
    for row in range(0, len(spans), 7):
        number, first, last = spans[row]
        start = batch.word_offsets[number]
        expected = by_words[start + first : start + last].mean(0)
        np.testing.assert_allclose(store.layer(2)[row].numpy(), expected, atol=1e-5)


def test_half_precision_is_close_and_half_the_size(
    bert: HuggingFace, batch: Batch, tmp_path: Path
) -> None:
    full, _ = stored(bert, batch, tmp_path, kind="fp32")
    for kind, tolerance in (("fp16", 2e-3), ("bf16", 2e-2)):
        half, _ = stored(bert, batch, tmp_path, kind=kind)
        sizes = [(s.folder / "states.npy").stat().st_size for s in (half, full)]
        assert sizes[0] < 0.51 * sizes[1]
        close = half.layer(1).float() - full.layer(1)
        assert close.abs().max() < tolerance * full.layer(1).abs().max()


def test_the_same_question_is_answered_from_disk_and_another_is_not(
    bert: HuggingFace, batch: Batch, zoo_folder: Folder, tmp_path: Path
) -> None:
    first, report = stored(bert, batch, tmp_path)
    again, second = stored(load(zoo_folder("bert"), "cpu"), batch, tmp_path)
    assert report is not None
    assert second is None
    assert first.folder == again.folder
    with torch.no_grad():
        changed = load(zoo_folder("bert"), "cpu")
        assert isinstance(changed, HuggingFace)
        changed.net.get_input_embeddings().weight[7, 0] += 1e-3  # type: ignore[index,operator]
    other_text = encode(read("primer:size=60,seed=1").docs("train"))
    for question in (
        stored(changed, batch, tmp_path),
        stored(bert, other_text, tmp_path),
        stored(bert, batch, tmp_path, kind="bf16"),
    ):
        assert question[1] is not None, "answered from disk, though it was another question"
    assert len(list(tmp_path.iterdir())) == 4


WRITER = """
import sys, time
from pathlib import Path
from workbench.engine import activation_store, batch
from workbench.models.loading import load
model = load(sys.argv[1], "cpu")
slow = model.forward
def forward(*args, **options):
    print("batch", flush=True)
    time.sleep(0.05)
    return slow(*args, **options)
model.forward = forward
activation_store.word_states(model, batch.load(Path(sys.argv[2])), Path(sys.argv[3]), pieces=50)
"""


def test_a_killed_writer_leaves_nothing_that_reads_as_a_store(
    bert: HuggingFace, batch: Batch, zoo_folder: Folder, tmp_path: Path
) -> None:
    home = tmp_path / "stores"
    save(batch, tmp_path / "batch.safetensors")
    reading, writing = os.pipe()
    arguments = [str(zoo_folder("bert")), str(tmp_path / "batch.safetensors"), str(home)]
    writer = warm.start("-c", WRITER, *arguments, output=writing)
    os.close(writing)
    with open(reading) as messages:  # noqa: PTH123
        for _ in range(4):  # well within the writing
            assert messages.readline() == "batch\n"
        time.sleep(0.02)
        writer.kill()
        writer.join()
    assert [p.name[:9] for p in home.iterdir()] == [".writing-"]
    store, report = stored(bert, batch, home)
    assert report is not None
    assert report.documents == len(batch)
    assert torch.isfinite(store.layer(2)).all()


def test_numbers_too_large_for_half_precision_are_said(
    zoo_folder: Folder, batch: Batch, tmp_path: Path
) -> None:
    model = load(zoo_folder("gpt2"), "cpu")
    assert isinstance(model, HuggingFace)
    with torch.no_grad():
        model.net.get_input_embeddings().weight *= 1e7  # type: ignore[operator]
    with pytest.raises(WorkbenchError, match=r"too large for fp16.*\n.*bf16"):
        stored(model, batch, tmp_path)
    assert list(tmp_path.iterdir()) == []
    assert torch.isfinite(stored(model, batch, tmp_path, kind="bf16")[0].layer(0)).all()


def test_words_without_pieces_are_marked_missing() -> None:
    from workbench.engine.batch import Row, pad

    row = Row(
        ids=np.array([1, 2, 3]),
        words=np.array([0, 2, 2]),
        special=np.zeros(3, dtype=np.bool_),
        segments=None,
        word_count=3,
        unaligned=(1,),
    )
    states = torch.arange(12.0).view(1, 3, 4)
    found, owned = by_word(states, pad([row]))
    assert owned.tolist() == [[True, False, True]]
    assert found[0, :, 0].tolist() == [0.0, 0.0, 6.0]


def test_broken_stores_and_wrong_questions_are_errors(
    bert: HuggingFace, batch: Batch, tmp_path: Path
) -> None:
    store, _ = stored(bert, batch, tmp_path)
    with pytest.raises(WorkbenchError, match="no layer 3"):
        store.layer(3)
    with pytest.raises(WorkbenchError, match="no decoder stack"):
        stored(bert, batch, tmp_path, stack="decoder")
    with pytest.raises(WorkbenchError, match="no number format 'int8'"):
        stored(bert, batch, tmp_path, kind="int8")
    states = store.folder / "states.npy"
    put("pipe", states)
    with in_time(), pytest.raises(WorkbenchError, match="regular file"):
        store.layer(1)
    about = store.folder / "store.json"
    about.write_text(json.dumps({**json.loads(about.read_text()), "format": "other"}))
    with pytest.raises(WorkbenchError, match="its format is 'other'"):
        open_store(store.folder)
    about.write_text("{")
    with pytest.raises(WorkbenchError, match="file-format"):
        open_store(store.folder)


def test_a_folder_that_cannot_be_written_is_said(
    bert: HuggingFace, batch: Batch, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(WorkbenchError, match="cannot be written"):
        stored(bert, batch, tmp_path / "file")
