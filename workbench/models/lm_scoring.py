"""A model's language-model loss over a corpus, document by document.

Sums are kept for each document, so that they add up to the same whatever the batches; `measures`
makes of them perplexity and bits a byte. Bytes are those of the raw text that was scored: what was
cut off, and a first piece without context, do not count. Costs a forward pass over the corpus; for
pseudo-likelihood one over each document for each of its pieces, which is hidden alone (the original
scheme) or with the later pieces of its word (within-word).

A bidirectional model (ELMo) reads a text twice and gives it two likelihoods. `nats` are the mean of
the two, and `pieces` the predictions of one direction, each word and a boundary: nats a piece are
the mean loss, and their exponential is the perplexity, of both directions' averages, as ELMo's
authors report it. `right` alone counts both directions, so the accuracy is of twice the pieces.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from workbench.core.errors import WorkbenchError
from workbench.engine.batch import NO_WORD, Batch, Pieces, sent
from workbench.engine.forward_pass import CHUNK, PIECES, by_length
from workbench.engine.halving import Limit, in_halves
from workbench.engine.model import Model, Symbols
from workbench.models.bilm import BiLM, score_words
from workbench.models.huggingface import UNLIMITED, HuggingFace
from workbench.models.lm_heads import mask_of, symbols
from workbench.models.lm_losses import (
    Losses,
    candidates,
    causal_losses,
    chosen,
    denoising,
    denoising_losses,
    masked_losses,
    pseudo_denoising_losses,
    pseudo_losses,
)
from workbench.models.references import Pseudo
from workbench.models.tokenization import encode, source, tokenize_batch
from workbench.models.word_models import WordModel, words_of

LOGIT_BYTES = {"cpu": 2**28, "cuda": 2**31}  # of a batch's logits, in float32

KNOWN_BY = 200  # texts on which a start token is tried
PSEUDO = ("masked", "seq2seq")  # objectives that leave whole texts without a likelihood

Ints = NDArray[np.int64]
Score = Callable[[Pieces], Losses]  # of a batch on the CPU


@dataclass(frozen=True)
class Scores:
    """Sums over each document, in the order asked for; each field is [documents]."""

    nats: NDArray[np.float64]
    pieces: Ints  # scored
    right: Ints  # of them, those that no other was thought likelier than; see above
    words: Ints  # that own a scored piece
    bytes: Ints  # of the text that the scored pieces are of
    bare: Ints  # pieces not scored, for nothing is before them
    unknown: Ints  # pieces that stand for what the vocabulary does not have
    unaligned: Ints  # words that own no piece
    cut: Ints  # words beyond the model's length


FIELDS = tuple(field.name for field in fields(Scores))


def joined(parts: Sequence[Scores]) -> Scores:
    """Documents of several scores, one after the other."""
    return Scores(
        *(np.concatenate([getattr(part, name) for part in parts]) for name in FIELDS),
    )


def score(
    model: Model,
    batch: Batch,
    documents: Sequence[int] | None = None,
    *,
    pseudo: Pseudo | None = None,
    seed: int = 0,
    pieces: int | None = None,
    start_token: int | None = None,
) -> Scores:
    """Score documents by the model's own objective, or by pseudo-likelihood.

    `seed` chooses what is hidden; `pieces` is the maximum in a batch, padding included. A causal
    model reads `start_token` (see `start_of`) before each text, so that the first piece of the
    text is scored too.
    """
    wanted = list(range(len(batch))) if documents is None else list(documents)
    net = _with_head(model, pseudo)
    if isinstance(net, BiLM):
        most = PIECES.get(model.device.type, PIECES["cpu"]) if pieces is None else pieces
        return _word_scores(net, batch, wanted, most)
    limit = limit_of(net) if pieces is None else pieces
    run, room = _scorer(net, pseudo, seed, limit), Limit()
    found: dict[str, NDArray[Any]] = {
        name: np.zeros(len(wanted), np.float64 if name == "nats" else np.int64) for name in FIELDS
    }
    for start in range(0, len(wanted), CHUNK):
        part = wanted[start : start + CHUNK]
        if start_token is None:
            text = net.encode(batch, part)
        else:
            text = _started(net, batch, part, start_token)
        _count_text(net, batch, part, text, {name: found[name][start:] for name in FIELDS})
        place_of = {order: start + i for i, order in enumerate(text.order.tolist())}
        for rows in by_length(text, Limit(limit)):
            for _, losses in in_halves(run, rows, room):
                places = [place_of[order] for order in losses.text.order.tolist()]
                _add(losses, places, found)
    found["bytes"][found["pieces"] == 0] = 0
    return Scores(**found)


def losses_of(
    model: Model,
    batch: Batch,
    documents: Sequence[int],
    *,
    pseudo: Pseudo | None = None,
    seed: int = 0,
) -> Iterator[Losses]:
    """The same piece by piece, of a model that reads pieces; documents in any order."""
    net = _with_head(model, pseudo)
    assert isinstance(net, HuggingFace), f"{model.family} reads words"
    limit = limit_of(net)
    run, room = _scorer(net, pseudo, seed, limit), Limit()
    for rows in by_length(net.encode(batch, documents), Limit(limit)):
        for _, losses in in_halves(run, rows, room):
            yield losses


def measures(scores: Scores, objective: str) -> dict[str, tuple[float, int]]:
    """What the sums say: each measure, and how many pieces, words or bytes it is of.

    `objective` is causal, masked, pseudo, seq2seq or bidirectional. Perplexity a word and bits a
    byte are of whole texts, and so not of one where only some pieces were hidden.
    """
    nats = math.fsum(scores.nats.tolist())
    pieces, words, size = (int(each.sum()) for each in (scores.pieces, scores.words, scores.bytes))
    a_piece = _share(nats, pieces)
    guesses = 2 * pieces if objective == "bidirectional" else pieces
    found = {
        "loss": (a_piece, pieces),
        "perplexity": (_exp(a_piece), pieces),
        "accuracy": (_share(float(scores.right.sum()), guesses), guesses),
    }
    if objective in ("causal", "pseudo", "bidirectional"):
        found["perplexity_per_word"] = (_exp(_share(nats, words)), words)
        found["bits_per_byte"] = (_share(nats / math.log(2), size), size)
    prefix = "" if objective == "causal" else f"{objective}_"
    return {f"{prefix}{name}": value for name, value in found.items()}


def _share(sum_: float, number: int) -> float:
    return sum_ / number if number else math.nan


def _exp(value: float) -> float:
    return math.exp(value) if not value > 700 else math.inf


def start_of(model: Model, batch: Batch) -> int | None:
    """The start token that a causal model knows and its tokenizer does not put before texts.

    GPT-2 was trained with one before each text, others have one that they never read. A model knows
    it where it predicts the pieces of these texts better behind it, the first of each not counted.
    """
    if not isinstance(model, HuggingFace) or model.objective != "causal":
        return None
    start: int | None = model.tokenizer.bos_token_id
    if start is None or model.tokenizer("a")["input_ids"][0] in model.tokenizer.all_special_ids:
        return None
    run = _scorer(model, None, 0, limit_of(model))
    nats = {True: 0.0, False: 0.0}  # behind the token, and without it
    documents = range(min(len(batch), KNOWN_BY))
    for behind in nats:
        text = _started(model, batch, documents, start) if behind else None
        text = model.encode(batch, documents) if text is None else text
        for rows in by_length(text, Limit(limit_of(model))):
            for _, losses in in_halves(run, rows, Limit()):
                nats[behind] += float(losses.nats[:, 1 + behind :].double().sum())
    return start if nats[True] < nats[False] else None


def _started(net: HuggingFace, batch: Batch, documents: Sequence[int], start: int) -> Pieces:
    """Texts in pieces behind a start token, which takes one of the pieces the model can read."""
    text = tokenize_batch(net.tokenizer, batch, documents, (net.max_pieces or UNLIMITED) - 1)

    return text.begun(1, start)


def _with_head(model: Model, pseudo: Pseudo | None) -> HuggingFace | BiLM:
    """What predicts, of a model that has a head."""
    net = model.bilm if isinstance(model, WordModel) else model
    if not isinstance(net, HuggingFace | BiLM) or not model.objective:
        raise WorkbenchError(
            f"{model.name} ({model.family}) has no language-model head with weights of its own, "
            "or none whose predictions can be measured.",
            remedy="Choose a model saved with one, such as bert-base-uncased or gpt2.",
        )
    if pseudo and model.objective not in PSEUDO:
        raise WorkbenchError(
            f"pseudo-likelihood is of models that see both sides at once; {model.name} "
            f"({model.family}) is {model.objective}.",
            remedy="Leave it out: the model's own loss says more.",
        )
    return net


def _word_scores(net: BiLM, batch: Batch, documents: Sequence[int], limit: int) -> Scores:
    """The sums of a model that predicts whole words, whatever its vocabulary."""
    found = score_words(net, [words_of(batch, document) for document in documents], limit)
    none = np.zeros(len(documents), dtype=np.int64)
    sizes = np.diff(batch.text_offsets)[list(documents)]  # bytes, [documents]
    return Scores(
        nats=found.nats,
        pieces=found.predictions,
        right=found.right,
        words=np.maximum(found.predictions - 1, 0),
        bytes=np.where(found.predictions > 0, sizes, 0),
        bare=none,
        unknown=found.unknown,
        unaligned=none,
        cut=none,
    )


def limit_of(net: HuggingFace) -> int:
    """The most pieces in a batch, so that neither states nor logits are too large."""
    kind = net.device.type
    pieces = PIECES.get(kind, PIECES["cpu"])
    if net.objective == "masked":  # logits are of hidden pieces only
        return pieces
    size = 4 * int(net.net.config.vocab_size)
    return max(1, min(pieces, LOGIT_BYTES.get(kind, LOGIT_BYTES["cpu"]) // size))


def _scorer(net: HuggingFace, pseudo: Pseudo | None, seed: int, limit: int) -> Score:
    """The function that scores one batch, without gradients."""
    known: Symbols = symbols(net.tokenizer)
    device = net.device
    mask = mask_of(net.net, net.tokenizer) if net.objective == "masked" else None

    def scored(text: Pieces) -> Losses:
        if net.objective == "causal":
            return causal_losses(net, text.to(device))
        if net.objective == "seq2seq" and pseudo:
            return pseudo_denoising_losses(net, text, known, limit, pseudo)
        if net.objective == "seq2seq":
            read, written = denoising(text, known, seed)
            return denoising_losses(net, read.to(device), written.to(device))
        if pseudo:
            return pseudo_losses(net, text.to(device), mask, limit, pseudo)
        return masked_losses(net, text.to(device), sent(chosen(text, seed), device), mask)

    return torch.no_grad()(scored)


def _add(losses: Losses, places: Sequence[int], found: dict[str, NDArray[Any]]) -> None:
    """A batch's sums, each to its document."""
    scored = losses.scored.cpu().numpy()  # [batch, pieces]
    nats, right = losses.nats.cpu().numpy(), losses.right.cpu().numpy()
    words = losses.text.words.cpu().numpy()
    for row, place in enumerate(places):
        here = scored[row]
        found["nats"][place] = math.fsum(nats[row, here].tolist())
        found["pieces"][place] = np.count_nonzero(here)
        found["right"][place] = np.count_nonzero(right[row, here])
        owners = np.unique(words[row, here])
        found["words"][place] = np.count_nonzero(owners != NO_WORD)


def _count_text(
    net: HuggingFace,
    batch: Batch,
    documents: Sequence[int],
    text: Pieces,
    found: dict[str, NDArray[Any]],
) -> None:
    """What can be said of documents before they are scored."""
    free = candidates(text)
    bare = free[:, 0] & (net.objective == "causal")  # [documents]
    unknown = symbols(net.tokenizer).unknown
    known = free & (text.ids == unknown) if unknown is not None else torch.zeros_like(free)
    found["bare"][: len(text)] = bare.numpy()
    found["unknown"][: len(text)] = known.sum(1).numpy()
    for row, _ in text.unaligned:
        found["unaligned"][row] += 1
    sizes = np.diff(batch.text_offsets)[list(documents)]  # bytes, [documents]
    for row, first, last in text.cut:
        found["cut"][row] += last - first
        sizes[row] -= _lost_bytes(batch, documents[row], first, last)
    rows = bare.nonzero()[:, 0].tolist()
    for row, size in zip(rows, _first_bytes(net, batch, [documents[r] for r in rows]), strict=True):
        sizes[row] -= size
    found["bytes"][: len(text)] = sizes


def _lost_bytes(batch: Batch, document: int, first: int, last: int) -> int:
    """Bytes from the end of the word before those cut off to the beginning of the one after."""
    text, words = batch.text_of(document), batch.words_of(document)
    begin = int(words[first - 1, 1]) if first else 0
    end = int(words[last, 0]) if last < len(words) else len(text)
    return len(text[begin:end].encode("utf-8"))


def _first_bytes(net: HuggingFace, batch: Batch, documents: Sequence[int]) -> list[int]:
    """Bytes of each document's first piece, with white space before it."""
    texts = [batch.text_of(document) for document in documents]
    nothing = np.empty((0, 2), dtype=np.int32)
    encoded = encode(net.tokenizer, [source(text, nothing, None) for text in texts])
    return [
        len(text[: each.offsets[0][1]].encode("utf-8"))
        for text, each in zip(texts, encoded, strict=True)
    ]
