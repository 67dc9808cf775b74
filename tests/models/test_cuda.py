"""On a GPU: the same answers, copies ahead of need, and going on where memory runs out."""

from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path

import pytest
import torch

from tests.models import zoo
from tests.models.documents import states_by_document
from tests.models.gated import opened, shared
from tests.models.test_attention import inputs, pieces
from workbench import Capture, Gate, Reduce, forward
from workbench.engine.batch import Batch
from workbench.engine.map_statistics import together
from workbench.models.huggingface import HuggingFace
from workbench.models.loading import load

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA GPU here")

NAMES = ("bert", "albert", "modernbert", "gpt2", "llama", "t5", "bart", "xlnet", "deberta-v2")


@pytest.fixture(scope="module")
def batch() -> Batch:
    """Plain sentences, made without spaCy."""
    import numpy as np

    words = "the cat saw a small bird near old trees and then ran home".split()
    texts, ranges, counts = [], [], []
    for i in range(300):
        chosen = [words[(i * 7 + k * (1 + i % 3)) % len(words)] for k in range(2 + i % 11)]
        at = 0
        for word in chosen:
            ranges.append((at, at + len(word)))
            at += len(word) + 1
        texts.append(" ".join(chosen).encode())
        counts.append(len(chosen))

    def offsets(sizes: list[int]) -> "np.ndarray":
        return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)

    return Batch(
        text=np.frombuffer(b"".join(texts), dtype=np.uint8),
        text_offsets=offsets([len(text) for text in texts]),
        words=np.array(ranges, dtype=np.int32),
        word_offsets=offsets(counts),
        segments=np.zeros(len(ranges), dtype=np.int8),
        order=np.arange(len(texts), dtype=np.int64),
    )


@pytest.fixture(autouse=True)
def exact() -> Iterator[None]:
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = False
    yield
    torch.backends.cuda.matmul.allow_tf32 = before


@pytest.mark.parametrize("name", NAMES)
def test_states_and_maps_are_those_of_the_cpu(name: str) -> None:
    here, there = shared(name), opened(name)
    there.net.to("cuda")
    plain = deepcopy(zoo.built(name, "eager")).to("cuda")
    text = pieces(here, 7, 9, True)
    maps, other = Capture(), Capture()
    with torch.no_grad():
        expected = here.forward(text, taps=[maps])
        found = there.forward(text.to("cuda"), taps=[other])
        fused = there.forward(text.to("cuda"), taps=[Gate(torch.ones(len(there.sites), 4).cuda())])
        given = {k: v.cuda() for k, v in inputs(here, text, text).items()}  # type: ignore[union-attr]
        answer = plain(**given).last_hidden_state
    stack = here.stacks[-1].name
    real = expected.texts[stack].mask
    for output in (found, fused):
        states = output.final[stack].cpu()[real]
        torch.testing.assert_close(states, expected.final[stack][real], atol=1e-4, rtol=1e-4)
        torch.testing.assert_close(states, answer.cpu()[real], atol=1e-4, rtol=1e-4)
    for site in here.sites:
        queries = expected.texts[site.stack].mask
        one, two = (c.maps[site][0].cpu().transpose(1, 2)[queries] for c in (maps, other))
        torch.testing.assert_close(one, two, atol=1e-5, rtol=1e-4)


def test_a_pass_with_copies_ahead_gives_what_the_cpu_gives(
    zoo_folder: Callable[[str], Path], batch: Batch
) -> None:
    here, there = (load(zoo_folder("bert"), device, "fp32") for device in ("cpu", "cuda"))
    expected = states_by_document(here, batch, pieces=200)
    found = states_by_document(there, batch, pieces=200)
    assert sorted(found) == sorted(expected)
    for document, states in expected.items():
        torch.testing.assert_close(found[document].cpu(), states, atol=1e-4, rtol=1e-4)


def test_auto_precision_on_a_gpu_is_bf16_and_said(
    zoo_folder: Callable[[str], Path], batch: Batch
) -> None:
    model = load(zoo_folder("bert"))
    assert (model.device.type, model.precision) == ("cuda", "bf16")
    report = forward(model, batch)
    assert (report.device, report.precision) == ("cuda:0", "bf16")


def test_when_the_card_is_full_the_batch_is_halved(
    zoo_folder: Callable[[str], Path], batch: Batch
) -> None:
    model = load(zoo_folder("bert"), "cuda", "fp32")
    assert isinstance(model, HuggingFace)
    expected, found = Reduce(together()), Reduce(together())
    forward(model, batch, taps=[expected], pieces=4000)
    torch.cuda.empty_cache()
    total = torch.cuda.get_device_properties(0).total_memory
    used = torch.cuda.memory_reserved()
    torch.cuda.set_per_process_memory_fraction((used + 6 * 2**20) / total)
    try:
        report = forward(model, batch, taps=[found], pieces=4000)
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    assert report.documents == len(batch)
    assert report.halvings > 0
    for site in model.sites:
        torch.testing.assert_close(
            found.total[site][:, :5], expected.total[site][:, :5], atol=1e-2, rtol=1e-4
        )
