"""Losses are transformers' own, known answers come out, and batches change nothing."""

import copy
import json
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.models import headed
from tests.models.gated import shared
from tests.models.test_logits import HEADED
from tests.models.texts import as_in_treebanks, batch_of
from tests.night import mostly, of_zoo
from workbench import Capture, Gate, WorkbenchError, encode, read
from workbench.engine.batch import Batch, Pieces
from workbench.models.huggingface import HuggingFace
from workbench.models.loading import load
from workbench.models.output_heads.lm_heads import symbols
from workbench.models.output_heads.lm_losses import (
    SPAN,
    Pseudo,
    candidates,
    causal_losses,
    chosen,
    denoising,
    denoising_losses,
    masked,
    masked_losses,
    random_order,
    spans,
)
from workbench.models.references import facts
from workbench.models.scoring import lm_scoring
from workbench.models.scoring.lm_scoring import FIELDS, measures, score

Folder = Callable[[str], Path]
Models = Callable[..., HuggingFace]
OBJECTIVES = dict.fromkeys(HEADED, "masked") | {
    **dict.fromkeys(("openai-gpt", "gpt2", "bloom", "gpt-neox", "llama"), "causal"),
    **dict.fromkeys(("t5", "t5-3-2", "t5-6-12", "mt5", "bart", "bart-3-2", "bart-12-6"), "seq2seq"),
}


@pytest.fixture(scope="module")
def models() -> Models:
    """A model of the zoo with its head, made once."""

    @cache
    def made(name: str, architecture: str = "", uniform: bool = False) -> HuggingFace:
        return headed.made(name, architecture or HEADED[name], uniform)

    return made


@pytest.fixture(scope="module")
def batch() -> Batch:
    return encode(read("primer:size=30").docs("train"))


def by_sentence(texts: list[str]) -> Batch:
    return batch_of(texts, [as_in_treebanks(text) for text in texts], [None] * len(texts))


def each(model: HuggingFace, batch: Batch, number: int = 6) -> Iterator[Pieces]:
    """The first documents, one in a batch."""
    for document in range(number):
        yield model.encode(batch, [document])


# --- what a model's head predicts ---------------------------------------------------------------


@pytest.mark.parametrize("name", HEADED)
def test_the_objective_follows_from_the_model(name: str, models: Models) -> None:
    assert models(name).objective == OBJECTIVES[name]
    assert facts(models(name))["objective"] == OBJECTIVES[name]


@pytest.mark.parametrize("name", HEADED)
def test_a_body_has_no_objective(name: str) -> None:
    assert shared(name).objective == ""


@pytest.mark.parametrize(
    ("name", "architecture", "objective"),
    [
        ("bert", "BertForPreTraining", "masked"),
        ("albert", "AlbertForPreTraining", "masked"),
        ("electra", "ElectraForPreTraining", ""),  # it tells replaced pieces from real ones
    ],
)
def test_pretraining_heads(name: str, architecture: str, objective: str, models: Models) -> None:
    assert models(name, architecture).objective == objective


UNTIED = [name for name, kind in OBJECTIVES.items() if kind == "masked"] + ["gpt-neox", "llama"]


@pytest.mark.parametrize("name", of_zoo(UNTIED, "llama"))
def test_a_head_that_transformers_made_up_is_none(
    name: str, zoo_folder: Folder, tmp_path: Path
) -> None:
    """The weights are of a body; the config says that there was a head."""
    for file in zoo_folder(name).iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    config = json.loads((tmp_path / "config.json").read_text())
    config["architectures"] = [HEADED[name]]
    (tmp_path / "config.json").write_text(json.dumps(config))
    model = load(tmp_path, "cpu")
    assert isinstance(model, HuggingFace)
    assert type(model.net).__name__ == HEADED[name]
    assert model.objective == ""
    with pytest.raises(WorkbenchError, match="no language-model head"):
        score(model, by_sentence(["The old man."]))
    assert load(f"{tmp_path}@random", "cpu").objective == OBJECTIVES[name], "a null is whole"


def test_words_have_no_objective(tmp_path: Path, batch: Batch) -> None:
    (tmp_path / "small.txt").write_text("the 1 0 2\nold 0 1 0\n")
    model = load(f"vectors:{tmp_path / 'small.txt'}", "cpu")
    assert model.objective == ""
    with pytest.raises(WorkbenchError, match="no language-model head"):
        score(model, batch)


@pytest.mark.parametrize("name", of_zoo(HEADED))
def test_logits_of_chosen_pieces_are_the_others_too(
    name: str, models: Models, batch: Batch
) -> None:
    model = models(name)
    text = model.encode(batch, [0, 1, 2])
    with torch.no_grad():
        whole = model.forward(text, logits=True).logits
        wanted = chosen(text, rate=0.4)
        some = model.forward(text, logits=wanted).logits
    assert whole is not None and some is not None
    assert some.shape == (int(wanted.sum()), whole.shape[-1])
    torch.testing.assert_close(some, whole[wanted], atol=1e-5, rtol=1e-5)


def test_the_head_computes_only_requested_logits(models: Models, batch: Batch) -> None:
    """Else a batch's logits would take vocabulary / 4 times the memory of its states."""
    for name in ("bert", "gpt2", "t5", "bart", "modernbert", "deberta-v2", "llama"):
        model, shapes = models(name), []
        text = model.encode(batch, [0, 1, 2])
        wanted = chosen(text)
        head = model.net.get_output_embeddings()
        hook = head.register_forward_hook(lambda m, a, out: shapes.append(tuple(out.shape)))  # noqa: B023
        with torch.no_grad():
            model.forward(text, logits=wanted, hidden=False)
        hook.remove()
        assert [shape[:-1] for shape in shapes] == [(int(wanted.sum()),)], name


# --- against transformers' own losses -----------------------------------------------------------


@pytest.mark.parametrize("name", of_zoo(["gpt2", "gpt-neox", "openai-gpt", "llama", "bloom"]))
def test_a_causal_loss_is_transformers_own(name: str, models: Models, batch: Batch) -> None:
    model = models(name)
    found = score(model, batch, range(6), pieces=200)
    for document, text in enumerate(each(model, batch)):
        with torch.no_grad():
            loss = model.net(text.ids, labels=text.ids).loss.item()
        assert text.special[0, 1:].sum() == 0
        assert found.pieces[document] == text.ids.shape[1] - 1
        assert found.nats[document] / found.pieces[document] == pytest.approx(loss, rel=1e-5)


@pytest.mark.parametrize("name", of_zoo(["bert", "roberta", "deberta-v2", "distilbert"]))
def test_a_masked_loss_is_transformers_own(name: str, models: Models, batch: Batch) -> None:
    model = models(name)
    mask = model.tokenizer.mask_token_id
    found = score(model, batch, range(6), seed=3, pieces=200)
    for document, text in enumerate(each(model, batch)):
        hidden = chosen(text, seed=3)
        assert found.pieces[document] == int(hidden.sum())
        if not hidden.any():
            continue
        labels = text.ids.masked_fill(~hidden, -100)
        read_ = {"input_ids": text.ids.masked_fill(hidden, mask)}
        if text.segments is not None:
            read_["token_type_ids"] = text.segments
        with torch.no_grad():
            answer = model.net(**read_, labels=labels)
        mean = found.nats[document] / found.pieces[document]
        assert mean == pytest.approx(answer.loss.item(), rel=1e-5)
        right = (answer.logits.argmax(-1) == text.ids) & hidden
        assert found.right[document] == int(right.sum())


@pytest.mark.parametrize("name", mostly(["t5", "mt5", "bart", "t5-3-2"], "bart", "t5-3-2"))
def test_a_denoising_loss_is_transformers_own(name: str, models: Models, batch: Batch) -> None:
    model = models(name)
    found = score(model, batch, range(6), seed=3, pieces=200)
    for document, text in enumerate(each(model, batch)):
        source, target = denoising(text, symbols(model.tokenizer), seed=3)
        with torch.no_grad():
            loss = model.net(source.ids, labels=target.ids).loss.item()
        assert found.pieces[document] == target.ids.shape[1]
        assert found.nats[document] / found.pieces[document] == pytest.approx(loss, rel=1e-5)


def test_pretraining_heads_predict_pieces(models: Models, batch: Batch) -> None:
    model = models("bert", "BertForPreTraining")
    text = model.encode(batch, [0])
    hidden = chosen(text, rate=0.5)
    found = masked_losses(model, text, hidden, model.tokenizer.mask_token_id)
    logits = model.net(text.ids.masked_fill(hidden, model.tokenizer.mask_token_id))
    log_p = logits.prediction_logits.log_softmax(-1)
    expected = -log_p[0, torch.arange(text.ids.shape[1]), text.ids[0]]
    torch.testing.assert_close(found.nats[0], expected * hidden[0], atol=1e-5, rtol=1e-5)


SCHEMES: tuple[Pseudo, ...] = ("within-word", "original")


def hidden_by_hand(text: Pieces, place: int, scheme: Pseudo) -> list[int]:
    """The places hidden with one, counted on: those behind it of the same word."""
    words, last = text.words[0].tolist(), place
    if scheme == "within-word":
        while last + 1 < len(words) and words[last + 1] == words[place] >= 0:
            last += 1
    return list(range(place, last + 1))


@pytest.mark.parametrize(
    ("name", "scheme"),
    mostly(
        product(("bert", "roberta", "albert", "deberta-v2"), SCHEMES),
        *(("bert", scheme) for scheme in SCHEMES),
        ("roberta", "within-word"),
    ),
)
def test_pseudo_likelihood_is_a_loop_over_transformers_own_forward(
    name: str, scheme: Pseudo, models: Models, batch: Batch
) -> None:
    """WordPiece, byte-level BPE and Unigram: one forward pass for each piece."""
    model = models(name)
    mask = model.tokenizer.mask_token_id
    found = score(model, batch, range(2), pseudo=scheme, pieces=90)
    several = 0
    for document, text in enumerate(each(model, batch, 2)):
        nats = 0.0
        places = candidates(text)[0].nonzero()[:, 0].tolist()
        for place in places:
            hidden = hidden_by_hand(text, place, scheme)
            several += len(hidden) > 1
            ids = text.ids.clone()
            ids[0, hidden] = mask
            segments = {} if text.segments is None else {"token_type_ids": text.segments}
            with torch.no_grad():
                logits = model.net(ids, **segments).logits[0, place]
            nats -= logits.log_softmax(-1)[text.ids[0, place]].item()
        assert found.pieces[document] == len(places)
        assert found.nats[document] == pytest.approx(nats, rel=1e-5)
    assert (several > 5) == (scheme == "within-word"), "words of several pieces"


@pytest.mark.parametrize("scheme", mostly(SCHEMES, "within-word"))
def test_pseudo_likelihood_of_xlnet_is_its_own_with_the_piece_last_in_order(
    scheme: Pseudo, models: Models, batch: Batch
) -> None:
    """Against one call of transformers for each piece, which predicts that piece alone."""
    model = models("xlnet")
    found = score(model, batch, range(2), pseudo=scheme, pieces=90)
    for document, text in enumerate(each(model, batch, 2)):
        nats, length = 0.0, text.ids.shape[1]
        for place in candidates(text)[0].nonzero()[:, 0].tolist():
            order, target = torch.zeros(1, length, length), torch.zeros(1, 1, length)
            order[:, :, hidden_by_hand(text, place, scheme)] = 1
            target[0, 0, place] = 1
            with torch.no_grad():
                logits = model.net(
                    text.ids, token_type_ids=text.segments, perm_mask=order, target_mapping=target
                ).logits[0, 0]
            nats -= logits.log_softmax(-1)[text.ids[0, place]].item()
        assert found.nats[document] == pytest.approx(nats, rel=1e-5)


def test_permuted_losses_of_xlnet_are_its_own_of_each_piece_from_those_before_it(
    models: Models, batch: Batch
) -> None:
    """Against one call of transformers for each piece; a sixth of an order comes last at a time."""
    model, orders = models("xlnet"), []
    for seed in range(2):
        found = score(model, batch, range(2), pseudo="permuted", seed=seed, pieces=90)
        for document, text in enumerate(each(model, batch, 2)):
            places, length = candidates(text)[0].nonzero()[:, 0].tolist(), text.ids.shape[1]
            order = random_order(text, seed)[0]
            chain = sorted(places, key=lambda place, order=order: float(order[place]))
            orders.append(chain)
            nats = 0.0
            for number, place in enumerate(chain):
                part = [
                    p
                    for n, p in enumerate(chain)
                    if 6 * n // len(chain) == 6 * number // len(chain)
                ]
                later = part[part.index(place) :]
                hidden, target = torch.zeros(1, length, length), torch.zeros(1, 1, length)
                hidden[:, :, later] = 1
                for index, other in enumerate(part):  # what precedes it sees only what precedes
                    hidden[:, other, part[index:]] = 1
                    hidden[:, [p for p in range(length) if p not in part], other] = 1
                target[0, 0, place] = 1
                with torch.no_grad():
                    logits = model.net(
                        text.ids, token_type_ids=text.segments, perm_mask=hidden,
                        target_mapping=target,
                    ).logits[0, 0]  # fmt: skip
                nats -= logits.log_softmax(-1)[text.ids[0, place]].item()
            assert found.pieces[document] == len(places)
            assert found.nats[document] == pytest.approx(nats, rel=1e-5)
    assert orders[0] != orders[2], "another seed, another order"
    with pytest.raises(WorkbenchError, match="only XLNet"):
        score(models("bert"), batch, range(1), pseudo="permuted")


def test_xlnet_does_not_read_what_is_hidden_and_its_heads_are_gated_in_both_streams(
    models: Models, batch: Batch
) -> None:
    model = models("xlnet")
    text = model.encode(batch, [0])
    hidden = chosen(text, rate=0.4)
    other = replace(text, ids=torch.where(hidden, (text.ids + 7) % 50 + 10, text.ids))
    capture = Capture()
    with torch.no_grad():
        one, same = (
            model.forward(masked(each, hidden, None), logits=hidden, taps=taps, hidden=False).logits
            for each, taps in ((text, []), (other, [capture]))
        )
        assert one is not None and same is not None
        torch.testing.assert_close(one, same, atol=1e-5, rtol=1e-5)
        assert list(capture.maps) == list(model.sites), "a site once, though heads look twice"
        (seen,) = capture.maps[model.sites[0]]
        off = ~torch.eye(seen.shape[-1], dtype=torch.bool)
        assert float((seen * (hidden[:, None, None] & off)).max()) == 0, "hidden from all others"
        gates = torch.tensor([[0.0, 1.0, 0.5, 1.0], [1.0, 0.5, 1.0, 0.0]])
        gated = model.forward(
            masked(text, hidden, None), logits=hidden, taps=[Gate(gates)], hidden=False
        ).logits
        plain = copy.deepcopy(model.net)
        for layer, own in enumerate(gates):
            plain.transformer.layer[layer].rel_attn.v *= own[None, :, None]
        length = text.ids.shape[1]
        expected = plain(
            text.ids,
            token_type_ids=text.segments,
            perm_mask=hidden[:, None].expand(1, length, length).float(),
            target_mapping=torch.eye(length)[None],
        ).logits[hidden]
    assert gated is not None
    torch.testing.assert_close(gated, expected, atol=1e-5, rtol=1e-5)
    assert not torch.allclose(gated, one, atol=1e-3)


def test_words_of_one_piece_are_scored_alike_by_both_schemes(models: Models) -> None:
    model = models("bert")
    texts = by_sentence(["the man was the dog", "nevertheless"])
    pieces = [len(model.tokenizer(word)["input_ids"]) - 2 for word in ("the", "nevertheless")]
    assert pieces[0] == 1 < pieces[1]
    one, other = (score(model, texts, pseudo=scheme).nats for scheme in SCHEMES)
    owners = model.encode(texts, [0]).words[0, 1:-1].tolist()
    assert len(set(owners)) == len(owners), "a piece a word"
    assert one[0] == pytest.approx(other[0], rel=1e-5)
    assert one[1] != pytest.approx(other[1], rel=1e-4)


def test_losses_have_gradients(models: Models, batch: Batch) -> None:
    """For training: the mean loss, and its gradient, are transformers' own."""
    for name in ("gpt2", "bert", "t5"):
        model = models(name)
        text = model.encode(batch, [0])
        if name == "gpt2":
            found = causal_losses(model, text).mean
            own = model.net(text.ids, labels=text.ids).loss
        elif name == "bert":
            hidden = chosen(text, rate=0.5)
            mask = model.tokenizer.mask_token_id
            found = masked_losses(model, text, hidden, mask).mean
            labels = text.ids.masked_fill(~hidden, -100)
            own = model.net(text.ids.masked_fill(hidden, mask), labels=labels).loss
        else:
            source, target = denoising(text, symbols(model.tokenizer))
            found = denoising_losses(model, source, target).mean
            own = model.net(source.ids, labels=target.ids).loss
        weights = [w for w in model.net.parameters() if w.requires_grad]
        ours, theirs = (torch.autograd.grad(x, weights, allow_unused=True) for x in (found, own))
        for one, other in zip(ours, theirs, strict=True):
            assert (one is None) == (other is None)
            if one is not None:
                torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-4)


# --- known answers ------------------------------------------------------------------------------


def test_a_uniform_causal_model_is_perplexed_by_its_vocabulary(models: Models) -> None:
    """By hand: each scored piece costs log2 V bits, and the first of a text is not scored."""
    model = models("gpt2", uniform=True)
    vocabulary = model.net.config.vocab_size
    texts = ["The old man.", "Zoë saw a café!", "I"]
    found = score(model, by_sentence(texts))
    pieces = [model.tokenizer(text)["input_ids"] for text in texts]
    assert found.pieces.tolist() == [len(ids) - 1 for ids in pieces]
    assert found.bare.tolist() == [1, 1, 1]
    first = [len(model.tokenizer.decode(ids[:1]).encode()) for ids in pieces]
    sizes = [len(texts[0].encode()) - first[0], len(texts[1].encode()) - first[1], 0]
    assert found.bytes.tolist() == sizes
    said = measures(found, "causal")
    scored = sum(len(ids) - 1 for ids in pieces)
    assert said["perplexity"] == (pytest.approx(vocabulary, rel=1e-5), scored)
    bits = scored * math.log2(vocabulary) / sum(sizes)
    assert said["bits_per_byte"] == (pytest.approx(bits, rel=1e-5), sum(sizes))
    words = int(found.words.sum())
    per_word = math.exp(scored * math.log(vocabulary) / words)
    assert said["perplexity_per_word"] == (pytest.approx(per_word, rel=1e-5), words)


def test_with_a_start_symbol_every_piece_and_byte_counts(models: Models) -> None:
    model = models("llama", uniform=True)
    texts = ["The old man.", "Zoë saw a café!", "I"]
    batch = by_sentence(texts)
    found = score(model, batch)
    pieces = [len(model.tokenizer(text, add_special_tokens=False)["input_ids"]) for text in texts]
    assert found.pieces.tolist() == pieces and found.bare.sum() == 0
    assert found.bytes.tolist() == [len(text.encode()) for text in texts]
    assert found.words.tolist() == [4, 5, 1] == np.diff(batch.word_offsets).tolist()


def test_uniform_masked_and_denoising_models_too(models: Models, batch: Batch) -> None:
    for name, objective in (("bert", "masked"), ("t5", "seq2seq"), ("bart", "seq2seq")):
        model = models(name, uniform=True)
        vocabulary = pytest.approx(model.net.config.vocab_size, rel=1e-5)
        said = measures(score(model, batch), objective)
        assert said[f"{objective}_perplexity"][0] == vocabulary
        assert "bits_per_byte" not in said and f"{objective}_bits_per_byte" not in said
    model = models("bert", uniform=True)
    found = score(model, by_sentence(["The old man."]), pseudo="original")
    bits, size = measures(found, "pseudo")["pseudo_bits_per_byte"]
    assert size == 12
    pieces = len(model.tokenizer("The old man.")["input_ids"]) - 2
    assert bits == pytest.approx(pieces * math.log2(model.net.config.vocab_size) / 12, rel=1e-5)


def test_a_model_that_knows_how_often_pieces_are_and_no_more(
    batch: Batch,
) -> None:
    """Its output map is 0 but for a bias: -log p of a piece is read off the bias."""
    model = headed.made("bert", HEADED["bert"], uniform=True)
    bias = 2 * torch.randn(model.net.config.vocab_size, generator=torch.Generator().manual_seed(1))
    model.net.get_output_embeddings().bias.data.copy_(bias)
    nats = -bias.double().log_softmax(0)
    found = score(model, batch, pseudo="original")
    for document, text in enumerate(each(model, batch, len(batch))):
        ids = text.ids[candidates(text)]
        assert found.nats[document] == pytest.approx(nats[ids].sum().item(), rel=1e-5)
        assert found.right[document] == int((ids == bias.argmax()).sum())


def test_what_is_cut_off_counts_neither_as_pieces_nor_as_bytes(models: Models) -> None:
    model = models("llama", uniform=True)
    text = "The old man saw a dog. " * 60
    found = score(model, by_sentence([text]))
    ranges = as_in_treebanks(text)
    kept = len(ranges) - int(found.cut[0])
    assert 0 < kept < len(ranges)
    assert found.bytes.tolist() == [ranges[kept - 1][1]], "to the end of the last word that stayed"
    assert found.words.tolist() == [kept]


def test_texts_with_nothing_to_score(models: Models) -> None:
    for name in ("gpt2", "bert", "t5", "bart"):
        model = models(name)
        found = score(model, by_sentence(["", " ", "The old man saw the boat."]))
        alone = score(model, by_sentence(["The old man saw the boat."]))
        assert np.isfinite(found.nats).all(), name
        assert found.bytes[0] == 0
        assert measures(alone, "causal")["loss"][0] > 0


def test_nothing_scored_is_not_a_number(models: Models) -> None:
    said = measures(score(models("gpt2"), by_sentence([""])), "causal")
    assert all(math.isnan(value) and number == 0 for value, number in said.values())


# --- batches and chance -------------------------------------------------------------------------


@pytest.mark.parametrize("name", mostly(["gpt2", "bert", "t5", "bart"], "gpt2", "bart"))
def test_batches_change_nothing(name: str, models: Models, batch: Batch) -> None:
    model = models(name)
    alone = score(model, batch, pieces=1, seed=5)
    for pieces, documents in ((150, range(30)), (100_000, range(29, -1, -1))):
        together = score(model, batch, documents, pieces=pieces, seed=5)
        for field in FIELDS:
            ours, others = getattr(alone, field)[list(documents)], getattr(together, field)
            if field == "nats":
                np.testing.assert_allclose(others, ours, rtol=1e-5)
            elif field != "right":  # a near tie may turn
                assert others.tolist() == ours.tolist(), field


def test_tokenising_by_chunks_changes_nothing(
    models: Models, batch: Batch, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = score(models("gpt2"), batch, pieces=1)
    monkeypatch.setattr(lm_scoring, "CHUNK", 7)
    found = score(models("gpt2"), batch, pieces=1)
    for field in FIELDS:
        assert getattr(found, field).tolist() == getattr(whole, field).tolist(), field


def test_only_what_the_corpus_calls_a_word_is_one(models: Models) -> None:
    text = "The old man."
    batch = batch_of([text], [[(4, 7)]], [None])  # "old" alone
    assert score(models("llama"), batch).words.tolist() == [1]


def test_infilling_a_pair_keeps_what_parts_it(models: Models) -> None:
    model = models("bart")
    text, second = "The old man saw a dog. I saw it too and he was there.", 7
    words = as_in_treebanks(text)
    assert text[words[second][0]] == "I"
    for seed in range(30):
        pair = model.encode(batch_of([text], [words], [second]))
        source, _ = denoising(pair, symbols(model.tokenizer), seed)
        assert source.ids[source.special].tolist() == pair.ids[pair.special].tolist()


def test_what_is_hidden_is_the_same_in_every_batch(models: Models, batch: Batch) -> None:
    model = models("bert")
    together = model.encode(batch)
    hidden = chosen(together, seed=7)
    for row in (0, 13, 29):
        alone = model.encode(batch, [row])
        mine = chosen(alone, seed=7)[0]
        assert mine.tolist() == hidden[row, : len(mine)].tolist()
    assert not torch.equal(hidden, chosen(together, seed=8))
    backwards = together.take(list(range(29, -1, -1)))
    assert torch.equal(chosen(backwards, seed=7).flip(0), hidden)


def test_a_share_of_pieces_is_hidden_and_never_a_special_one(models: Models) -> None:
    batch = encode(read("primer:size=200").docs("train"))
    text = models("bert").encode(batch)
    free = candidates(text)
    hidden = chosen(text)
    assert not (hidden & (text.special | ~text.mask)).any()
    rate = float(hidden.sum() / free.sum())
    assert abs(rate - 0.15) < 4 * math.sqrt(0.15 * 0.85 / int(free.sum()))
    first = hidden[:, 1].float().mean()  # places are alike: the first as often as any
    assert abs(float(first) - 0.15) < 4 * math.sqrt(0.15 * 0.85 / len(batch))


def test_spans_are_apart_and_as_many_as_t5s() -> None:
    covered, number = np.zeros(20), 1_000
    for seed in range(number):
        for length in (2, 3, 7, 20, 200) if seed < 100 else (20,):
            lot = np.random.default_rng((seed, length))
            begins, ends = spans(length, 0.15, SPAN, lot, max_spans=99)
            hidden = int((ends - begins).sum())
            assert hidden == max(1, round(length * 0.15))
            assert len(begins) == max(1, round(hidden / 3))
            assert begins[0] >= 1 and ends[-1] <= length
            assert (begins[1:] > ends[:-1]).all() and (ends > begins).all()
            if length == 20:
                covered[begins[0] : ends[0]] += 1
    assert covered[0] == 0
    assert (np.abs(covered[3:18] / number - 3 / 17) < 0.05).all(), "each place alike, but the ends"


def test_spans_and_sentinels_put_together_are_the_text(models: Models, batch: Batch) -> None:
    model = models("t5")
    known = symbols(model.tokenizer)
    assert len(known.sentinels) == 100
    text = model.encode(batch)
    source, target = denoising(text, known)
    marks = set(known.sentinels)
    for row in range(len(batch)):
        spans_: dict[int, list[int]] = {}
        for number in target.ids[row][target.mask[row]].tolist()[:-1]:
            if number in marks:
                spans_[number] = []
            else:
                spans_[next(reversed(spans_))].append(number)
        whole = []
        for number in source.ids[row][source.mask[row]].tolist():
            whole += spans_.pop(number) if number in marks else [number]
        assert whole == text.ids[row][text.mask[row]].tolist()
        last = source.ids[row][candidates(source)[row]][-1].item()
        assert list(spans_.values()) == ([] if last in marks else [[]]), "does the text go on?"
        assert target.ids[row][target.mask[row]][-1] == known.end


def test_infilling_hides_spans_behind_one_mask_each(models: Models, batch: Batch) -> None:
    model = models("bart")
    text = model.encode(batch)
    source, target = denoising(text, symbols(model.tokenizer))
    assert torch.equal(target.ids, text.ids) and torch.equal(target.mask, text.mask)
    mask = model.tokenizer.mask_token_id
    free = candidates(text).sum(1)
    masks = (source.ids == mask).sum(1)
    kept = (source.mask & ~source.special & (source.ids != mask)).sum(1)
    for n, gone, number in zip(free.tolist(), (free - kept).tolist(), masks.tolist(), strict=True):
        assert gone == max(1, round(0.3 * n)) and number == max(1, round(gone / 3))


def test_a_seed_is_part_of_the_answer(models: Models, batch: Batch) -> None:
    model = models("bert")
    one, same, other = (score(model, batch, seed=seed).nats.sum() for seed in (0, 0, 1))
    assert one == same != other


def test_a_batch_too_large_for_memory_is_halved(
    models: Models, batch: Batch, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = models("gpt2")
    whole = score(model, batch)
    forward = model.forward

    def cramped(text: Pieces, **rest: object) -> object:
        if len(text) > 3:
            raise torch.OutOfMemoryError
        return forward(text, **rest)

    monkeypatch.setattr(model, "forward", cramped)
    found = score(model, batch)
    np.testing.assert_allclose(found.nats, whole.nats, rtol=1e-5)
    monkeypatch.setattr(model, "forward", lambda *a, **k: cramped([0] * 4))
    with pytest.raises(WorkbenchError, match="does not fit into memory"):
        score(model, batch)


def test_pseudo_likelihood_needs_a_model_that_reads_both_sides(
    models: Models, batch: Batch
) -> None:
    with pytest.raises(WorkbenchError, match="pseudo-likelihood needs"):
        score(models("gpt2"), batch, pseudo="original")


@pytest.mark.parametrize("scheme", mostly(SCHEMES, "within-word"))
def test_pseudo_likelihood_of_t5_writes_each_piece_behind_its_sentinel(
    scheme: Pseudo, models: Models, batch: Batch
) -> None:
    """Against one call of transformers for each piece."""
    model = models("t5")
    first, second = symbols(model.tokenizer).sentinels[:2]
    end = model.tokenizer.eos_token_id
    found = score(model, batch, range(2), pseudo=scheme, pieces=90)
    for document, text in enumerate(each(model, batch, 2)):
        nats, ids = 0.0, text.ids[0]
        places = candidates(text)[0].nonzero()[:, 0].tolist()
        for place in places:
            hidden = hidden_by_hand(text, place, scheme)
            read = torch.cat([ids[:place], torch.tensor([first]), ids[hidden[-1] + 1 :]])
            goes_on = [second] if hidden[-1] < places[-1] else []
            labels = torch.tensor([[first, *ids[hidden].tolist(), *goes_on, end]])
            with torch.no_grad():
                logits = model.net(read[None], labels=labels).logits[0, 1]
            nats -= logits.log_softmax(-1)[ids[place]].item()
        assert found.pieces[document] == len(places)
        assert found.nats[document] == pytest.approx(nats, rel=1e-4)


@pytest.mark.parametrize("scheme", mostly(SCHEMES, "within-word"))
def test_pseudo_likelihood_of_bart_rewrites_the_text_round_each_mask(
    scheme: Pseudo, models: Models, batch: Batch
) -> None:
    model = models("bart")
    mask = model.tokenizer.mask_token_id
    found = score(model, batch, range(2), pseudo=scheme, pieces=90)
    for document, text in enumerate(each(model, batch, 2)):
        nats, ids = 0.0, text.ids[0]
        for place in candidates(text)[0].nonzero()[:, 0].tolist():
            hidden = hidden_by_hand(text, place, scheme)
            read = torch.cat([ids[:place], torch.tensor([mask]), ids[hidden[-1] + 1 :]])
            with torch.no_grad():
                logits = model.net(read[None], labels=ids[None]).logits[0, place]
            nats -= logits.log_softmax(-1)[ids[place]].item()
        assert found.nats[document] == pytest.approx(nats, rel=1e-4)


def test_half_precision_loses_little(models: Models, batch: Batch) -> None:
    model = models("gpt2")
    half = HuggingFace(type(model.net)(model.net.config), model.tokenizer, "half")
    half.net.load_state_dict(model.net.state_dict())
    half.net.to(torch.bfloat16).eval()
    text = half.encode(batch, [0, 1])
    with torch.no_grad():
        losses = causal_losses(half, text)
    assert losses.nats.dtype == torch.float32
    assert losses.mean.item() == pytest.approx(
        score(model, batch, [0, 1]).nats.sum() / int(losses.scored.sum()), rel=0.02
    )
