"""`architectures`: equal targets, sizes and costs, masks without leaks, and a run that goes on."""

from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from torch import Tensor

import workbench as wb
from tests.analyses.architectures.stopped import CORPUS, StoppedError, run_of
from tests.analyses.training.batches import batch
from tests.analyses.training.texts import tokenizer
from tests.judges.odd import Quiet
from tests.night import mostly
from workbench import experiments
from workbench.analyses.architectures import compared
from workbench.analyses.architectures.compared import OBJECTIVE, scored
from workbench.analyses.architectures.compared import corrupted as corrupted_text
from workbench.analyses.architectures.experiments import ARMS, GOALS, Arm, Goal
from workbench.analyses.architectures.figures import FIGURES
from workbench.analyses.architectures.nets import ONE_STACK, OneStack, build, read_by
from workbench.analyses.architectures.trained import texts_of
from workbench.analyses.training.batches import micro
from workbench.analyses.training.families import Size
from workbench.analyses.training.objectives import known
from workbench.analyses.training.objectives.chunked_lm_loss import nats_at
from workbench.analyses.training.objectives.masked import IGNORED
from workbench.experiment import Inputs

SIZE = Size(2, 32, 2, 400, 32)
SMALL: dict[str, Any] = {
    "steps": 3, "n_layers": 2, "width": 16, "n_heads": 2, "batch_size": 4, "sequence_length": 16,
    "vocabulary_size": 300, "seeds": (0, 1),
}  # fmt: skip


def corrupted(goal: Goal, rows: int = 4, length: int = 24) -> tuple[dict[str, Tensor], int]:
    drawn = batch(rows, length, "t5", seed=3, ends=0.0, algorithm="unigram")
    generator = torch.Generator().manual_seed(0)
    function = known()[OBJECTIVE[goal]].corrupt
    pad = drawn.vocabulary.pad
    assert pad is not None
    return function(drawn.tokens, drawn.special, generator, drawn.vocabulary), pad


@pytest.fixture(scope="module")
def nets() -> dict[Arm, Any]:
    return {arm: build(arm, SIZE, tokenizer("unigram", "t5"), 0).eval() for arm in ARMS}


def test_weights_are_as_in_the_papers_table(nets: dict[Arm, Any]) -> None:
    """A stack's P: its layers without embeddings, position biases and last norm."""

    def blocks(net: Any) -> int:
        stacks = [net.stack] if isinstance(net, OneStack) else [net.encoder, net.decoder]
        every = {
            id(w): w.numel()
            for stack in stacks
            for block in stack.block
            for name, w in block.named_parameters()
            if w.ndim > 1 and "EncDecAttention" not in name and "relative" not in name
        }
        return sum(every.values())

    p = blocks(nets["language model"])
    sizes = {arm: blocks(net) / p for arm, net in nets.items()}
    assert sizes == {
        "encoder-decoder": 2, "shared encoder-decoder": 1, "half encoder-decoder": 1,
        "language model": 1, "prefix language model": 1,
    }  # fmt: skip
    shared = nets["shared encoder-decoder"]
    biases = [
        stack.block[0].layer[0].SelfAttention.relative_attention_bias.weight
        for stack in (shared.encoder, shared.decoder)
    ]
    assert biases[0] is not biases[1]


@pytest.mark.parametrize("goal", GOALS)
def test_all_predict_the_same_targets(goal: Goal) -> None:
    drawn, pad = corrupted(goal)
    expected = [row[row != IGNORED].tolist() for row in drawn["labels"]]
    for arm in ARMS:
        labels = read_by(arm, goal, drawn, pad, scored=True)["labels"]
        assert [row[row != IGNORED].tolist() for row in labels] == expected, arm
        learned = read_by(arm, goal, drawn, pad, scored=False)["labels"]
        more = int((learned != IGNORED).sum()) - sum(map(len, expected))
        everything = int(drawn["attention_mask"].sum()) - len(labels)
        from_all = arm == "language model" and goal == "language modelling"
        assert more == (everything if from_all else 0)


@pytest.mark.parametrize("goal", mostly(GOALS, "denoising"))
@pytest.mark.parametrize("arm", ARMS)
def test_a_target_is_predicted_from_the_input_and_the_targets_before_it(
    arm: Arm, goal: Goal, nets: dict[Arm, Any]
) -> None:
    """What moves a prediction: by changing every token of what is read, one at a time."""
    drawn, pad = corrupted(goal, rows=1, length=12)
    net, read = nets[arm], read_by(arm, goal, drawn, pad, scored=True)
    inputs = int(drawn["attention_mask"].sum())
    kept = {name: tensor for name, tensor in read.items() if name != "labels"}

    def logits(changed: dict[str, Tensor]) -> Tensor:
        with torch.no_grad():
            found = net(**changed)
        return found["logits"][0]  # type: ignore[no-any-return]

    plain = logits(kept)
    places = (read["labels"][0] != IGNORED).nonzero()[:, 0].tolist()
    names = ("input_ids",) if arm in ONE_STACK else ("input_ids", "decoder_input_ids")
    for name in names:
        for token in range(kept[name].shape[1]):
            ids = kept[name].clone()
            ids[0, token] = (ids[0, token] + 7) % 300 + 20
            moved = (logits({**kept, name: ids}) - plain).abs().sum(1) > 1e-6
            for place in places:
                is_target_side = name == "decoder_input_ids" or token >= inputs
                allowed = token <= place if is_target_side or arm == "language model" else True
                if arm == "language model" and not is_target_side:
                    allowed = True
                assert bool(moved[place]) == allowed, (name, token, place)
            if arm in ONE_STACK and token < inputs:  # what the input itself sees
                assert bool(moved[0]) == (token == 0 or arm == "prefix language model")


@pytest.mark.parametrize("goal", GOALS)
def test_the_loss_is_a_loop_over_targets(goal: Goal, nets: dict[Arm, Any]) -> None:
    """Each target from a pass over what comes before it and nothing else, one text at a time."""
    drawn, pad = corrupted(goal, rows=2)
    for arm, net in nets.items():
        with torch.no_grad():
            inputs = micro(
                read_by(arm, goal, drawn, pad, scored=True), known()[OBJECTIVE[goal]]
            ).inputs
            found, expected = float(nats_at(net, inputs)[0]), 0.0
            for row in range(len(drawn["labels"])):
                source = drawn["input_ids"][row][drawn["attention_mask"][row] > 0].tolist()
                targets = [t for t in drawn["labels"][row].tolist() if t != IGNORED]
                for number, target in enumerate(targets):
                    before = [pad, *targets[:number]]
                    if arm in ONE_STACK:
                        ids = torch.tensor([source + before])
                        mask = torch.zeros(1, 1, len(ids[0]), len(ids[0]), dtype=torch.bool)
                        whole = 0 if arm == "language model" else len(source)
                        for one in range(len(ids[0])):
                            mask[0, 0, one, : max(one + 1, whole)] = True
                        logits = net(ids, mask)["logits"][0, -1]
                    else:
                        logits = net(
                            input_ids=torch.tensor([source]),
                            decoder_input_ids=torch.tensor([before]),
                        ).logits[0, -1]
                    expected -= float(logits.log_softmax(0)[target])
        assert found == pytest.approx(expected, rel=1e-5), arm


# --- the experiment -------------------------------------------------------------------------------


class Stops(Quiet):
    """Progress that stops the run in the middle."""

    def __call__(self, done: int, total: int | None = None, doing: str = "") -> None:
        if total == 60 and done > 31:  # in the training of the eleventh cell
            raise StoppedError


run = partial(run_of, "architectures", SMALL)


@pytest.fixture(scope="module", params=[GOALS[:1], pytest.param(GOALS, marks=pytest.mark.slow)])
def found(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    goals = request.param
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WORKBENCH_HOME", str(tmp_path_factory.mktemp("home")))
        calls: list[Any] = []
        patch.setattr(compared, "scored", lambda *given: (calls.append(given), scored(*given))[1])
        result = run(objectives=goals)
        assert len(calls) == 2 * len(goals), "scored text is corrupted once, in batches and alone"
        yield result


def test_tables_findings_and_figures(found: Any) -> None:
    table, cells, pairs = (found.tables[name] for name in ("table", "cells", "pairs"))
    goals = list(dict.fromkeys(table["objective"]))
    assert list(zip(table["objective"], table["arm"], strict=True)) == [
        (goal, arm) for goal in goals for arm in ARMS
    ]
    assert len(cells) == 10 * len(goals)
    for _, row in table.iterrows():
        mine = cells[(cells["objective"] == row["objective"]) & (cells["arm"] == row["arm"])]
        assert row["bits_per_character"] == pytest.approx(mine["bits_per_character"].mean())
    of = table.set_index(["objective", "arm"])
    for goal in goals:
        costs, sizes = of.loc[goal]["operations"], of.loc[goal]["parameters"]
        one, two = costs["language model"], costs["encoder-decoder"]
        assert one == costs["prefix language model"]
        assert 0.8 < one / two < 1.3, "equal operations, but for attention of the one and the other"
        assert costs["shared encoder-decoder"] == two
        assert costs["half encoder-decoder"] < 0.75 * two
        assert sizes["encoder-decoder"] == max(sizes)
    for _, row in pairs.iterrows():
        mean = of["bits_per_character"].loc[row["objective"]]
        assert row["delta"] == pytest.approx(mean[row["arm"]] - mean[row["against"]])
        assert row["lower"] < row["delta"] < row["upper"]
    kind = experiments()["architectures"]
    claims = [finding.claim for finding in kind.findings(found.tables)]
    assert len(claims) == (7 if len(goals) == 2 else 4)
    for draw in FIGURES.values():
        assert draw(found.tables).data


@pytest.mark.slow  # by day that of `recurrence`, which trains by the same loop
def test_a_stopped_run_goes_on_to_the_same_numbers(
    found: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path / "home"))
    with pytest.raises(StoppedError):
        run(tmp_path / "scratch", Stops())
    assert len(list((tmp_path / "scratch").glob("*-*.json"))) == 10
    again = run(tmp_path / "scratch")
    pd.testing.assert_frame_equal(
        again.tables["cells"].drop(columns="seconds"), found.tables["cells"].drop(columns="seconds")
    )
    pd.testing.assert_frame_equal(again.tables["table"], found.tables["table"])


def test_the_unigram_model_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bits of the held-out targets by their frequencies in the targets of the training."""
    import math
    from collections import Counter

    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path))
    tables = run(arms=("language model",), objectives=("denoising",), seeds=(0,)).tables
    settings = experiments()["architectures"].settings(**SMALL)
    size = Size(2, 16, 2, 300, 16)
    texts = texts_of(
        Inputs((), (wb.read(CORPUS),), "train"), "t5", size, 16, tmp_path / "s", Quiet()
    )
    counts: Counter[int] = Counter()
    for step in range(settings.steps):
        counts.update(corrupted_text(texts, "denoising", 0, step, 4)["labels"].flatten().tolist())
    del counts[IGNORED]
    total = sum(counts.values()) + texts.vocabulary.size
    nats, characters = 0.0, 0
    for each in scored(texts, "denoising", 4):
        for target in each["labels"].flatten().tolist():
            if target != IGNORED:
                nats -= math.log((counts[target] + 1) / total)
                if not texts.vocabulary.special[target]:
                    characters += len(texts.tokenizer.convert_ids_to_tokens(target))
    (unigram,) = tables["table"]["unigram"]
    assert unigram == pytest.approx(nats / math.log(2) / characters)
    assert "pairs" not in tables and tables["table"]["lower"].isna().all()
    claims = [f.claim for f in experiments()["architectures"].findings(tables)]
    assert len(claims) == 1


def test_settings_that_cannot_be_are_refused() -> None:
    with pytest.raises(wb.WorkbenchError, match="multiple of 3 heads"):
        run(n_heads=3)
