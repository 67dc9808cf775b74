"""The attention maps of all heads for one text, from one forward pass, for the attention browser.

    maps = attention(model, doc)        # `AttentionMaps`: arrays only, no model and no torch
    maps.maps[site][head]               # [queries, keys]

Maps are cached by content (weights, tokenizer, text, precision, device) up to a number of bytes, so
that browsing layers and heads never runs the model again; `passes` counts the forward passes.
Costs: a forward pass, and 4 bytes for each head and pair of pieces.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from threading import RLock
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import torch
from torch import Tensor

from workbench.analyses.attention.browsed import Browsed
from workbench.analyses.attention.edits import with_mask
from workbench.analyses.attention.grids import Grid, grid_of, groups, options_of
from workbench.analyses.attention.maps_of_text import (
    Floats,
    MapsOfText,
    Scores,
    Source,
    Text,
)
from workbench.analyses.attention.orders import STREAMS, Order, places_of, require_orders, seen_in
from workbench.core.arrays import Bools
from workbench.core.display import figure_by
from workbench.core.errors import WorkbenchError
from workbench.core.public import public
from workbench.core.registry import once
from workbench.corpora.encode import content_key, doc_of, encode
from workbench.engine.batch import Pieces
from workbench.engine.forward_pass import ALONE
from workbench.engine.model import Model
from workbench.engine.taps import Kind, PassEndedError, Site, StackName, Tap, View
from workbench.models.output_heads.lm_losses import not_before

if TYPE_CHECKING:
    from plotly.graph_objects import Figure
    from spacy.tokens import Doc


# --- a cache of least recently used values, bounded by bytes --------------------------------------
#
#     CACHE.get(key, make)     # made once, by the first caller; others wait for it
#
# A value that alone exceeds the bound is kept until the next one. Thread-safe.


class Sized(Protocol):
    @property
    def size(self) -> int:
        """Bytes held."""
        ...


T = TypeVar("T", bound=Sized)


class ByteCache(Generic[T]):
    """Values by key, up to a number of bytes."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self._values: OrderedDict[Hashable, T] = OrderedDict()
        self._lock = RLock()

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """The value of this key; made if it is not in the cache."""
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
                return self._values[key]
            value = make()
            self._values[key] = value
            while len(self._values) > 1 and self.size > self.max_bytes:
                self._values.popitem(last=False)
            return value

    @property
    def size(self) -> int:
        """Bytes of all values."""
        with self._lock:
            return sum(value.size for value in self._values.values())

    def __len__(self) -> int:
        return len(self._values)

    def clear(self) -> None:
        """Remove all values."""
        with self._lock:
            self._values.clear()


# --- capturing the maps of a text -----------------------------------------------------------------

LONGEST = 2_048  # pieces
CACHE_BYTES = 1 << 30
MAX_BYTES = 2 << 30  # of the maps of one text
WHOLE_BYTES = 512 << 20  # of the maps of one text that are shown at a time; else, a block
BLOCK_BYTES = 256 << 20  # of the maps of a block of layers

CACHE: ByteCache["AttentionMaps"] = ByteCache(CACHE_BYTES)
_passes = 0


class AttentionMaps(MapsOfText, Browsed):
    """All attention maps of one forward pass.

    `maps` has an array [heads, queries, keys] for each `Site` of `model.sites`, `norms` the norms
    of the values, and `texts` the pieces and words of each stack. By a prediction order, `maps`
    also has XLNet's query stream, as sites of the kind `query`.

    Example:
        >>> maps = wb.attention(wb.load("mini:bert", device="cpu"), "Ben walks to the hill.")
        >>> maps
        <AttentionMaps mini:bert: encoder: 8 pieces; 4 sites, 16 heads>
    """

    @property
    def grids(self) -> tuple[Grid, ...]:
        """The grid that the browser shows: the first kind of attention, by pieces."""
        return (self.grid(),)

    @property
    def masks(self) -> Mapping[str, Bools]:
        """Which piece may see which in each stream, by the prediction order; empty without one.

        # [queries, keys] each
        """
        if not self.places:
            return {}
        return {name: seen_in(self.places, kind) for kind, name in STREAMS.items()}

    def masks_figure(self) -> "Figure":
        """Draw the masks of both streams: which piece may see which, by the prediction order."""
        return figure_by("workbench.analyses.attention.figures:masks_of_order", self)

    @public
    def grid(self, group: tuple[StackName, Kind] | None = None, **options: Any) -> Grid:
        """Arrange the maps of one kind of attention as a grid of layers by heads.

        Args:
            group: Stack and kind, such as `("decoder", "cross")` (default: the first of the model).
            **options: `unit` (`pieces` or `words`), `special` (`shown`, `hidden`, `renormalised`),
                `weigh` (`attention`, or `norms`: times the norm of each value), `together`
                (`each head`, `mean over heads`, `max over layers`, `rollout` …), and `layers` and
                `heads` (numbers to show; default: all).

        Returns:
            A `Grid`; `grid.map(row, column)` is one map, [rows, columns], `grid.figure()` draws
            all.

        Raises:
            WorkbenchError: The model has no such attention, layer or head, or an option is unknown.

        Example:
            >>> maps = wb.attention(wb.load("mini:bert", device="cpu"), "Ben walks to the hill.")
            >>> grid = maps.grid(unit="words", special="renormalised")
            >>> grid.sides.rows.names
            ('Ben', 'walks', 'to', 'the', 'hill', '.')
            >>> grid.map(0, 3).shape  # layer 0, head 3
            (6, 6)
        """
        return grid_of(self, group or groups(self)[0], options_of(options))


def passes() -> int:
    """How many forward passes `attention` has run in this process."""
    return _passes


@public
def attention(
    model: Model,
    text: "str | Doc",
    target: "str | Doc | None" = None,
    *,
    order: Order | None = None,
    seed: int = 0,
    layers: Sequence[int] | None = None,
) -> AttentionMaps:
    """Capture the attention maps of all heads for one text, in one forward pass.

    Maps are cached by content (weights, tokenizer, text, precision, device): a second call with the
    same inputs does not run the model again.

    Args:
        model: A `Model` with attention.
        text: A text, in which `[MASK]` or `___` is a hidden word, or a Doc of a corpus.
        target: The text of the decoder in an encoder-decoder model (default: `text`).
        order: Of XLNet: the order in which pieces are predicted, `left to right`, `random`, or
            `as in training` (a sixth of the pieces, from the others), or a list of the positions of
            pieces, the first predicted first; the others are the context, which all see (default:
            all pieces see each other).
        seed: Of an order that is drawn.
        layers: Indices of the layers whose maps are captured, for a long text (default: all).

    Returns:
        `AttentionMaps`: its `maps` has an array [heads, queries, keys] for each site, and `grid()`
        arranges and draws them.

    Raises:
        WorkbenchError: The model has no attention, does not predict in an order, or the maps would
            not fit into memory.

    Example:
        >>> maps = wb.attention(wb.load("mini:bert", device="cpu"), "Ben walks to the hill.")
        >>> maps.texts["encoder"].pieces[:3]
        ('[CLS]', 'Ben', 'walks')
    """
    if not model.sites:
        raise WorkbenchError(
            f"{model.name} ({model.family}) has no attention.",
            code="no-attention",
            remedy="Choose a model with attention, such as mini:bert. You can still probe the "
            "layers of this model.",
        )
    doc, target_doc = doc_of(text), None if target is None else doc_of(target)
    if isinstance(text, str):
        doc = with_mask(model, doc)
    key = content_key(model, doc, target_doc)
    places: tuple[int, ...] = ()
    if order is not None:
        require_orders(model)
        places = places_of(order, seed, model.encode(encode([doc])))
        key += f"-{hashlib.blake2b(repr(places).encode(), digest_size=6).hexdigest()}"
    chosen = None if layers is None else frozenset(layers)
    if chosen is not None:
        if not any(site.layer in chosen for site in model.sites):
            raise WorkbenchError(
                f"No layer with attention has an index in {sorted(chosen)}.",
                code="layer-missing",
                where=model.name,
                remedy=f"Choose from 0 to {max(site.layer for site in model.sites)}.",
            )
        key += f"-layers{sorted(chosen)}"
    maps = CACHE.get(key, lambda: _captured(model, doc, target_doc, key, places, chosen))
    return replace(maps, source=Source(model, doc, target_doc, order, seed))


def blocks(model: Model, text: "Doc", target: "Doc | None" = None) -> list[range]:
    """The layers of a model in blocks whose maps of a text have up to `BLOCK_BYTES`, or one layer.

    One block, if all maps have up to `WHOLE_BYTES`.
    """
    n_layers = 1 + max(site.layer for site in model.sites)
    read = None if target is None else model.encode(encode([target]))
    lengths = _lengths(model.encode(encode([text])), read)
    if 4 * _weights(model, lengths, None) <= WHOLE_BYTES:
        return [range(n_layers)]
    most = max(4 * _weights(model, lengths, frozenset({n})) for n in range(n_layers))
    size = max(1, min(n_layers, BLOCK_BYTES // max(1, most)))
    return [range(first, min(first + size, n_layers)) for first in range(0, n_layers, size)]


def _captured(
    model: Model,
    doc: "Doc",
    target: "Doc | None",
    key: str,
    places: tuple[int, ...],
    layers: frozenset[int] | None,
) -> AttentionMaps:
    global _passes
    source_pieces = model.encode(encode([doc]))
    target_pieces = None if target is None else model.encode(encode([target]))
    _require_room(model, source_pieces, target_pieces, 2 if places else 1, layers)
    if places:
        source_pieces = replace(source_pieces, unseen=not_before(torch.tensor(places)[None]))
    last = None
    if layers is not None and not places:  # by an order, the query stream follows the last site
        last = max(
            (site for site in model.sites if site.layer in layers), key=lambda site: site.index
        )
    tap = _CaptureTap(_projections(model), bool(places), layers, last)
    with ALONE, torch.no_grad(), suppress(PassEndedError):
        _passes += 1
        model.forward(
            source_pieces.to(model.device),
            targets=None if target_pieces is None else target_pieces.to(model.device),
            taps=[tap],
            hidden=False,
        )
    docs = {"encoder": doc, "decoder": doc if target is None else target}
    texts = {
        stack: _text(model, tap.texts[stack], docs[stack] if len(model.stacks) > 1 else doc)
        for stack in sorted(tap.texts, reverse=True)
    }
    if places:
        has_none = ~seen_in(places, "query").any(1)  # [queries], pieces that ask nothing
        for site in tap.maps:
            if site.kind == "query":
                tap.maps[site][:, has_none] = 0
    inputs = [pieces for pieces in (source_pieces, target_pieces) if pieces]
    cut = sum(last - first for pieces in inputs for _, first, last in pieces.cut)
    unaligned = sum(len(pieces.unaligned) for pieces in inputs)
    return AttentionMaps(
        key, model.name, model.precision, texts, tap.maps, tap.norms, tap.scores, cut, unaligned,
        places=places,
    )  # fmt: skip


def _require_room(
    model: Model,
    source: Pieces,
    target: Pieces | None,
    n_streams: int,
    layers: frozenset[int] | None,
) -> None:
    """Raise an error if the maps would not fit, before they are computed."""
    if not bool(source.mask.any()):
        raise WorkbenchError(
            "The text is empty.", code="text-empty", remedy="Type or choose a sentence."
        )
    lengths = _lengths(source, target)
    longest, cells = max(lengths.values()), n_streams * _weights(model, lengths, layers)
    if longest > LONGEST or 4 * cells > MAX_BYTES:
        max_pieces = min(LONGEST, int(longest * (MAX_BYTES / (4 * cells)) ** 0.5))
        raise WorkbenchError(
            f"The text has {longest:,} pieces; its maps would need {4 * cells / 1e9:.1f} GB.",
            code="text-too-long",
            where=model.name,
            remedy=f"Shorten the text to {max_pieces:,} pieces"
            + (", or read fewer layers at a time." if longest <= LONGEST else "."),
        )


def _lengths(source: Pieces, target: Pieces | None) -> dict[str, int]:
    """The number of pieces that each stack reads."""
    read = source.ids.shape[1]
    return {"encoder": read, "decoder": read if target is None else target.ids.shape[1]}


def _weights(model: Model, lengths: Mapping[str, int], layers: frozenset[int] | None) -> int:
    """The number of weights in the maps of some layers, or all."""
    return sum(
        site.heads
        * lengths[site.stack]
        * lengths["encoder" if site.kind == "cross" else site.stack]
        for site in model.sites
        if layers is None or site.layer in layers
    )


@dataclass(eq=False)
class _CaptureTap(Tap):
    """Stores maps, queries, keys, and the norm of each value after the output projection."""

    weights: Mapping[Site, Tensor]  # [heads, width of a head, width]
    reads_second: bool = False
    layers: frozenset[int] | None = None  # None: all
    last: Site | None = None  # after which the pass ends

    def __post_init__(self) -> None:
        self.texts: dict[StackName, Pieces] = {}
        self.maps: dict[Site, Floats] = {}
        self.norms: dict[Site, Floats] = {}
        self.scores: dict[Site, Scores] = {}
        self._biases: list[tuple[Tensor, Floats]] = []  # T5's layers share one

    def wants(self, site: Site) -> bool:
        return self.layers is None or site.layer in self.layers

    def see(self, view: View) -> None:
        assert view.queries is not None and view.keys is not None, "the engine sets both"
        keys_of: StackName = "encoder" if view.site.kind == "cross" else view.site.stack
        self.texts |= {view.site.stack: view.queries, keys_of: view.keys}
        site = replace(view.site, kind="query") if view.is_second else view.site
        self.maps[site] = _floats(view.probabilities[0])
        if view.value is not None and site in self.weights:
            value = view.value[0].repeat_interleave(site.heads // site.groups, 0)  # [heads, k, w]
            self.norms[site] = _floats((value @ self.weights[site].to(value.dtype)).norm(dim=-1))
        if view.vectors is not None:
            vectors = view.vectors
            query, key = _floats(vectors.query[0]), _floats(vectors.key[0])
            self.scores[site] = Scores(query, key, vectors.scale, self._bias(vectors.bias))
        if site == self.last:
            raise PassEndedError

    def _bias(self, bias: Tensor | None) -> Floats | None:
        if bias is None:
            return None
        for known, array in self._biases:
            if known is bias or (known.shape == bias.shape and torch.equal(known, bias)):
                return array
        self._biases.append((bias, _floats(bias[0])))
        return self._biases[-1][1]


def _floats(tensor: Tensor) -> Floats:
    return tensor.detach().to("cpu", torch.float32, copy=True).numpy()


@once
def _projections(model: Model) -> Mapping[Site, Tensor]:
    with ALONE:
        return model.output_weights()


def _text(model: Model, pieces: Pieces, doc: "Doc") -> Text:
    return Text(
        model.shown_pieces(pieces),
        tuple(pieces.words[0].tolist()),
        tuple(pieces.special[0].tolist()),
        tuple(token.text for token in doc),
    )
