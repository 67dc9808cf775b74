"""What matters on a GPU alone, where it can be shown without one: order, streams, arithmetic."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode

from tests.engine.card import CUDA, card
from tests.models.test_elmo import FORMS, SENTENCES
from workbench import WorkbenchError
from workbench.analyses.probes.representations import _together
from workbench.engine import forward_pass
from workbench.engine.batch import NO_WORD, Pieces
from workbench.engine.words import by_word
from workbench.models.elmo import Elmo
from workbench.models.loading import resolve_device


def _text(rows: list[list[int]]) -> Pieces:
    """A batch of which only the words that own the pieces matter."""
    words = torch.tensor(rows)
    one = torch.ones(len(rows), dtype=torch.int64)
    there = torch.ones_like(words, dtype=torch.bool)
    counts = torch.tensor([max(max(row) + 1, 0) for row in rows])
    return Pieces(words * 0, there, words, words == NO_WORD, None, counts, one, one)


def test_means_of_words_add_up_in_one_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """A GPU's `scatter_add_` adds in any order, so that a store would not be the same twice."""
    text = _text([[-1, 0, 0, 1, 3, -1], [0, 1, 1, 1, 2, 2]])
    states = torch.randn(2, 6, 5, generator=torch.Generator().manual_seed(0))
    expected, there = by_word(states, text)
    added: list[list[float]] = []
    add = Tensor.scatter_add_

    def watched(to: Tensor, dim: int, index: Tensor, values: Tensor) -> Tensor:
        added.append(values.detach().flatten().tolist())
        return add(to, dim, index, values)

    monkeypatch.setattr(Tensor, "scatter_add_", watched)
    with card():
        found, owned = by_word(states.to(CUDA), text.to(CUDA))
        assert found.device == owned.device == CUDA
        assert torch.allclose(found.cpu(), expected, atol=1e-6)
        assert torch.equal(owned.cpu(), there)
    assert all(value == 1 for values in added for value in values), "in any order the same"


def test_a_batch_copied_on_another_stream_is_kept_for_the_one_that_reads_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else its memory may be given to the next copy while it is still read."""
    events: list[tuple[str, object]] = []
    reads = SimpleNamespace(wait_stream=lambda other: events.append(("waits", other)))
    copies = object()
    model: Any = SimpleNamespace(device=CUDA)
    batches = [_text([[0, 1]]), _text([[0, 0, 1]])]
    with card() as here:
        monkeypatch.setattr(torch.cuda, "Stream", lambda device: copies)
        monkeypatch.setattr(torch.cuda, "current_stream", lambda device: reads)
        monkeypatch.setattr(Tensor, "record_stream", lambda self, by: events.append(("kept", by)))
        found = list(forward_pass._sent(model, iter(batches)))
        assert [text.ids.device for text in found] == [CUDA, CUDA]
        assert [text.words.tolist() for text in found] == [[[0, 1]], [[0, 0, 1]]]
        assert {name.split()[0] for name in here.waits} == {"tolist"}, (
            "pinned memory is copied meanwhile"
        )
    assert events.count(("waits", copies)) == 2
    assert events.count(("kept", reads)) == 2 * 4  # every tensor that a model reads, of both
    assert [what for what, _ in events[:2]] == ["waits", "kept"]


def test_an_elmo_convolves_in_full_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    """cuDNN's TF32 is on by default for convolutions, and off by one in a thousand."""
    seen, convolve = [], functional.conv1d
    flags = torch.backends.cudnn

    def watched(*given: Any) -> Tensor:
        seen.append((flags.allow_tf32, flags.enabled))
        return convolve(*given)

    before = (flags.allow_tf32, flags.enabled, flags.benchmark, flags.deterministic)
    monkeypatch.setattr(functional, "conv1d", watched)
    Elmo.random(next(iter(FORMS.values())), seed=0)(SENTENCES)
    assert seen and set(seen) == {(False, True)}
    assert (flags.allow_tf32, flags.enabled, flags.benchmark, flags.deterministic) == before


class _Made(TorchDispatchMode):
    """Counts the bytes of every tensor that an operation makes."""

    bytes = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None):  # type: ignore[no-untyped-def]
        found = function(*args, **(kwargs or {}))
        shares = "copy_" in str(function) or function.is_view
        if isinstance(found, Tensor) and not shares:
            self.bytes += found.numel() * found.element_size()
        return found


def test_the_states_of_all_layers_are_on_the_card_once() -> None:
    """A copy of each and then one of all took twice the memory that was counted on."""
    tables = [torch.randn(1_000, 16).half() for _ in range(7)]
    size = sum(table.numel() * table.element_size() for table in tables)
    with _Made() as made:
        found = _together(tables, torch.device("cpu"))
    assert torch.equal(found, torch.stack(tables))
    assert size <= made.bytes <= 1.2 * size


@pytest.mark.parametrize("name", ["mps", "meta", "nonsense", "xla:0"])
def test_other_devices_are_refused_by_name(name: str) -> None:
    with pytest.raises(WorkbenchError, match=f"no device '{name}'"):
        resolve_device(name)
