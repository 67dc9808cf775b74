"""What heads are told to learn, and what is read off them."""

import math

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from tests.analyses.transfer.conftest import corpus_of, doc_of, of_words
from tests.minis import shared
from workbench.analyses.transfer.adaptation import fitting_of
from workbench.analyses.transfer.backbone import body_of
from workbench.analyses.transfer.experiments import Sizes
from workbench.analyses.transfer.features import Live
from workbench.analyses.transfer.trainer import guessed
from workbench.corpora.layers import Mention, set_spans
from workbench.corpora.splits import SplitSizes
from workbench.corpora.tasks import (
    Examples,
    Task,
    as_text,
    majority,
    metrics_of,
    split_of,
    task_of,
)
from workbench.models.output_heads.task_heads import BidirectionalLSTM, MixHead, Read, Scale, pooled

WIDTH = 6


def task(kind: str, names: tuple[str, ...] = (), pairs: bool = False) -> Task:
    return Task("t", kind, "t", names, pairs, "")  # type: ignore[arg-type]


def read(words: int = 5, texts: int = 2, second: int = 5) -> Read:
    """Texts of so many words, the last of the second text unseen; parted at `second`."""
    torch.manual_seed(1)
    there = torch.ones(texts, words, dtype=torch.bool)
    there[-1, -1] = False
    parted = (torch.arange(words) >= second).expand(texts, -1)
    return Read(torch.randn(texts, words, WIDTH), there, parted)


def head(of: Task, lstm: bool = False, scale: Scale | None = None) -> MixHead:
    torch.manual_seed(0)
    own = MixHead(of, 1, WIDTH, lstm, scale or Scale()).eval()
    for layer in own.linear:  # a plain head begins with zeros, which would say nothing here
        torch.nn.init.normal_(layer.weight, std=0.3)
    return own


def test_a_text_is_the_mean_and_the_largest_of_its_words_and_nothing_is_nought() -> None:
    words = torch.tensor([[[1.0, 5.0], [3.0, 1.0], [100.0, 100.0]]])
    seen = torch.tensor([[True, True, False]])
    assert pooled(words, seen).tolist() == [[2.0, 3.0, 3.0, 5.0]]
    assert pooled(words, ~torch.ones_like(seen)).tolist() == [[0.0] * 4]


def test_reading_both_ways_is_torchs_bidirectional_lstm() -> None:
    torch.manual_seed(0)
    own, other = BidirectionalLSTM(6, 8), nn.LSTM(6, 4, batch_first=True, bidirectional=True)
    names = dict(other.named_parameters())
    for side, suffix in ((own.forth, ""), (own.back, "_reverse")):
        for name, weights in side.named_parameters():
            weights.data.copy_(names[name + suffix])
    sizes = torch.tensor([5, 1, 3])
    there = torch.arange(5) < sizes[:, None]
    words = torch.randn(3, 5, 6)  # what stands after an end is not nought either
    packed = pack_padded_sequence(words, sizes, batch_first=True, enforce_sorted=False)
    wanted, _ = pad_packed_sequence(other(packed)[0], batch_first=True)
    torch.testing.assert_close(own(words, there), wanted)


@pytest.mark.parametrize("lstm", [False, True])
@pytest.mark.parametrize("kind", ["class", "score", "tags", "answers"])
def test_padding_and_unseen_words_say_nothing(kind: str, lstm: bool) -> None:
    """More padding, or another vector where no word is seen, leaves every answer as it is."""
    own = head(task(kind, ("a", "b"), pairs=kind == "answers"), lstm)
    one = read(second=2)
    wide = Read(
        torch.cat([one.words, torch.randn(2, 3, WIDTH)], 1),
        torch.cat([one.there, torch.zeros(2, 3, dtype=torch.bool)], 1),
        torch.cat([one.second, torch.zeros(2, 3, dtype=torch.bool)], 1),
    )
    with torch.no_grad():
        before, after = own(one), own(wide)
    if kind == "tags":
        assert torch.allclose(before[one.there], after[:, :5][one.there], atol=1e-5)
    elif kind == "answers":
        assert torch.allclose(before[..., :5], after[..., :5], atol=1e-5)
        assert torch.allclose(before[..., -1], after[..., -1], atol=1e-5), "no answer at all"
    else:
        assert torch.allclose(before, after, atol=1e-5)


def test_a_pair_with_an_empty_side_has_an_answer_too() -> None:
    own = head(task("class", ("a", "b"), pairs=True))
    for second in (0, 5):
        assert bool(own(read(second=second)).isfinite().all())


def test_losses_are_those_of_torch_over_what_can_be_seen() -> None:
    tags = head(task("tags", ("a", "b", "c")))
    one = read()
    found = tags(one)
    gold = [[0, 1, 2, -1, 0], [2, 2, 0, 0, 1]]  # no tag; and a word that is not seen
    chosen = [
        (0, 0, 0),
        (0, 1, 1),
        (0, 2, 2),
        (0, 4, 0),
        (1, 0, 2),
        (1, 1, 2),
        (1, 2, 0),
        (1, 3, 0),
    ]
    nats = [-found.log_softmax(-1)[text, word, tag] for text, word, tag in chosen]
    assert torch.allclose(tags.loss(found, gold, one), torch.stack(nats).mean())  # type: ignore[arg-type]
    scores = head(task("score"), scale=Scale(3.0, 2.0))
    found = scores(one)
    wanted = torch.tensor([(5.0 - 3) / 2, (1.0 - 3) / 2])
    assert torch.allclose(scores.loss(found, [5.0, 1.0], one), (found[:, 0] - wanted).pow(2).mean())
    assert scores.guesses(found, one, [5, 5]) == pytest.approx((2 * found[:, 0] + 3).tolist())


def test_an_answer_that_cannot_be_seen_is_learnt_as_none_and_the_loss_stays_finite() -> None:
    own = head(task("answers", pairs=True))
    one = read(second=2)
    found = own(one)
    seen, cut, none = [(3, 5)], [(3, 5)], list[tuple[int, int]]()
    finite = own.loss(found, [seen, cut], one)
    assert math.isfinite(float(finite.detach())) and float(finite.detach()) < 100
    assert torch.equal(finite, own.loss(found, [seen, none], one)), "its last word is not there"


def test_the_best_span_lies_in_the_second_text_and_does_not_end_before_it_begins() -> None:
    own = head(task("answers", pairs=True))
    found = torch.full((3, 2, 6), -5.0)
    found[0, 0, 4], found[0, 1, 2], found[0, 0, 2], found[0, 1, 3] = 9.0, 9.0, 5.0, 5.0
    found[1, :, 5] = 1.0  # no answer
    found[2, 0, 3], found[2, 1, 3] = 2.0, 2.0
    # the highest start comes after the highest end: together they are no span
    assert own.guesses(found, read(), [5, 5, 5]) == [[(2, 3)], [], [(3, 4)]]


def test_what_was_cut_off_has_no_tag_and_no_answer() -> None:
    """A text longer than the model: its last words are wrong, and their number is told."""
    model = shared("mini:bert")
    words = ["the"] * 100
    tagged = doc_of(words)
    for word in tagged:
        word.pos_ = "DET" if word.i % 2 else "NOUN"
    corpus = corpus_of("long", train=[tagged] * 3, dev=[tagged], test=[tagged])
    of = task_of(corpus, "pos")
    parts = split_of(corpus, of, None, 0, SplitSizes(3, 1, 1))
    body = body_of(model)
    made = fitting_of(body, "frozen", Sizes(), 0)
    own = MixHead(of, body.layers, model.width, False, Scale())
    source = Live(body, parts.test.batch)
    assert source.cut == 1
    (guess,) = guessed(own, made, source, parts.test)
    assert len(guess) == 100 and guess[-1] == -1 and guess[0] >= 0
    assert metrics_of(of, parts.test, [guess])["accuracy"].value() < 0.7


def test_an_answer_beyond_the_end_is_never_found() -> None:
    model = shared("mini:bert")
    doc = doc_of(["who", "?", *["dog"] * 96, "the", "cat"], middle=2)
    set_spans(doc, "answers", [Mention(98, 100, "answer")])
    near = doc_of(["who", "?", "the", "dog"], middle=2)
    set_spans(near, "answers", [Mention(2, 4, "answer")])
    corpus = corpus_of("far", train=[doc, near], dev=[doc], test=[doc])
    of = task_of(corpus, "answers")
    parts = split_of(corpus, of, None, 0, SplitSizes(9, 9, 9))
    body = body_of(model)
    own = MixHead(of, body.layers, model.width, False, Scale())
    made = fitting_of(body, "frozen", Sizes(), 0)
    source = Live(body, parts.train.batch)
    taken = source.read([0, 1], own.mix)
    loss = own.loss(own(taken), parts.train.gold, taken)
    assert math.isfinite(float(loss.detach())) and float(loss.detach()) < 50
    guesses = guessed(own, made, Live(body, parts.test.batch), parts.test)
    found = metrics_of(of, parts.test, guesses)
    assert found["exact_match"].value() == 0.0
    assert as_text(of, parts.test, 0, parts.test.gold[0]) == "the cat"


def test_gold_is_told_as_one_reads_it() -> None:
    corpus = corpus_of("made", train=of_words(6, 0), dev=of_words(3, 1), test=of_words(3, 2))
    of = task_of(corpus, "")
    parts = split_of(corpus, of, None, 0, SplitSizes(6, 3, 3))
    assert of.names == ("bad", "good") and of.kind == "class"
    assert (
        as_text(of, parts.test, 0, 1) == "good"
        and as_text(of, parts.test, 0, -1) == "(none of them)"
    )
    assert isinstance(parts.test, Examples) and len(parts.test) == 3


def test_who_has_looked_at_nothing_says_what_train_says_most_often() -> None:
    docs = [doc_of(["a", "b"], kind=kind, mark=mark) for kind, mark in
            (("x", 1.5), ("y", 2.0), ("y", 4.0))]  # fmt: skip
    for doc in docs:
        for word, tag in zip(doc, ("NOUN", "DET"), strict=True):
            word.pos_ = tag
    docs[2][0].pos_ = "DET"
    corpus = corpus_of("blind", train=docs, dev=docs[:1], test=docs[:2])
    found = {}
    for name in ("kind", "mark", "pos"):
        of = task_of(corpus, name)
        parts = split_of(corpus, of, None, 0, SplitSizes(9, 9, 9))
        found[name] = majority(of, parts.train, parts.test)
        if name == "kind":
            assert metrics_of(of, parts.test, found[name])["accuracy"].value() == 0.5
    assert found == {"kind": [1, 1], "mark": [2.5, 2.5], "pos": [[0, 0], [0, 0]]}
