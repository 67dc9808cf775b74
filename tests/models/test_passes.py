"""A pass over a corpus: every document once, whatever its length, whatever the memory."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.models.documents import states_by_document
from workbench import Capture, Reduce, WorkbenchError, encode, forward, read
from workbench.engine.batch import Batch, Pieces
from workbench.engine.forward_pass import Progress
from workbench.engine.map_statistics import ALL, OFFSETS, together
from workbench.models.huggingface import HuggingFace
from workbench.models.loading import load

Folder = Callable[[str], Path]


@pytest.fixture(scope="module")
def batch() -> Batch:
    return encode(read("primer:size=60", unit="sentence").docs("train"))


@pytest.fixture(scope="module")
def bert(zoo_folder: Folder) -> HuggingFace:
    model = load(zoo_folder("bert"), "cpu")
    assert isinstance(model, HuggingFace)
    return model


def test_every_document_comes_once_whatever_the_batches(bert: HuggingFace, batch: Batch) -> None:
    alone = states_by_document(bert, batch, pieces=1)
    assert sorted(alone) == list(range(len(batch)))
    for pieces in (64, 500, 100_000):
        together_ = states_by_document(bert, batch, pieces=pieces)
        assert sorted(together_) == sorted(alone)
        for document, states in alone.items():
            torch.testing.assert_close(states, together_[document], atol=1e-5, rtol=1e-5)


def test_batches_keep_to_the_budget_and_waste_little(bert: HuggingFace, batch: Batch) -> None:
    sizes = []
    report = forward(bert, batch, lambda text, output: sizes.append(text.mask.numel()), pieces=200)
    assert max(sizes) <= 200
    assert report.documents == len(batch) == 60
    assert report.words == len(batch.words)
    assert report.padding < 0.15 * report.pieces
    assert (report.device, report.precision) == ("cpu", "fp32")


def test_a_reduction_over_the_corpus_does_not_depend_on_batches(
    bert: HuggingFace, batch: Batch
) -> None:
    totals = []
    for pieces in (1, 300, 100_000):
        reduce = Reduce(together())
        forward(bert, batch, taps=[reduce], hidden=False, pieces=pieces)
        totals.append(torch.stack([reduce.total[site] for site in bert.sites]))
    for other in totals[1:]:
        torch.testing.assert_close(other[..., :5], totals[0][..., :5], atol=1e-2, rtol=1e-5)
        assert (other[..., 5:] - totals[0][..., 5:]).abs().max() <= 2  # a near tie may turn


def test_the_statistics_are_what_the_maps_say(bert: HuggingFace, batch: Batch) -> None:
    """Against one row and one number at a time."""
    reduce, capture = Reduce(together()), Capture()
    texts: list[Pieces] = []
    forward(bert, batch, lambda text, out: texts.append(text), taps=[reduce, capture], pieces=400)
    site = bert.sites[1]
    slow = np.zeros((site.heads, 5 + len(OFFSETS)))
    for text, maps in zip(texts, capture.maps[site], strict=True):
        for row in range(len(text)):
            length = int(text.mask[row].sum())
            for head in range(site.heads):
                for query in range(length):
                    p = maps[row, head, query].double().numpy()
                    top = int(p.argmax()) - query
                    special = text.special[row].numpy()
                    slow[head, 0] += 1
                    slow[head, 1] += p.max()
                    slow[head, 2] -= sum(x * np.log(x) for x in p if x > 0)
                    slow[head, 3] += sum(x * abs(key - query) for key, x in enumerate(p))
                    slow[head, 4] += p[special].sum()
                    if abs(top) <= 8:
                        slow[head, 5 + top + 8] += 1
    np.testing.assert_allclose(reduce.total[site].numpy(), slow, rtol=1e-5, atol=1e-3)
    assert len(ALL) == 6


@pytest.fixture
def cramped(zoo_folder: Folder) -> Iterator[HuggingFace]:
    """A model that runs out of memory in its last block, when taps have seen all sites."""
    model = load(zoo_folder("bert"), "cpu")
    assert isinstance(model, HuggingFace)

    def run_out(module: Any, args: Any, output: Tensor) -> None:
        if output.shape[0] * output.shape[1] > ROOM[0]:
            raise torch.OutOfMemoryError("no room")

    hook = model.net.encoder.layer[-1].register_forward_hook(run_out)
    yield model
    hook.remove()


ROOM = [60]


def test_out_of_memory_halves_the_batch_and_goes_on(
    bert: HuggingFace, cramped: HuggingFace, batch: Batch
) -> None:
    ROOM[0] = 60
    expected, found = Reduce(together()), Reduce(together())
    forward(bert, batch, taps=[expected])
    sizes: list[int] = []
    report = forward(
        cramped, batch, lambda text, out: sizes.append(text.mask.numel()), taps=[found], pieces=1000
    )
    assert report.documents == 60
    assert 0 < report.halvings < 30, "the smaller size is remembered"
    assert max(sizes) <= 60
    for site in bert.sites:  # what the failed batches showed the taps does not count
        torch.testing.assert_close(
            found.total[site][:, :5], expected.total[site][:, :5], atol=1e-2, rtol=1e-5
        )


def test_one_document_too_large_for_memory_is_said(cramped: HuggingFace, batch: Batch) -> None:
    ROOM[0] = 2
    with pytest.raises(WorkbenchError, match=r"one document of \d+ pieces does not fit"):
        forward(cramped, batch)


def test_progress_counts_up_and_time_left_comes_to_nothing(bert: HuggingFace, batch: Batch) -> None:
    reports: list[Progress] = []
    forward(bert, batch, pieces=200, progress=reports.append)
    assert [p.done for p in reports] == sorted({p.done for p in reports})
    assert reports[-1].done == reports[-1].total == len(batch)


def test_an_empty_batch_is_a_pass_over_nothing(bert: HuggingFace) -> None:
    report = forward(bert, encode([]))
    assert (report.documents, report.pieces) == (0, 0)


def test_words_beyond_the_models_length_are_counted(bert: HuggingFace) -> None:
    long = encode(read("primer:size=60", unit="document").docs("train"))
    short = HuggingFace(bert.net, bert.tokenizer, "short")
    short.max_pieces = 12
    seen: list[int] = []
    report = forward(short, long, lambda text, output: seen.append(text.ids.shape[1]))
    assert max(seen) <= 12
    assert report.cut > 0
    assert report.words == len(long.words)


def test_no_batch_is_refused(bert: HuggingFace, batch: Batch) -> None:
    with pytest.raises(WorkbenchError, match="setting-invalid"):
        forward(bert, batch, pieces=0)
