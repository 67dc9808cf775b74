"""A model's language-model loss over a corpus, summed per document.

The sums are per document, so they do not depend on the batches; `measures` converts them to
perplexity and bits per byte. Bytes are those of the scored raw text: text that was cut off, and a
first piece without context, do not count. Costs: a forward pass over the corpus; for
pseudo-likelihood one pass per piece of each document. The piece is hidden alone (the original
scheme) or with the later pieces of its word (within-word).

A bidirectional model (ELMo) reads a text twice and gives it two likelihoods. `nats` is the mean of
both. `pieces` counts the predictions of one direction: each word and one boundary. So nats per
piece is the mean loss of both directions, and its exponential is the perplexity that ELMo's authors
report. Only `right` counts both directions, so the accuracy is over twice the pieces.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from workbench.core.arrays import Ints
from workbench.core.errors import WorkbenchError
from workbench.engine.batch import NO_WORD, Batch, Pieces, sent
from workbench.engine.forward_pass import CHUNK, PIECES, by_length
from workbench.engine.halving import Limit, in_halves
from workbench.engine.model import Model, Symbols
from workbench.models.bilm import BiLM, score_words
from workbench.models.huggingface import UNLIMITED, HuggingFace
from workbench.models.output_heads.lm_heads import in_order, mask_of, symbols
from workbench.models.output_heads.lm_losses import (
    Losses,
    candidates,
    causal_losses,
    chosen,
    denoising,
    denoising_losses,
    masked_losses,
    permuted_losses,
    pseudo_denoising_losses,
    pseudo_losses,
)
from workbench.models.references import Pseudo
from workbench.models.tokenization import encode, source, tokenize_batch
from workbench.models.word_models import WordModel, words_of

LOGIT_BYTES = {"cpu": 2**28, "cuda": 2**31}  # maximum size of a batch's logits, in float32

START_TOKEN_TEXTS = 200  # number of texts on which a start token is tested
PSEUDO = ("masked", "seq2seq")  # objectives that give whole texts no likelihood

Score = Callable[[Pieces], Losses]  # of a batch on the CPU
Wanted = Callable[[Pieces], Tensor]  # of a batch, which pieces to score; [batch, pieces], bool


@dataclass(frozen=True)
class Scores:
    """Sums over each document, in the requested order; each field is [documents]."""

    nats: NDArray[np.float64]
    pieces: Ints  # scored pieces
    right: Ints  # scored pieces that were the most likely prediction; see above
    words: Ints  # words with a scored piece
    bytes: Ints  # bytes of the scored text
    bare: Ints  # pieces not scored, because they have no context
    unknown: Ints  # unknown pieces (outside the vocabulary)
    unaligned: Ints  # words without a piece
    cut: Ints  # words beyond the model's maximum length


FIELDS = tuple(field.name for field in fields(Scores))


def joined(parts: Sequence[Scores]) -> Scores:
    """The documents of several scores, concatenated."""
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
    """Score documents with the model's own objective, or with pseudo-likelihood.

    `seed` chooses the hidden pieces, or the order if `pseudo` is permuted; `pieces` is the maximum
    number of pieces in a batch, padding included. A causal model reads `start_token` (see
    `start_of`) before each text, so that the first piece of the text is scored too.
    """
    chosen_documents = list(range(len(batch))) if documents is None else list(documents)
    net = _with_head(model, pseudo)
    if isinstance(net, BiLM):
        max_pieces = PIECES.get(model.device.type, PIECES["cpu"]) if pieces is None else pieces
        return _word_scores(net, batch, chosen_documents, max_pieces)
    limit = limit_of(net) if pieces is None else pieces
    score_batch, memory = _scorer(net, pseudo, seed, limit), Limit()
    sums: dict[str, NDArray[Any]] = {
        name: np.zeros(len(chosen_documents), np.float64 if name == "nats" else np.int64)
        for name in FIELDS
    }
    for start in range(0, len(chosen_documents), CHUNK):
        part = chosen_documents[start : start + CHUNK]
        text = _encoded(net, batch, part, start_token)
        _count_text(net, batch, part, text, {name: sums[name][start:] for name in FIELDS})
        index_of = {order: start + i for i, order in enumerate(text.order.tolist())}
        for rows in by_length(text, Limit(limit)):
            for _, losses in in_halves(score_batch, rows, memory):
                indices = [index_of[order] for order in losses.text.order.tolist()]
                _add(losses, indices, sums)
    sums["bytes"][sums["pieces"] == 0] = 0
    return Scores(**sums)


def losses_of(
    model: Model,
    batch: Batch,
    documents: Sequence[int],
    *,
    pseudo: Pseudo | None = None,
    seed: int = 0,
    start_token: int | None = None,
    wanted: Wanted | None = None,
) -> Iterator[Losses]:
    """Losses per piece, for a model that reads pieces; documents come in any order.

    `wanted` says which pieces of a batch are scored, by a causal model or by pseudo-likelihood
    (default: all).
    """
    net = _with_head(model, pseudo)
    assert isinstance(net, HuggingFace), f"{model.family} reads words"
    limit = limit_of(net)
    score_batch, memory = _scorer(net, pseudo, seed, limit, wanted), Limit()
    text = _encoded(net, batch, documents, start_token)
    for rows in by_length(text, Limit(limit)):
        for _, losses in in_halves(score_batch, rows, memory):
            yield losses


def measures(scores: Scores, objective: str) -> dict[str, tuple[float, int]]:
    """Each measure with the number of pieces, words or bytes that it averages over.

    `objective` is causal, masked, pseudo, permuted, seq2seq or bidirectional. Perplexity per word
    and bits per byte need whole texts: they are not given where only some pieces were hidden.
    """
    nats = math.fsum(scores.nats.tolist())
    pieces, words, size = (int(each.sum()) for each in (scores.pieces, scores.words, scores.bytes))
    per_piece = _ratio(nats, pieces)
    guesses = 2 * pieces if objective == "bidirectional" else pieces
    values = {
        "loss": (per_piece, pieces),
        "perplexity": (_exp(per_piece), pieces),
        "accuracy": (_ratio(float(scores.right.sum()), guesses), guesses),
    }
    if objective in ("causal", "pseudo", "permuted", "bidirectional"):
        values["perplexity_per_word"] = (_exp(_ratio(nats, words)), words)
        values["bits_per_byte"] = (_ratio(nats / math.log(2), size), size)
    prefix = "" if objective == "causal" else f"{objective}_"
    return {f"{prefix}{name}": value for name, value in values.items()}


def _ratio(sum_: float, number: int) -> float:
    return sum_ / number if number else math.nan


def _exp(value: float) -> float:
    return math.exp(value) if not value > 700 else math.inf


def start_of(model: Model, batch: Batch) -> int | None:
    """The start token that a causal model was trained with but its tokenizer does not add.

    GPT-2 was trained with a start token before each text; other models have one that they never
    saw. A model counts as trained with it if it predicts these texts better after the token, not
    counting each first piece.
    """
    if not isinstance(model, HuggingFace) or model.objective != "causal":
        return None
    start: int | None = model.tokenizer.bos_token_id
    if start is None or model.tokenizer("a")["input_ids"][0] in model.tokenizer.all_special_ids:
        return None
    score_batch = _scorer(model, None, 0, limit_of(model))
    nats = {True: 0.0, False: 0.0}  # with the start token, and without
    documents = range(min(len(batch), START_TOKEN_TEXTS))
    for with_start in nats:
        text = _encoded(model, batch, documents, start if with_start else None)
        for rows in by_length(text, Limit(limit_of(model))):
            for _, losses in in_halves(score_batch, rows, Limit()):
                nats[with_start] += float(losses.nats[:, 1 + with_start :].double().sum())
    return start if nats[True] < nats[False] else None


def _encoded(net: HuggingFace, batch: Batch, documents: Sequence[int], start: int | None) -> Pieces:
    """Texts in pieces, after a start token if it is given, which counts towards the maximum."""
    if start is None:
        return net.encode(batch, documents)
    text = tokenize_batch(net.tokenizer, batch, documents, (net.max_pieces or UNLIMITED) - 1)
    return text.prefixed(1, start)


def _with_head(model: Model, pseudo: Pseudo | None) -> HuggingFace | BiLM:
    """The part of the model that predicts; raises without a language-model head."""
    net = model.bilm if isinstance(model, WordModel) else model
    if not isinstance(net, HuggingFace | BiLM) or not model.objective:
        raise WorkbenchError(
            f"{model.name} ({model.family}) has no language-model head with trained weights, or "
            "none that can be scored.",
            code="model-unsupported",
            remedy="Choose a model saved with such a head, for example bert-base-uncased or gpt2.",
        )
    if pseudo and model.objective not in PSEUDO:
        raise WorkbenchError(
            f"pseudo-likelihood needs a model that reads both sides at once; {model.name} "
            f"({model.family}) is {model.objective}.",
            code="model-unsupported",
            remedy="Leave pseudo-likelihood out and use the model's own loss.",
        )
    if pseudo == "permuted" and not predicts_in_order(model):
        raise WorkbenchError(
            f"only XLNet predicts pieces in a random order; {model.name} is of the family "
            f"{model.family}.",
            code="model-unsupported",
            remedy="Set pseudo_likelihood to within-word.",
        )
    return net


def predicts_in_order(model: Model) -> bool:
    """Whether a model was trained to predict pieces in a random order, as XLNet."""
    return isinstance(model, HuggingFace) and in_order(model.net)


def _word_scores(net: BiLM, batch: Batch, documents: Sequence[int], limit: int) -> Scores:
    """The sums of a model that predicts whole words."""
    scores = score_words(net, [words_of(batch, document) for document in documents], limit)
    zeros = np.zeros(len(documents), dtype=np.int64)
    sizes = np.diff(batch.text_offsets)[list(documents)]  # bytes, [documents]
    return Scores(
        nats=scores.nats,
        pieces=scores.predictions,
        right=scores.right,
        words=np.maximum(scores.predictions - 1, 0),
        bytes=np.where(scores.predictions > 0, sizes, 0),
        bare=zeros,
        unknown=scores.unknown,
        unaligned=zeros,
        cut=zeros,
    )


def limit_of(net: HuggingFace) -> int:
    """The maximum number of pieces in a batch, so that states and logits fit into memory."""
    kind = net.device.type
    pieces = PIECES.get(kind, PIECES["cpu"])
    if net.objective == "masked":  # logits exist for hidden pieces only
        return pieces
    size = 4 * int(net.net.config.vocab_size)
    return max(1, min(pieces, LOGIT_BYTES.get(kind, LOGIT_BYTES["cpu"]) // size))


def _scorer(
    net: HuggingFace, pseudo: Pseudo | None, seed: int, limit: int, wanted: Wanted | None = None
) -> Score:
    """The function that scores one batch, without gradients."""
    special_pieces: Symbols = symbols(net.tokenizer)
    device = net.device
    mask = mask_of(net.net, net.tokenizer) if net.objective == "masked" else None

    def scored(text: Pieces) -> Losses:
        some = None if wanted is None else wanted(text)
        if net.objective == "causal":
            return causal_losses(net, text.to(device), None if some is None else some.to(device))
        if net.objective == "seq2seq" and pseudo:
            return pseudo_denoising_losses(net, text, special_pieces, limit, pseudo, some)
        if net.objective == "seq2seq":
            inputs, targets = denoising(text, special_pieces, seed)
            return denoising_losses(net, inputs.to(device), targets.to(device))
        if pseudo == "permuted":
            return permuted_losses(net, text.to(device), seed)
        if pseudo:
            some = None if some is None else some.to(device)
            return pseudo_losses(net, text.to(device), mask, limit, pseudo, some)
        return masked_losses(net, text.to(device), sent(chosen(text, seed), device), mask)

    return torch.no_grad()(scored)


def _add(losses: Losses, indices: Sequence[int], sums: dict[str, NDArray[Any]]) -> None:
    """Store a batch's sums at the indices of its documents."""
    scored = losses.scored.cpu().numpy()  # [batch, pieces]
    nats, right = losses.nats.cpu().numpy(), losses.right.cpu().numpy()
    words = losses.text.words.cpu().numpy()
    for row, index in enumerate(indices):
        here = scored[row]
        sums["nats"][index] = math.fsum(nats[row, here].tolist())
        sums["pieces"][index] = np.count_nonzero(here)
        sums["right"][index] = np.count_nonzero(right[row, here])
        owners = np.unique(words[row, here])
        sums["words"][index] = np.count_nonzero(owners != NO_WORD)


def _count_text(
    net: HuggingFace,
    batch: Batch,
    documents: Sequence[int],
    text: Pieces,
    counts: dict[str, NDArray[Any]],
) -> None:
    """Store the counts that need no scores: context, unknown pieces, cut words and bytes."""
    content = candidates(text)
    bare = content[:, 0] & (net.objective == "causal")  # [documents]
    unknown = symbols(net.tokenizer).unknown
    is_unknown = (
        content & (text.ids == unknown) if unknown is not None else torch.zeros_like(content)
    )
    counts["bare"][: len(text)] = bare.numpy()
    counts["unknown"][: len(text)] = is_unknown.sum(1).numpy()
    for row, _ in text.unaligned:
        counts["unaligned"][row] += 1
    sizes = np.diff(batch.text_offsets)[list(documents)]  # bytes, [documents]
    for row, first, last in text.cut:
        counts["cut"][row] += last - first
        sizes[row] -= _lost_bytes(batch, documents[row], first, last)
    rows = bare.nonzero()[:, 0].tolist()
    for row, size in zip(rows, _first_bytes(net, batch, [documents[r] for r in rows]), strict=True):
        sizes[row] -= size
    counts["bytes"][: len(text)] = sizes


def _lost_bytes(batch: Batch, document: int, first: int, last: int) -> int:
    """Bytes of a cut range of words, with the white space around it."""
    text, words = batch.text_of(document), batch.words_of(document)
    begin = int(words[first - 1, 1]) if first else 0
    end = int(words[last, 0]) if last < len(words) else len(text)
    return len(text[begin:end].encode("utf-8"))


def _first_bytes(net: HuggingFace, batch: Batch, documents: Sequence[int]) -> list[int]:
    """Bytes of each document's first piece, with the white space before it."""
    texts = [batch.text_of(document) for document in documents]
    no_words = np.empty((0, 2), dtype=np.int32)
    encoded = encode(net.tokenizer, [source(text, no_words, None) for text in texts])
    return [
        len(text[: each.offsets[0][1]].encode("utf-8"))
        for text, each in zip(texts, encoded, strict=True)
    ]
