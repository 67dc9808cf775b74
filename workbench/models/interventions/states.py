"""Read and write states at named sites: in a pass, while text is written, or in every experiment.

    seen = wb.Read("block 2")
    model.forward(text, taps=[seen, wb.Write("block 3 mlp", 0)])
    seen["block 2"]                               # by document: [pieces, width]
    with wb.Write("block 2", plus=vector).on(model):
        wb.generate(model, "Ben walks")           # every pass inside the context
    wb.run("heads", model=wb.Write("head 1.3", 0).into(model), corpus="primer")

The names are those of `docs/guides/numbering.md`, the same for every model: `embeddings`,
`block 5` (what it returns), `block 5 attention`, `block 5 mlp` (what each adds to the residual
stream), `block 5 queries`, `keys`, `values` and `heads` (before the output projection),
`head 5.3`, `head 5.3 queries`, … of one head, `block 5 neurons` (what the last projection of its
MLP reads), and `neuron 5.120`. `encoder` or `decoder` before a name chooses the
stack (default: the one that reads the text), and `cross-attention` the decoder's attention to the
encoder: `decoder block 2 cross-attention`, `cross-attention head 2.1`. ELMo has embeddings and
blocks. `patching.passing` finds the modules and hooks them.

Costs: a few passes over four pieces when a tap first meets a model; then a copy of what is written
or read. An edited model shares the weights of its base.
"""

import copy
import hashlib
import re
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeVar, cast

import torch
from torch import Tensor

from workbench.core.errors import WorkbenchError
from workbench.core.head_names import FIRST
from workbench.core.public import check_fields, public
from workbench.engine.batch import Pieces
from workbench.engine.model import Model, refusal
from workbench.engine.taps import StackName, Tap, current
from workbench.models.edit_terms import changed_hash
from workbench.models.huggingface import HuggingFace
from workbench.models.interventions.patching import (
    Passing,
    PatchPoints,
    Point,
    Vectors,
    What,
    passing,
    patch_points,
)
from workbench.models.references import as_random
from workbench.models.word_models import WordModel

E = TypeVar("E", bound="EditedNet")
Change = Callable[[Tensor], Tensor]
Positions = int | Sequence[int] | slice | None

_ATTENTION = "(?:(?P<kind>cross-attention|attention) )?"
_SITE = re.compile(
    "(?:(?P<stack>encoder|decoder) )?(?:(?P<embeddings>embeddings)"
    "|(?:block|layer) (?P<block>[1-9][0-9]{0,5})(?: (?P<of>cross-attention|attention))?"
    "(?: (?P<what>mlp|heads|neurons|queries|keys|values))?"
    "|neuron (?P<in_block>[1-9][0-9]{0,5})\\.(?P<neuron>[1-9][0-9]{0,5})"
    f"|{_ATTENTION}head (?P<layer>[1-9][0-9]{{0,5}})\\.(?P<head>[1-9][0-9]{{0,5}})"
    "(?: (?P<vectors>queries|keys|values))?)"
)
_EXAMPLES = "embeddings, block 2, block 2 attention, block 2 mlp, block 2 values, or head 2.3"
_HOOK = re.compile("blocks\\.([0-9]{1,5})\\.(.+)")
_HOOKS = {  # names of TransformerLens, after `blocks.1.`
    "hook_resid_post": "block {}",
    "hook_attn_out": "block {} attention",
    "hook_mlp_out": "block {} mlp",
    "attn.hook_q": "block {} queries",
    "attn.hook_k": "block {} keys",
    "attn.hook_v": "block {} values",
    "attn.hook_z": "block {} heads",
    "mlp.hook_post": "block {} neurons",
}


class Place(NamedTuple):
    """A site of a model: a point of a pass, and one of its heads."""

    point: Point
    head: int | None = None


@dataclass(eq=False, kw_only=True)
class StateTap(Tap):
    """A tap at named sites, for some pieces of each text."""

    words: int | Sequence[int] | None = None
    positions: Positions = None
    _model: Model | None = field(default=None, init=False, repr=False)
    _points: dict[str, PatchPoints] = field(default_factory=dict, init=False, repr=False)
    _found: bool | None = field(default=None, init=False, repr=False)  # a piece; None: no pass yet

    needs_probabilities = False

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its sites."""
        raise NotImplementedError

    def through(self, name: str, place: Place, states: Tensor, at: "At") -> Tensor:
        """The states that go on.  # [batch, pieces, ...]"""
        raise NotImplementedError

    @staticmethod
    def together(model: Model, taps: "list[StateTap]") -> Any:
        """The context in which these taps are on a model."""
        return opened(model, taps)

    @contextmanager
    def on(self, model: Model) -> Iterator[Self]:
        """A context whose passes of the model, by whatever code, go through this tap.

        Example:
            >>> model = wb.load("mini:gpt", device="cpu")
            >>> with wb.Write("block 1", 0).on(model):
            ...     written = wb.generate(model, "Ben walks", max_pieces=3)
        """
        whole, self._found = False, None
        try:
            with opened(model, [self]):
                yield self
            whole = True
        finally:
            self.close(whole)
        self.require_found()

    def chosen(self, at: "At") -> Tensor:
        """The chosen pieces of a pass.  # [batch, pieces], bool"""
        mask = at.chosen(self.words, self.positions)
        self._found = bool(self._found) or bool(mask.any())
        return mask

    def require_found(self) -> None:
        """Raise an error if no pass had a piece that is chosen."""
        if self._found is False:
            wanted = {"words": self.words, "positions": self.positions}
            chosen = ", ".join(f"{key}={each}" for key, each in wanted.items() if each is not None)
            raise WorkbenchError(
                f"no text has the pieces of {chosen or 'all positions'}, so nothing was read or "
                f"written at {', '.join(self.names)}.",
                code="word-unknown",
                remedy="Words and positions are counted from 0; positions=-1 is the last piece.",
            )

    def points(self, model: Model, what: What | Vectors) -> PatchPoints:
        """The points of a model, found once."""
        if self._model is not model:
            self._model, self._points = model, {}
        if what not in self._points:
            self._points[what] = patch_points(model, what, predicting=True)
        return self._points[what]


@dataclass(eq=False)
class Read(StateTap):
    """Store the states of a pass at named sites.

    Args:
        sites: The name of a site, or several: `embeddings`, `block 2`, `block 2 attention`,
            `block 2 mlp`, `block 2 heads` (or `queries`, `keys`, `values`), `block 2 neurons`,
            `head 2.3`, `neuron 2.45`, counted from 1. `encoder` or `decoder` before it chooses the
            stack (default: the one that reads the text).
        words: Index of a word of each text, or several (default: all pieces).
        positions: Index of a piece of each text, several, or a `slice`; -1 is the last piece
            (default: all pieces).

    `blocks.1.hook_resid_post` of TransformerLens is `block 2`; `docs/how-to/states.md` has the
    others.

    `read[site]` has a tensor for each document, in order: [pieces, width], of heads and vectors
    [pieces, heads, width of a head], of one head [pieces, width of a head]. While text is written,
    pieces are added as they are read.

    Example:
        >>> model = wb.load("mini:bert", device="cpu")
        >>> seen = wb.Read(["block 2", "head 1.3"])
        >>> report = wb.forward(model, wb.encode(wb.read("primer").docs("test", 5)), taps=[seen])
        >>> len(seen["block 2"]), seen["head 1.3"][0].shape
        (5, torch.Size([8, 32]))
    """

    sites: str | Sequence[str]
    states: dict[str, dict[int, Tensor]] = field(default_factory=dict, init=False, repr=False)
    _pending: dict[tuple[str, int], list[Tensor]] = field(
        default_factory=dict, init=False, repr=False
    )

    def __post_init__(self) -> None:
        check_fields(self, skip=("positions", "_pending", "_points", "_model", "states"))

    @property
    def names(self) -> tuple[str, ...]:
        return (self.sites,) if isinstance(self.sites, str) else tuple(self.sites)

    def __getitem__(self, site: str) -> list[Tensor]:
        """The states of each document, in the order of documents."""
        if site not in self.states:
            known = ", ".join(self.states) or "nothing yet: pass it in taps=[...]"
            raise WorkbenchError(
                f"no state of {site!r:.40} was read.",
                code="setting-invalid",
                remedy=f"Use a name of the tap as it was written. It has read {known}.",
            )
        self.require_found()
        return [state for _, state in sorted(self.states[site].items())]

    def through(self, name: str, place: Place, states: Tensor, at: "At") -> Tensor:
        own = states if place.head is None else states[:, :, place.head]
        chosen = self.chosen(at)
        for row, document in enumerate(at.documents):
            parts = self._pending.setdefault((name, document), [])
            if not at.offset:
                parts.clear()
            parts.append(own[row][chosen[row]].detach())
        return states

    def close(self, whole: bool) -> None:
        for (name, document), parts in self._pending.items() if whole else ():
            self.states.setdefault(name, {})[document] = torch.cat(parts)
        self._pending.clear()


@dataclass(eq=False)
class Write(StateTap):
    """Change the states of a pass at a named site: to a value, by a sum or a product.

    Args:
        site: The name of a site, as for `wb.Read`.
        to: What they become: a number (0 removes them), a tensor of one state or of all chosen
            ones, or a function from the chosen states, [states, width], to new ones.
        plus: A tensor, or a number, that is added.
        times: A number or a tensor by which they are multiplied, before `plus`; a square matrix is
            multiplied from the right.
        words: Index of a word of each text, or several (default: all pieces).
        positions: Index of a piece of each text, several, or a `slice`; -1 is the last piece of
            the text (default: all pieces, those that the model writes too).

    It is a tap of `wb.forward` and `model.forward`. `on(model)` is a context for passes by any
    code, such as `wb.generate`; `into(model)` is a model for any experiment.

    Example:
        >>> import torch
        >>> model = wb.load("mini:bert", device="cpu")
        >>> steered = wb.Write("block 2", plus=torch.ones(model.width)).into(model)
        >>> steered.content_hash == model.content_hash
        False
        >>> wb.attribute(steered, "Ben [MASK] to the hill.", "walks").label
        "'walks'"
    """

    site: str
    to: Tensor | float | Change | None = None
    plus: Tensor | float | None = field(default=None, kw_only=True)
    times: Tensor | float | None = field(default=None, kw_only=True)
    _token: str = field(default_factory=lambda: uuid.uuid4().hex, init=False, repr=False)

    def __post_init__(self) -> None:
        check_fields(self, skip=("positions", "to", "_points", "_model"))
        if self.to is None and self.plus is None and self.times is None:
            raise WorkbenchError(
                f"nothing is written at {self.site!r:.40}.",
                code="setting-invalid",
                remedy="Pass a value, or plus= or times=.",
            )

    @property
    def names(self) -> tuple[str, ...]:
        return (self.site,)

    def through(self, name: str, place: Place, states: Tensor, at: "At") -> Tensor:
        chosen = self.chosen(at)
        own = states if place.head is None else states[:, :, place.head]
        old = own[chosen]  # [chosen, ...]
        if not len(old):
            return states
        counts = chosen.sum(1)
        rows = len(counts) if bool((counts == counts[0]).all()) else 1
        result = states.clone()
        view = result if place.head is None else result[:, :, place.head]
        view[chosen] = self._new(old, rows)
        return result

    def _new(self, old: Tensor, rows: int) -> Tensor:
        """The new states.  # [chosen, ...] -> [chosen, ...]"""
        new = old
        if self.to is not None:
            new = self._fitted(self.to(old) if callable(self.to) else self.to, old, rows)
        if isinstance(self.times, Tensor) and self.times.ndim == 2 and self._is_square(old):
            new = new @ self.times.to(old)
        elif self.times is not None:
            new = new * self._fitted(self.times, old, rows)
        return new if self.plus is None else new + self._fitted(self.plus, old, rows)

    def _is_square(self, old: Tensor) -> bool:
        assert isinstance(self.times, Tensor)
        return tuple(self.times.shape) == (old.shape[-1], old.shape[-1])

    def _fitted(self, value: Tensor | float, old: Tensor, rows: int) -> Tensor:
        """A value for each chosen state; one for each of a text is repeated for all texts."""
        try:
            given = torch.as_tensor(value).to(old)
        except (RuntimeError, TypeError, ValueError):
            raise WorkbenchError(
                f"what is written at {self.site} is {value!r:.40}, which is no number or tensor.",
                code="wrong-type",
                remedy="Pass a number (0 removes the states), a tensor, or a function that returns "
                "the new states. A Read has a list: pass the states of one text, seen[site][0].",
            ) from None
        if given.ndim == old.ndim and len(given) not in (1, len(old)) and len(old) % rows == 0:
            given = given.repeat(rows, *[1] * (given.ndim - 1))
        try:
            return given.expand(old.shape)
        except RuntimeError:
            raise WorkbenchError(
                f"a value of shape {list(given.shape)} does not fit the chosen states of "
                f"{self.site}: {list(old.shape)}.",
                code="setting-invalid",
                remedy=f"Pass one state, {list(old.shape[1:])}, or one for each chosen piece.",
            ) from None

    @property
    def digest(self) -> str:
        """Hash of what it changes; a function has no content, so each counts as another edit."""
        hashed = hashlib.blake2b(digest_size=16)
        hashed.update(repr((self.site, self.words, self.positions)).encode())
        for value in (self.to, self.plus, self.times):
            if isinstance(value, Tensor):
                numbers = value.detach().cpu().contiguous()
                hashed.update(f"{numbers.dtype} {tuple(numbers.shape)}".encode())
                hashed.update(numbers.reshape(-1).view(torch.uint8).numpy().tobytes())
            else:
                hashed.update((self._token if callable(value) else repr(value)).encode())
        return hashed.hexdigest()

    @public
    def into(self, model: Model) -> Model:
        """A model that makes this change in every pass, for any function and experiment.

        It shares the weights of the given model, which is not changed. Its content hash is made
        from that of the model and of the change, so its runs are its own. Changes may follow one
        another: `second.into(first.into(model))`.

        Args:
            model: A transformers model or an ELMo.

        Returns:
            A `Model`. It cannot be saved: the change is not in its weights.

        Raises:
            WorkbenchError: The model has no such site.

        Example:
            >>> model = wb.load("mini:gpt", device="cpu")
            >>> wb.Write("block 4", 0).into(model).name
            'mini:gpt (block 4 changed)'
        """
        return edited(model, [self])


# --- in a pass ------------------------------------------------------------------------------------


class At(NamedTuple):
    """The pieces of a text that a pass reads at a site."""

    text: Pieces | None  # None: not known, such as what a decoder writes
    shape: tuple[int, int]  # [batch, pieces]
    device: torch.device
    offset: int  # pieces that were read before, while text is written

    @property
    def documents(self) -> list[int]:
        """The index of each row's document; of rows that repeat one, their own."""
        own = [] if self.text is None else self.text.order.tolist()
        return own if own and len({*own}) == len(own) else list(range(self.shape[0]))

    def chosen(self, words: int | Sequence[int] | None, positions: Positions) -> Tensor:
        """The chosen pieces.  # [batch, pieces], bool"""
        batch, n = self.shape
        at = torch.arange(self.offset, self.offset + n, device=self.device)  # [pieces]
        text = self.text
        if text is None:
            mask = torch.ones(batch, n, dtype=torch.bool, device=self.device)
            ends = torch.full((batch, 1), self.offset + n, device=self.device)
        else:
            size = text.ids.shape[1]
            mask = text.mask.to(self.device)[:, at.clamp(max=size - 1)]
            mask = torch.where(
                at < size, mask, self.offset > 0
            )  # written, or a model's own padding
            ends = text.mask.to(self.device).sum(1, keepdim=True)  # [batch, 1]
        if words is not None:
            mask = mask & self._of_words(words, at)
        if positions is not None:
            mask = mask & _at_positions(positions, at, ends)
        return mask

    def _of_words(self, words: int | Sequence[int], at: Tensor) -> Tensor:
        if self.text is None:
            raise WorkbenchError(
                "words are not known here: this pass was not given the text in words.",
                code="setting-invalid",
                remedy="Choose pieces with positions=.",
            )
        size = self.text.ids.shape[1]
        wanted = torch.tensor([words] if isinstance(words, int) else list(words))
        owner = self.text.words.to(self.device)[:, at.clamp(max=size - 1)]
        return torch.isin(owner, wanted.to(self.device)) & (owner >= 0) & (at < size)


def _at_positions(positions: Positions, at: Tensor, ends: Tensor) -> Tensor:
    """Which pieces are at some positions, from the start or the end.  # [batch, pieces], bool"""
    if isinstance(positions, slice):
        first = 0 if positions.start is None else positions.start
        is_in = at >= (ends + first if first < 0 else torch.full_like(ends, first))
        if positions.stop is not None:
            stop = positions.stop
            is_in = is_in & (at < (ends + stop if stop < 0 else torch.full_like(ends, stop)))
        return (
            is_in if positions.step in (None, 1) else is_in & ((at - first) % positions.step == 0)
        )
    wanted = [positions] if isinstance(positions, int) else list(positions or ())
    places = [ends + each if each < 0 else torch.full_like(ends, each) for each in wanted]
    return torch.stack([at == place for place in places]).any(0) if places else ends > ends + at


@contextmanager
def opened(model: Model, taps: Sequence[StateTap], is_edit: bool = False) -> Iterator[None]:
    """The taps are on the model in passes inside the context, in their order at each site.

    Those of the model's own edit come before all that are opened later.
    """
    by_kind: dict[str, list[tuple[StateTap, str, Place]]] = {}
    for tap in taps:
        for name in tap.names:
            place = place_of(model, name, tap.points)
            by_kind.setdefault(place.point.what, []).append((tap, name, place))
    with ExitStack() as entered:
        for own in by_kind.values():
            points = own[0][0].points(model, own[0][2].point.what)
            entered.enter_context(_through(points, own, is_edit))
        yield


@contextmanager
def _through(
    points: PatchPoints, taps: Sequence[tuple[StateTap, str, Place]], is_edit: bool
) -> Iterator[Passing]:
    here: list[Passing] = []

    def change(point: Point, stream: int, whole: Tensor) -> Tensor:
        states = first = whole[:, 1:-1] if points.is_recurrent else whole  # without the text's ends
        for tap, name, place in taps:
            if place.point == point and not (stream and isinstance(tap, Read)):
                states = tap.through(name, place, states, _at(here[0], point, states))
        if states is first or not points.is_recurrent:
            return whole if states is first else states
        return torch.cat([whole[:, :1], states, whole[:, -1:]], 1)

    with passing(points, change, is_edit=is_edit) as passed:
        here.append(passed)
        yield passed


def _at(here: Passing, point: Point, states: Tensor) -> At:
    """The pieces behind some states; keys and values of cross-attention are of the encoder."""
    is_read = point.kind == "cross" and point.what in ("keys", "values")
    stack: StackName = "encoder" if is_read else point.stack
    running = current()
    text = None if running is None else running.texts.get(stack)
    if text is not None and len(text) != len(states):
        text = None
    offset = 0 if is_read else here.offset.get(stack, 0)
    return At(text, (states.shape[0], states.shape[1]), states.device, offset)


# --- names of sites -------------------------------------------------------------------------------


def place_of(
    model: Model, name: str, points: Callable[[Model, What | Vectors], PatchPoints]
) -> Place:
    """The site of a model with this name; an error says which there are."""
    found = _SITE.fullmatch(name.strip())
    if found is None:
        raise WorkbenchError(
            f"{name!r:.60} is not the name of a site.",
            code="layer-missing",
            remedy=_remedy(name),
        )
    part = found.groupdict()
    kind = part["kind"] or part["of"]
    stack = part["stack"] or model.stacks[-1 if kind == "cross-attention" else 0].name
    if stack not in [each.name for each in model.stacks]:
        raise _missing(model, name, f"it has no {stack}", "layer-missing")
    if part["embeddings"]:
        return Place(Point("states", cast(StackName, stack), 0))
    what, layer = _what(part), int(part["block"] or part["layer"] or part["in_block"])
    n_layers = next(each.layers for each in model.stacks if each.name == stack)
    if layer > n_layers:
        reason = f"its {stack} has blocks 1 to {n_layers}"
        raise _missing(model, name, reason, "layer-missing")
    if what == "states":
        return Place(Point(what, cast(StackName, stack), layer))
    own = points(model, what)
    alike = [
        each
        for each in own.points
        if (each.stack, each.layer) == (stack, layer - FIRST)
        and (what in ("mlps", "neurons") or (each.kind == "cross") == (kind == "cross-attention"))
    ]
    if not alike:
        raise _missing(model, name, f"this block has no such {kind or 'part'}", "layer-missing")
    number = part["head"] or part["neuron"]
    if number is None:
        return Place(alike[0])
    n_heads, head = _heads(own, alike[0]), int(number) - FIRST
    if head >= n_heads:
        of = "neurons" if part["neuron"] else "heads"
        reason = f"block {layer} has {of} {layer}.1 to {layer}.{n_heads}"
        raise _missing(model, name, reason, "head-missing")
    return Place(alike[0], head * own.heads[alike[0]] // n_heads)


def _remedy(name: str) -> str:
    """What to write instead of this name; of a hook of TransformerLens, its name here."""
    hook = _HOOK.fullmatch(name.strip())
    if hook and hook[2] == "attn.hook_pattern":
        return f"Read maps with wb.Capture(lambda site: site.layer == {int(hook[1])})."
    if hook and hook[2] == "hook_resid_pre":
        block = f"block {int(hook[1])}" if int(hook[1]) else "embeddings"
        return f"Write {block!r}: what this block of TransformerLens reads."
    if hook and hook[2] in _HOOKS:
        block = _HOOKS[hook[2]].format(int(hook[1]) + FIRST)
        return f"Write {block!r}: blocks are counted from 1."
    return f"Write {_EXAMPLES}; blocks and heads are counted from 1."


def _heads(points: PatchPoints, point: Point) -> int:
    """The number of heads at a point, of which several may share keys and values."""
    sites = [
        site
        for site in points.model.sites
        if (site.stack, site.layer, site.kind) == (point.stack, point.layer, point.kind)
    ]
    return sites[0].heads if sites else points.heads[point]


def _what(part: dict[str, str | None]) -> What | Vectors:
    one = "heads" if part["head"] else "neurons" if part["neuron"] else None
    named = part["what"] or part["vectors"] or one
    if named is None:
        return "attentions" if part["of"] else "states"
    return "mlps" if named == "mlp" else cast("What | Vectors", named)


def _missing(model: Model, name: str, reason: str, code: str) -> WorkbenchError:
    return WorkbenchError(
        f"{model.name} ({model.family}) has no site {name!r:.60}: {reason}.",
        code=code,
        remedy=f"Choose one that it has, such as {_EXAMPLES}.",
    )


# --- edited models --------------------------------------------------------------------------------


class EditedNet(HuggingFace):
    """A transformers model whose states are changed in every pass; it shares its base's weights."""

    base: HuggingFace
    writes: tuple[Write, ...] = ()
    _entered: ExitStack  # the hooks on its modules, as long as it lives

    @cached_property
    def content_hash(self) -> str:
        """Hash of the base's content, and of what is changed."""
        return changed_hash(self._hashed({}), _digest("", self.writes))

    def content_hash_in_fp32(self) -> str | None:
        return None

    def copy(self, in_fp32: bool = False) -> "EditedNet":
        return edited_net(self.base.copy(in_fp32), self.writes, self.name, EditedNet)

    def reinitialised(self, seed: int) -> "EditedNet":
        return edited_net(
            self.base.reinitialised(seed), self.writes, as_random(self.name), EditedNet
        )

    def save(self, folder: Path) -> None:
        self.in_weights().save(folder)

    def in_weights(self) -> Any:
        raise refusal(
            self,
            "is changed in its passes, not in its weights, so it cannot be saved, and no heads of "
            "it can be removed",
            "Save the model that was changed, and write the same changes into it again.",
        )


def edited(model: Model, writes: Sequence[Write]) -> Model:
    """A model that makes changes in every pass; see `Write.into`."""
    if isinstance(model, EditedNet):
        return edited_net(model.base, (*model.writes, *writes), _name(model, writes), EditedNet)
    if isinstance(model, HuggingFace):
        return edited_net(model, tuple(writes), _name(model, writes), EditedNet)
    if isinstance(model, WordModel) and model.elmo is not None:
        return model.changed(
            lambda twin: opened(twin, [copy.copy(each) for each in writes]),
            _digest(model.changes, writes),
            _name(model, writes),
        )
    raise refusal(
        model,
        "has no layers whose states could be changed",
        "Choose a transformers model or an ELMo, such as mini:bert or mini:elmo.",
    )


def edited_net(base: HuggingFace, writes: tuple[Write, ...], name: str, kind: type[E]) -> E:
    """The model with some changes in every pass."""
    modules = [base.net] if base.added is None else [base.net, base.added.modules]
    shared: dict[int, Any] = {
        id(each): each for module in modules for each in (*module.parameters(), *module.buffers())
    }
    net, added = copy.deepcopy((base.net, base.added), shared)
    twin = kind(net, base.tokenizer, name, sites=base.sites)
    twin.kept, twin.whole, twin.added = base.kept, base.whole, added
    twin.max_pieces = base.max_pieces
    twin.take_heads(base)
    twin.base, twin.writes, twin._entered = base, writes, ExitStack()
    twin._entered.enter_context(opened(twin, [copy.copy(each) for each in writes], True))
    return twin


def _name(base: Model, writes: Sequence[Write]) -> str:
    sites = ", ".join(dict.fromkeys(each.site for each in writes))
    return f"{base.name} ({sites} changed)"


def _digest(before: str, writes: Sequence[Write]) -> str:
    return " ".join(filter(None, [before, *(each.digest for each in writes)]))
