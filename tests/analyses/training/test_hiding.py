"""What is hidden, and how much: settings of the recipe that reach the objective, or are refused."""

from pathlib import Path
from typing import Any

import pytest
import torch

from tests.analyses.training.lessons import lesson, settings
from tests.analyses.training.texts import tokenizer
from workbench import WorkbenchError
from workbench.analyses.training.batches import piece_task, split_held_out
from workbench.analyses.training.families import build, size_of
from workbench.analyses.training.packing import pack
from workbench.analyses.training.task import Plan
from workbench.analyses.training.token_store import tokenize_text
from workbench.analyses.training.train import train
from workbench.analyses.training.vocabulary import vocabulary_of


def hidden_share(folder: Path, **more: Any) -> tuple[float, float]:
    """The share of ordinary pieces with a target, in training and in the held-out text."""
    own = tokenizer("wordpiece", "bert")
    vocabulary = vocabulary_of(own)
    store = tokenize_text(lesson(), own, folder, processes=1)
    part, held = split_held_out(pack(store, vocabulary, 32), 0.2)
    net = build("bert", size_of("tiny", sequence_length=32), own, 0, "masked")
    task = piece_task("masked", net, part, held, Plan(batch_size=64), 1, **more)
    assert task.held_out is not None
    shares = []
    for micros in ([task.draw(step, 0) for step in range(5)], task.held_out()):
        wanted = sum(int(micro.counts[0]) for micro in micros)
        ordinary = sum(
            int((~vocabulary.special[micro.inputs["input_ids"]]).sum()) for micro in micros
        )
        masks = sum(int((micro.inputs["input_ids"] == vocabulary.mask).sum()) for micro in micros)
        shares.append(wanted / (ordinary + masks))
    return shares[0], shares[1]


def test_a_share_is_hidden_in_training_and_the_objectives_own_in_what_is_held_out(
    tmp_path: Path,
) -> None:
    assert hidden_share(tmp_path) == pytest.approx((0.15, 0.15), abs=0.01)
    assert hidden_share(tmp_path, corruption={"rate": 0.4}) == pytest.approx((0.4, 0.15), abs=0.01)


@pytest.mark.parametrize(("mask", "random"), [(1.0, 0.0), (0.0, 1.0), (0.5, 0.25), (0.0, 0.0)])
def test_hidden_pieces_become_the_mask_or_a_random_piece_as_often_as_set(
    mask: float, random: float, tmp_path: Path
) -> None:
    own = tokenizer("wordpiece", "bert")
    vocabulary = vocabulary_of(own)
    store = tokenize_text(lesson(), own, tmp_path, processes=1)
    part, held = split_held_out(pack(store, vocabulary, 32), 0.0)
    net = build("bert", size_of("tiny", sequence_length=32), own, 0, "masked")
    shares = settings(mask_rate=0.5, mask_share=mask, random_share=random).corruption()
    task = piece_task("masked", net, part, held, Plan(batch_size=64), 1, corruption=shares)
    masks = same = chosen = 0
    for step in range(5):
        inputs = task.draw(step, 0).inputs
        read = inputs["input_ids"].view(-1)[inputs["at"]]
        masks += int((read == vocabulary.mask).sum())
        same += int((read == inputs["gold"]).sum())
        chosen += len(read)
    assert masks / chosen == pytest.approx(mask, abs=0.03)
    # a random piece is the old one once in as many as there are pieces
    assert same / chosen == pytest.approx(1 - mask - random, abs=0.05)


def test_shares_of_what_hidden_pieces_become_are_refused_beyond_one(tmp_path: Path) -> None:
    with pytest.raises(WorkbenchError, match="together they must be at most 1"):
        train("roberta", lesson(), tmp_path / "out", settings(mask_share=0.8, random_share=0.3))


def test_spans_are_as_long_as_set(tmp_path: Path) -> None:
    own = tokenizer("unigram", "t5")
    vocabulary = vocabulary_of(own)
    store = tokenize_text(lesson(), own, tmp_path, processes=1)
    part, held = split_held_out(pack(store, vocabulary, 64), 0.0)
    net = build("t5", size_of("tiny", sequence_length=64), own, 0)
    spans = {}
    for mean in (2.0, 5.0):
        chosen = settings(mean_span=mean, mask_rate=0.3).corruption()
        task = piece_task(
            "random-spans", net, part, held, Plan(batch_size=64), 1, corruption=chosen
        )
        ids = task.draw(0, 0).inputs["input_ids"]
        spans[mean] = int(torch.isin(ids, torch.tensor(vocabulary.sentinels)).sum())
    assert spans[2.0] / spans[5.0] == pytest.approx(2.5, rel=0.15), "as many pieces in fewer spans"


@pytest.mark.parametrize(("share", "width"), [(0.25, 32), (0.5, 64), (1.0, 128)])
def test_a_generator_is_as_wide_as_set(share: float, width: int) -> None:
    net: Any = build("electra", size_of("mini", generator=share), tokenizer("wordpiece", "bert"), 0)
    assert net.generator.config.hidden_size == width and net.detector.config.hidden_size == 128


@pytest.mark.parametrize(
    ("family", "more", "what"),
    [
        ("roberta", {"mean_span": 3.0}, "masked has no mean_span"),
        ("t5", {"random_share": 0.1}, "random-spans has no random_share"),
        ("roberta", {"generator": 0.5}, "roberta has no generator"),
    ],
)
def test_a_setting_that_an_objective_lacks_is_refused(
    family: str, more: dict[str, Any], what: str, tmp_path: Path
) -> None:
    with pytest.raises(WorkbenchError, match=what):
        train(family, lesson(), tmp_path / "out", settings(**more))


def test_whole_words_are_hidden_whole(tmp_path: Path) -> None:
    own = tokenizer("wordpiece", "bert")
    vocabulary = vocabulary_of(own)
    store = tokenize_text(["unbelievable friendships misunderstood " * 50], own, tmp_path)
    net = build("bert", size_of("tiny", sequence_length=32), own, 0, "masked")
    part, held = split_held_out(pack(store, vocabulary, 32), 0.0)
    task = piece_task("masked", net, part, held, Plan(batch_size=8), 1, unit="word")
    inputs = task.draw(0, 0).inputs
    chosen = torch.zeros(inputs["input_ids"].shape, dtype=torch.bool)
    chosen.view(-1)[inputs["at"]] = True
    original = inputs["input_ids"].clone()
    original.view(-1)[inputs["at"]] = inputs["gold"]
    starts = vocabulary.word_starts(original)
    inside = ~starts[:, 1:] & ~vocabulary.special[original[:, 1:]]
    assert inside.any()
    assert (chosen[:, 1:] == chosen[:, :-1])[inside].all()


@pytest.mark.parametrize("share", [0.0, 1.0, -1.0])
def test_a_share_of_hidden_pieces_is_a_share(share: float, tmp_path: Path) -> None:
    with pytest.raises(WorkbenchError, match="mask_rate is"):
        train("roberta", lesson(), tmp_path / "out", settings(mask_rate=share))


def test_what_hides_no_share_refuses_one(tmp_path: Path) -> None:
    with pytest.raises(WorkbenchError, match="causal has no mask_rate"):
        train("gpt", lesson(), tmp_path / "out", settings(mask_rate=0.3))


def test_a_unit_is_one_there_is_and_one_that_is_hidden(tmp_path: Path) -> None:
    with pytest.raises(WorkbenchError, match="'wrod' is not a unit"):
        train("roberta", lesson(), tmp_path / "out", settings(mask_by="wrod"))
    with pytest.raises(WorkbenchError, match="causal has no mask_by"):
        train("gpt", lesson(), tmp_path / "out", settings(mask_by="word"))
    found = train("roberta", lesson(), tmp_path / "out", settings(2, mask_by="word"), device="cpu")
    assert found.recipe["settings"]["mask_by"] == "word"
