"""`recurrence`: what a segment reads of the text before it, and a run that goes on."""

from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from torch import Tensor
from torch.nn import functional

import workbench as wb
from tests.analyses.architectures.stopped import StoppedError, Stops, run_of
from tests.analyses.training.texts import tokenizer
from tests.judges.test_judge_permuted import attended
from workbench import experiments
from workbench.analyses.architectures.figures import RECURRENCE_FIGURES
from workbench.analyses.architectures.recurrence import other_text, states_of
from workbench.analyses.training.families import Size, xlnet

SMALL: dict[str, Any] = {
    "steps": 3, "n_layers": 2, "width": 16, "n_heads": 2, "batch_size": 4, "segments": (4, 8),
    "memories": (0, 6), "vocabulary_size": 300, "seeds": (0, 1),
}  # fmt: skip


@pytest.fixture(scope="module")
def net() -> Any:
    torch.manual_seed(0)
    made: Any = xlnet(Size(3, 12, 2, 400, 16), tokenizer("unigram", "bert"), "uni")
    for weight in made.parameters():
        torch.nn.init.normal_(weight, std=0.4)
    return made.eval()


def ids_of(rows: int, length: int, seed: int = 0) -> Tensor:
    return torch.randint(10, 300, (rows, length), generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize(
    ("segment", "memory", "length", "scored"),
    [(3, 0, 6, 6), (3, 2, 9, 6), (2, 5, 8, 4), (5, 3, 10, 5), (1, 3, 5, 4)],
)
def test_the_loss_is_a_plain_loop(
    segment: int, memory: int, length: int, scored: int, net: Any
) -> None:
    """Layer by layer, a position reads its segment up to itself, and the memory before it."""
    ids, gold = ids_of(2, length), ids_of(2, scored, 1)
    with torch.no_grad():
        logits = net.lm_loss(states_of(net, ids, segment, memory, scored))
        found = functional.cross_entropy(logits.transpose(1, 2), gold, reduction="sum")
        expected = 0.0
        no_segments = torch.zeros(length, dtype=torch.long)
        for row in range(2):
            states = {p: net.transformer.word_embedding.weight[ids[row, p]] for p in range(length)}
            for block in net.transformer.layer:
                new = {}
                for place in range(length):
                    start = place - place % segment
                    seen = range(max(0, start - memory), place + 1)
                    read = {other: states[other] for other in seen}
                    new[place] = attended(block, place, states[place], read, no_segments)
                states = new
            for index in range(scored):
                scores = net.lm_loss(states[length - scored + index]).log_softmax(0)
                expected -= float(scores[gold[row, index]])
    assert float(found) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("memory", [0, 4])
def test_a_piece_reads_nothing_later_and_without_memory_nothing_before(
    memory: int, net: Any
) -> None:
    ids = ids_of(1, 12)
    with torch.no_grad():
        plain = states_of(net, ids, 4, memory, 8)
        for token in range(12):
            changed = ids.clone()
            changed[0, token] += 1
            moved = (states_of(net, changed, 4, memory, 8) - plain).abs().sum(2)[0] > 0
            for index, place in enumerate(range(4, 12)):
                if token > place:
                    assert not moved[index]
                elif token // 4 == place // 4:
                    assert moved[index]
                else:
                    assert bool(moved[index]) == (memory > 0), (token, place)


def test_no_gradient_goes_into_a_memory(net: Any) -> None:
    """The vectors of a segment alone learn from its loss, though others move it."""
    ids, table = ids_of(1, 8), net.get_input_embeddings()
    ids[0] = torch.arange(20, 28)
    net.zero_grad()
    states_of(net, ids, 4, 4, 4).square().sum().backward()  # type: ignore[no-untyped-call]
    learned = table.weight.grad.abs().sum(1).nonzero()[:, 0].tolist()
    assert learned == [24, 25, 26, 27]


def test_the_null_reads_the_memory_of_the_next_text(net: Any) -> None:
    ids = ids_of(3, 8)
    with torch.no_grad():
        found = states_of(net, ids, 4, 4, 4, other_text)
        for row in range(3):
            crossed = torch.cat([ids[[row - 1], :4], ids[[row], 4:]], 1)
            torch.testing.assert_close(found[[row]], states_of(net, crossed, 4, 4, 4))


# --- the experiment -------------------------------------------------------------------------------


run = partial(run_of, "recurrence", SMALL)


def test_tables_findings_figures_and_a_run_that_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path / "home"))
    with pytest.raises(StoppedError):
        run(tmp_path / "scratch", Stops())
    assert len(list((tmp_path / "scratch").glob("segment-*.json"))) == 4
    found, alone = run(tmp_path / "scratch").tables, run().tables
    for name in ("table", "positions", "costs"):
        pd.testing.assert_frame_equal(found[name], alone[name])
    cells = found["cells"]
    quarters = cells[[f"quarter_{number}" for number in (1, 2, 3, 4)]].mean(axis=1)
    assert quarters.to_numpy() == pytest.approx(cells["loss"].to_numpy(), rel=1e-5)
    of = found["table"].set_index(["segment", "memory"])
    assert of["delta"].isna().tolist() == [True, False, True, False]
    mean = cells.groupby(["segment", "memory"])["bits_per_character"].mean()
    for segment in (4, 8):
        assert of["delta"][segment, 6] == pytest.approx(mean[segment, 6] - mean[segment, 0])
    whole = found["costs"][found["costs"]["segment"] == 0].set_index("length")["operations"]
    parts = found["costs"][found["costs"]["segment"] == 4]
    assert whole[512] > 1.5 * whole[64]
    assert parts.groupby("memory")["operations"].nunique().tolist() == [1, 1]
    few, more = parts.groupby("memory")["operations"].first()
    assert few < more < whole[64], "four pieces that read six more"
    kind = experiments()["recurrence"]
    assert len(list(kind.findings(found))) == 7
    for draw in RECURRENCE_FIGURES.values():
        assert draw(found).data


def test_settings_that_do_not_fit_together_are_refused() -> None:
    kind = experiments()["recurrence"]
    with pytest.raises(wb.WorkbenchError, match="divide the largest"):
        kind.settings(segments=(5, 64))
    with pytest.raises(wb.WorkbenchError, match="0 or more"):
        kind.settings(memories=(-1,))
