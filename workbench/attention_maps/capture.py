"""One forward pass of a text, with the maps of all heads kept: what the attention browser shows.

    found = attention(model, doc)        # a `Look`: arrays only, no model and no torch
    found.maps[site][head]               # [queries, keys]

What was looked at before is kept, by content (weights, tokenizer, text, precision, device), within
a bound of bytes, so that turning over layers and heads never runs the model again; `passes` counts
how often it did. Costs a forward pass, and 4 bytes a head and pair of pieces.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from threading import Lock, RLock
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from workbench.core.errors import WorkbenchError
from workbench.core.public import public
from workbench.core.registry import once
from workbench.corpora.encode import encode
from workbench.engine.batch import Pieces
from workbench.engine.model import Model
from workbench.engine.taps import Site, StackName, Tap, View

if TYPE_CHECKING:
    from spacy.tokens import Doc

# --- what was made is kept until there is too much of it: the least lately used goes first --------
#
#     KEPT.get(key, make)     # made once, by whoever asks first; others wait for it
#
# Bounded by bytes, not by number; what alone is larger than the bound is kept until the next
# comes. Safe among threads. Costs nothing.


class Sized(Protocol):
    @property
    def size(self) -> int:
        """Bytes held."""
        ...


T = TypeVar("T", bound=Sized)


class Kept(Generic[T]):
    """Values by key, at most so many bytes of them."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._held: OrderedDict[Hashable, T] = OrderedDict()
        self._lock = RLock()

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """The value of this key, made where it is not there."""
        with self._lock:
            if key in self._held:
                self._held.move_to_end(key)
                return self._held[key]
            value = make()
            self._held[key] = value
            while len(self._held) > 1 and self.size > self.most:
                self._held.popitem(last=False)
            return value

    @property
    def size(self) -> int:
        """Bytes held in all."""
        with self._lock:
            return sum(value.size for value in self._held.values())

    def __len__(self) -> int:
        return len(self._held)

    def clear(self) -> None:
        """Let go of everything."""
        with self._lock:
            self._held.clear()


# --- capturing the maps of a text -----------------------------------------------------------------

Floats = NDArray[np.float32]
LONGEST = 2_048  # pieces
MOST = 1 << 30  # bytes of maps that are kept
LARGEST = 2 << 30  # bytes of one look

KEPT: Kept["Look"] = Kept(MOST)
_alone = Lock()  # one forward pass at a time: hooks of some routes are the model's own
_passes = 0


@dataclass(frozen=True)
class Text:
    """What one stack read."""

    pieces: tuple[str, ...]  # as they are shown
    owners: tuple[int, ...]  # the word that owns each; -1: none
    special: tuple[bool, ...]
    words: tuple[str, ...]  # of the Doc


@dataclass(frozen=True)
class Scores:
    """What the softmax of a site was given: `scale * query . key + bias`."""

    query: Floats  # [heads, queries, width of a head]
    key: Floats  # [groups, keys, width of a head]
    scale: float
    bias: Floats | None  # [heads, queries, keys]


@dataclass(frozen=True)
class Look:
    """All that attention did in one forward pass."""

    id: str  # a hash of weights, tokenizer, text, precision and device
    model: str
    precision: str
    texts: Mapping[StackName, Text]
    maps: Mapping[Site, Floats]  # [heads, queries, keys] each
    norms: Mapping[Site, Floats]  # [heads, keys]: of each value through its slice of the output map
    scores: Mapping[Site, Scores]
    cut: int  # words beyond the model's length
    unaligned: int  # words that own no piece

    def __repr__(self) -> str:
        """Model, texts and number of maps; not their numbers."""
        read = ", ".join(
            f"{stack}: {len(text.pieces)} pieces" for stack, text in self.texts.items()
        )
        heads = sum(site.heads for site in self.maps)
        cut = f"; {self.cut:,} words beyond the model's length are left out" if self.cut else ""
        return f"<Look {self.model}: {read}; {len(self.maps)} sites, {heads} heads{cut}>"

    @property
    def size(self) -> int:
        """Bytes held."""
        held = [*self.maps.values(), *self.norms.values()]
        for scores in self.scores.values():
            held += [scores.query, scores.key]
        biases = {id(s.bias): s.bias for s in self.scores.values() if s.bias is not None}
        return sum(array.nbytes for array in [*held, *biases.values()])

    def queries(self, site: Site) -> Text:
        return self.texts[site.stack]

    def keys(self, site: Site) -> Text:
        return self.texts["encoder" if site.kind == "cross" else site.stack]


def passes() -> int:
    """How many forward passes `attention` has run in this process."""
    return _passes


@public
def attention(model: Model, text: "str | Doc", target: "str | Doc | None" = None) -> Look:
    """Capture the attention maps of all heads for one text, in one forward pass.

    Maps are kept by content (weights, tokenizer, text, precision, device), so asking again does not
    run the model again.

    Args:
        model: A `Model` with attention.
        text: A text, or a Doc of a corpus.
        target: What a decoder next to an encoder writes (default: the text itself).

    Returns:
        A `Look`: plain arrays, `maps[site]` is [heads, queries, keys].

    Raises:
        WorkbenchError: The model has no attention, or the maps would not fit into memory.

    Example:
        >>> seen = wb.attention(wb.load("mini:bert", device="cpu"), "Ben walks to the hill.")
        >>> seen.texts["encoder"].pieces[:3]
        ('[CLS]', 'Ben', 'walks')
    """
    if not model.sites:
        raise WorkbenchError(
            f"{model.name} ({model.family}) has no attention to look at.",
            remedy="Choose a model with attention, such as mini:bert; of this one the layers "
            "themselves can be looked at, by probing.",
        )
    doc, written = _doc_of(text), None if target is None else _doc_of(target)
    key = _key(model, doc, written)
    return KEPT.get(key, lambda: _captured(model, doc, written, key))


def _doc_of(text: "str | Doc") -> "Doc":
    """A Doc as it is; a text cut into words by rules."""
    if not isinstance(text, str):
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        raise WorkbenchError(
            f"the text has a character that is not Unicode text: {text!a:.40}.",
            code="text-encoding",
            remedy="Remove lone surrogates, such as \\ud800.",
        ) from None
    from workbench.corpora.text import tokenizer

    return tokenizer(None, "en")(text)


def _key(model: Model, doc: "Doc", target: "Doc | None") -> str:
    """By content: another model under the same name is another look."""
    digest = hashlib.blake2b(digest_size=12)
    for part in (model.content_hash, model.precision, str(model.device), model.name):
        digest.update(part.encode() + b"\0")
    for text in (doc, target):
        if text is not None:
            ranges = [(token.idx, len(token)) for token in text]
            segments = [(s.start, s.end) for s in text.spans.get("segments", ())]
            digest.update(repr((text.text, ranges, segments)).encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


def _captured(model: Model, doc: "Doc", target: "Doc | None", key: str) -> Look:
    global _passes
    read = model.encode(encode([doc]))
    written_text = None if target is None else model.encode(encode([target]))
    _require_room(model, read, written_text)
    tap = _Everything(_projections(model))
    with _alone, torch.no_grad():
        _passes += 1
        output = model.forward(
            read.to(model.device),
            targets=None if written_text is None else written_text.to(model.device),
            taps=[tap],
            hidden=False,
        )
    docs = {"encoder": doc, "decoder": doc if target is None else target}
    texts = {
        stack: _text(model, pieces, docs[stack] if len(output.texts) > 1 else doc)
        for stack, pieces in output.texts.items()
    }
    cut = sum(last - first for text in (read, written_text) if text for _, first, last in text.cut)
    unaligned = sum(len(text.unaligned) for text in (read, written_text) if text)
    return Look(
        key, model.name, model.precision, texts, tap.maps, tap.norms, tap.scores, cut, unaligned
    )


def _require_room(model: Model, read: Pieces, target: Pieces | None) -> None:
    """Refuse what would not fit, before it is computed."""
    lengths = {"encoder": read.ids.shape[1]}
    lengths["decoder"] = lengths["encoder"] if target is None else target.ids.shape[1]
    if not bool(read.mask.any()):
        raise WorkbenchError("there is no text to look at.", remedy="Type or choose a sentence.")
    longest = max(lengths.values())
    cells = 0
    for site in model.sites:
        queries = lengths[site.stack]
        keys = lengths["encoder"] if site.kind == "cross" else queries
        cells += site.heads * queries * keys
    if longest > LONGEST or 4 * cells > LARGEST:
        raise WorkbenchError(
            f"the text has {longest:,} pieces: its maps would be {4 * cells / 1e9:.1f} GB.",
            where=model.name,
            remedy=f"Look at {min(LONGEST, int(longest * (LARGEST / (4 * cells)) ** 0.5)):,} "
            "pieces at most: shorten the text.",
        )


@dataclass(eq=False)
class _Everything(Tap):
    """Keeps maps, what they were made of, and how far each value reaches."""

    weights: Mapping[Site, Tensor]  # [heads, width of a head, width]

    def __post_init__(self) -> None:
        self.maps: dict[Site, Floats] = {}
        self.norms: dict[Site, Floats] = {}
        self.scores: dict[Site, Scores] = {}
        self._biases: list[tuple[Tensor, Floats]] = []  # T5's layers share one

    def see(self, view: View) -> None:
        site = view.site
        self.maps[site] = _floats(view.probabilities[0])
        if view.value is not None and site in self.weights:
            value = view.value[0].repeat_interleave(site.heads // site.groups, 0)  # [heads, k, w]
            self.norms[site] = _floats((value @ self.weights[site].to(value.dtype)).norm(dim=-1))
        if view.vectors is not None:
            made = view.vectors
            query, key = _floats(made.query[0]), _floats(made.key[0])
            self.scores[site] = Scores(query, key, made.scale, self._bias(made.bias))

    def _bias(self, bias: Tensor | None) -> Floats | None:
        if bias is None:
            return None
        for seen, kept in self._biases:
            if seen is bias or (seen.shape == bias.shape and torch.equal(seen, bias)):
                return kept
        self._biases.append((bias, _floats(bias[0])))
        return self._biases[-1][1]


def _floats(tensor: Tensor) -> Floats:
    found: Floats = tensor.detach().float().cpu().numpy().copy()
    return found


@once
def _projections(model: Model) -> Mapping[Site, Tensor]:
    with _alone:
        return model.output_weights()


def _text(model: Model, pieces: Pieces, doc: "Doc") -> Text:
    return Text(
        model.piece_texts(pieces.ids[0].tolist()),
        tuple(pieces.words[0].tolist()),
        tuple(pieces.special[0].tolist()),
        tuple(token.text for token in doc),
    )
