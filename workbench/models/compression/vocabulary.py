"""A vocabulary cut to a corpus: pieces that its texts use least, and their embeddings, go first.

Special pieces stay, and so do single characters (of a byte-level tokenizer: bytes): a removed piece
becomes several others, and is unknown only where the vocabulary lacks one of its characters. Pieces
that a tokenizer builds from two others need both, so these stay too. Costs: a copy of the weights
that are kept.
"""

import copy
import json
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from workbench.core.errors import WorkbenchError
from workbench.engine.batch import Batch
from workbench.models.compression.rebuilding import (
    Order,
    cut_dimension,
    cut_state,
    number_left,
    rebuilt,
    require_whole,
)
from workbench.models.huggingface import HuggingFace

CHUNK = 500  # texts that are split at a time


def cut_vocabulary(
    model: HuggingFace,
    amount: float,
    *,
    texts: Batch,
    order: Order = "best",
    seed: int = 0,
) -> HuggingFace:
    """The model without this share of its `removable_pieces`, those rarest in the texts first."""
    model = require_whole(model, "vocabulary")
    number_left(1, amount)  # raises outside 0 to 1
    definition = json.loads(model.tokenizer.backend_tokenizer.to_str())
    scores = piece_counts(model, texts).double()  # [pieces]
    if order == "random":
        scores = torch.rand(len(scores), generator=torch.Generator().manual_seed(seed)).double()
    elif order == "reversed":
        scores = -scores
    kept = _kept(model, definition, scores, amount)
    if kept == list(range(model.net.config.vocab_size)):
        return model.copy()
    config: Any = copy.deepcopy(model.net.config)
    new = {old: index for index, old in enumerate(kept)}
    _renumber(config, new)
    config.vocab_size = len(kept)
    index = torch.tensor(kept)

    def choose(name: str, weights: Tensor, shape: torch.Size) -> Tensor:
        return weights.index_select(cut_dimension(weights, shape), index.to(weights.device))

    tokenizer = _renumbered(model.tokenizer, definition, new)
    smaller = rebuilt(model, config, cut_state(model, config, choose), tokenizer)
    if (generation := getattr(model.net, "generation_config", None)) is not None:
        smaller.net.generation_config = copy.deepcopy(generation)
        _renumber(smaller.net.generation_config, new)
    return smaller


def piece_counts(model: HuggingFace, texts: Batch) -> Tensor:
    """How often each piece is in the texts.  # [pieces]"""
    counts = torch.zeros(model.net.config.vocab_size, dtype=torch.int64)
    for begin in range(0, len(texts), CHUNK):
        pieces = model.encode(texts, range(begin, min(begin + CHUNK, len(texts))))
        counts += torch.bincount(pieces.ids[pieces.mask], minlength=len(counts))
    return counts


def removable_pieces(model: HuggingFace) -> list[int]:
    """Ids of the pieces that are neither special nor a single character or byte."""
    definition = json.loads(model.tokenizer.backend_tokenizer.to_str())
    own = definition["model"]
    fixed = {*model.tokenizer.all_special_ids, own.get("unk_id")}
    fixed |= {each["id"] for each in definition["added_tokens"]}
    prefix = own.get("continuing_subword_prefix") or ""
    pieces = _vocabulary(model, definition).items()
    return [
        id_ for piece, id_ in pieces if len(piece.removeprefix(prefix)) > 1 and id_ not in fixed
    ]


def _kept(
    model: HuggingFace, definition: Mapping[str, Any], scores: Tensor, amount: float
) -> list[int]:
    """Ids of the pieces that stay, ascending."""
    vocabulary = _vocabulary(model, definition)
    free = sorted(removable_pieces(model), key=lambda id_: (-scores[id_].item(), id_))
    gone = set(free[len(free) - round(amount * len(free)) :])
    kept = set(model.tokenizer.get_vocab().values()) - gone
    parts: dict[int, tuple[int, int]] = {}
    for merge in definition["model"].get("merges", ()):
        first, second = merge if isinstance(merge, list) else merge.split(" ")
        parts.setdefault(vocabulary[first + second], (vocabulary[first], vocabulary[second]))
    waiting = list(kept)
    while waiting:
        for part in parts.get(waiting.pop(), ()):
            if part not in kept:
                kept.add(part)
                waiting.append(part)
    return sorted(kept)


def _vocabulary(model: HuggingFace, definition: Mapping[str, Any]) -> dict[str, int]:
    kind, pieces = definition["model"]["type"], definition["model"].get("vocab")
    if kind == "Unigram":
        return {piece: id_ for id_, (piece, _) in enumerate(pieces)}
    if kind not in ("WordPiece", "BPE"):
        raise WorkbenchError(
            f"a vocabulary of the kind {kind} cannot be cut.",
            code="model-unsupported",
            where=model.name,
            remedy="Choose a model whose tokenizer is WordPiece, BPE or Unigram.",
        )
    return dict(pieces)


def _renumbered(
    tokenizer: PreTrainedTokenizerBase, definition: dict[str, Any], new: Mapping[int, int]
) -> PreTrainedTokenizerBase:
    """The tokenizer with the remaining pieces, in the same order and without gaps."""
    from tokenizers import Tokenizer

    own = definition["model"]
    if own["type"] == "Unigram":
        own["vocab"] = [piece for id_, piece in enumerate(own["vocab"]) if id_ in new]
        own["unk_id"] = new.get(own["unk_id"])
    else:
        own["vocab"] = {piece: new[id_] for piece, id_ in own["vocab"].items() if id_ in new}
    if "merges" in own:
        pairs = [each if isinstance(each, list) else each.split(" ") for each in own["merges"]]
        own["merges"] = [pair for pair in pairs if {*pair, "".join(pair)} <= own["vocab"].keys()]
    for added in definition["added_tokens"]:
        added["id"] = new[added["id"]]
    _renumber_processor(definition["post_processor"], new)
    twin = copy.deepcopy(tokenizer)
    twin._tokenizer = Tokenizer.from_str(json.dumps(definition))
    return twin


def _renumber_processor(processor: Any, new: Mapping[int, int]) -> None:
    """Renumber the special pieces that a post-processor adds, in place."""
    if not isinstance(processor, dict):
        return
    for each in processor.get("processors", ()):
        _renumber_processor(each, new)
    for special in (processor.get("special_tokens") or {}).values():
        special["ids"] = [new[id_] for id_ in special["ids"]]
    for name in ("sep", "cls"):  # of BERT's and RoBERTa's own processors
        if isinstance(pair := processor.get(name), list):
            processor[name] = [pair[0], new[pair[1]]]


def _renumber(config: Any, new: Mapping[int, int]) -> None:
    """Renumber the pieces that a config names, in place."""
    for name, value in list(vars(config).items()):
        if not name.endswith(("token_id", "token_ids")):
            continue
        if isinstance(value, int) and not isinstance(value, bool) and value in new:
            setattr(config, name, new[value])
        elif isinstance(value, Sequence) and not isinstance(value, str):
            setattr(config, name, [new[each] for each in value if each in new])
