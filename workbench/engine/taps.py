"""Taps: objects that read or change attention during a forward pass.

A `Site` is one call of an attention function, counted in the order of the calls, because models
share weights (ALBERT) or do not know their own layer (DistilBERT). A tap gets the attention of each
site as a `View`. `Capture` stores chosen maps, `Gate` scales the output of each head, per row if
needed, and `Outputs` gets each head's output and may replace it. `map_statistics.Reduce` turns each
map into a few numbers per head and adds them up. `models.interventions.states` has the taps that
read and write states: they hook the modules of the model, see `hooked`.

The engine computes probabilities only for taps that need them; gates alone keep the fast kernel.
Costs: Capture the maps that it stores, Gate a product.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import torch
from torch import Tensor

from workbench.core.errors import WorkbenchError
from workbench.core.public import check_fields
from workbench.engine.batch import Pieces

StackName = Literal["encoder", "decoder"]
Kind = Literal["self", "causal", "cross", "query"]  # query: of maps of a second stream


@dataclass(frozen=True)
class Site:
    """One attention call of a forward pass.

    Example:
        >>> wb.load("mini:t5", device="cpu").sites[-1].name
        'decoder.1.cross'
    """

    index: int  # in the order of calls
    stack: StackName
    kind: Kind
    layer: int  # within its stack and kind
    heads: int
    groups: int  # key-value heads; fewer than `heads` with grouped queries
    window: int = 0  # the largest distance of a visible piece; 0: no limit
    n_global: int = 0  # first pieces that see all pieces and that all see, whatever the window

    @property
    def name(self) -> str:
        return f"{self.stack}.{self.layer}.{self.kind}"


@dataclass(frozen=True)
class View:
    """Attention at one site as a tap gets it: after the softmax, before dropout."""

    site: Site
    probabilities: Tensor  # [batch, heads, queries, keys]
    value: Tensor | None  # [batch, groups, keys, width of a head]
    queries: Pieces | None  # the attending text
    keys: Pieces | None  # the attended text
    vectors: "Vectors | None" = None  # the vectors behind the scores, if available
    is_second: bool = False  # of XLNet's second stream, which predicts


@dataclass(frozen=True)
class Vectors:
    """The vectors behind the scores: `scale * query . key + bias` goes into the softmax."""

    query: Tensor  # [batch, heads, queries, width of a head], after rotary embedding
    key: Tensor  # [batch, groups, keys, width of a head]
    scale: float
    bias: Tensor | None  # [1 or batch, heads, queries, keys], position bias


class PassEndedError(Exception):
    """Raised by a tap that has read all that it needs: the rest of the pass is not computed."""


class Tap(Protocol):
    """An object that reads or changes attention (default: probabilities at every site)."""

    @property
    def needs_probabilities(self) -> bool:
        """Whether the engine must compute probabilities for this tap."""
        return True

    @property
    def reads_second(self) -> bool:
        """Whether the tap also reads XLNet's second stream, at the site of the first."""
        return False

    def wants(self, site: Site) -> bool:
        """Whether the tap reads this site."""
        return True

    def close(self, whole: bool) -> None:
        """End of a pass; values of an incomplete pass (`whole` is false) must be dropped."""
        return


class MapReader(Tap, Protocol):
    """A tap that reads attention maps."""

    def see(self, view: View) -> None: ...


@dataclass(eq=False)
class Capture(Tap):
    """Store the attention maps of chosen sites.

    Args:
        sites: Returns True for a `Site` to capture, such as `lambda site: site.layer == 1`
            (default: all sites).
        heads: Indices of the heads to capture (default: all).

    `maps[site]` has one tensor per batch, [batch, heads, queries, keys].

    Example:
        >>> model = wb.load("mini:bert", device="cpu")
        >>> seen = wb.Capture(lambda site: site.layer == 0, heads=[2])
        >>> batch = wb.encode(wb.read("primer").docs("test", limit=1))
        >>> output = model.forward(model.encode(batch), taps=[seen])
        >>> seen.maps[model.sites[0]][0].shape
        torch.Size([1, 1, 8, 8])
    """

    sites: Callable[[Site], bool] = lambda site: True
    heads: Sequence[int] | None = None
    maps: dict[Site, list[Tensor]] = field(default_factory=dict)
    _pending: dict[Site, Tensor] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_fields(self)

    def wants(self, site: Site) -> bool:
        return self.sites(site)

    def see(self, view: View) -> None:
        maps = view.probabilities
        if self.heads is not None:
            if wrong := [head for head in self.heads if not 0 <= head < view.site.heads]:
                raise WorkbenchError(
                    f"site {view.site.index} ({view.site.name}) has no head {wrong[0]}.",
                    code="head-missing",
                    remedy=f"Its heads are 0 to {view.site.heads - 1}.",
                )
            maps = maps[:, list(self.heads)]
        self._pending[view.site] = maps.detach()

    def close(self, whole: bool) -> None:
        for site, maps in self._pending.items() if whole else ():
            self.maps.setdefault(site, []).append(maps)
        self._pending.clear()


@dataclass(eq=False)
class Gate(Tap):
    """Scale each head's output: equal to scaling its probabilities, but with the fast kernel.

    Args:
        values: A tensor [sites, heads], or [batch, sites, heads] with gates for each row. Columns
            beyond a site's number of heads are ignored, so stacks of different widths share one
            tensor.

    Raises:
        WorkbenchError: The shape does not fit the model or the batch (raised when the model runs).

    Example:
        >>> import torch
        >>> model = wb.load("mini:bert", device="cpu")
        >>> gates = torch.ones(len(model.sites), 4)
        >>> gates[0, 2] = 0.0  # remove head 2 of layer 0
        >>> text = model.encode(wb.encode(wb.read("primer").docs("test", limit=1)))
        >>> output = model.forward(text, taps=[wb.Gate(gates)])
    """

    values: Tensor

    needs_probabilities = False

    def __post_init__(self) -> None:
        check_fields(self)

    def of(self, site: Site, batch: int) -> Tensor:
        """The gates of one site.  # [batch or 1, heads]"""
        self._check(site, batch)
        chosen = self.values[..., site.index, : site.heads]
        return chosen if chosen.ndim == 2 else chosen.unsqueeze(0)

    def _check(self, site: Site, batch: int) -> None:
        shape = tuple(self.values.shape)
        rows = shape[0] if len(shape) == 3 else 1
        fits = len(shape) in (2, 3) and site.index < shape[-2] and site.heads <= shape[-1]
        if not fits or rows not in (1, batch):
            raise WorkbenchError(
                f"gates of shape {list(shape)} do not fit site {site.index} ({site.name}) with "
                f"{site.heads} heads in a batch of {batch}.",
                code="setting-invalid",
                remedy="Use the shape [sites, heads], or [batch, sites, heads] for gates per row.",
            )


class Outputs(Tap, Protocol):
    """A tap that gets the heads' outputs and returns their replacement."""

    def passed(self, site: Site, output: Tensor, text: Pieces | None) -> Tensor:
        """The new output, [batch, queries, heads, width of a head]; `text` is the queries'."""
        ...


@dataclass(eq=False)
class Session:
    """The taps of one forward pass, and the number of attention calls so far."""

    taps: Sequence[Tap]
    sites: Sequence[Site] | None  # None while the sites are being found
    texts: dict[StackName, Pieces] = field(default_factory=dict)
    calls: int = 0
    _texts_on: dict[tuple[StackName, torch.device], Pieces] = field(default_factory=dict)

    def next_site(self, heads: int, groups: int, window: int = 0, n_global: int = 0) -> Site:
        """The site of this attention call, by the order of calls."""
        index = self.calls
        self.calls += 1
        if self.sites is None:
            return Site(index, "encoder", "self", index, heads, groups, window, n_global)
        if index >= len(self.sites):
            raise WorkbenchError(
                f"this forward pass makes more than {len(self.sites)} attention calls.",
                code="internal",
                remedy="Run only one forward pass at a time in a session.",
            )
        return self.sites[index]

    def map_readers(self, site: Site) -> list[MapReader]:
        """The taps that read this site's probabilities."""
        return [t for t in self.taps if t.needs_probabilities and t.wants(site)]  # type: ignore[misc]

    def show(
        self,
        site: Site,
        probabilities: Tensor,
        value: Tensor | None,
        vectors: Vectors | None = None,
        is_second: bool = False,
    ) -> None:
        """Pass this site's attention to every tap that reads it."""
        readers = [
            tap
            for tap in self.map_readers(site)
            if getattr(tap, "reads_second", False) or not is_second
        ]
        if not readers:
            return
        keys: StackName = "encoder" if site.kind == "cross" else site.stack
        device = probabilities.device
        texts = self.text_on(site.stack, device), self.text_on(keys, device)
        view = View(site, probabilities, value, *texts, vectors, is_second)
        for tap in readers:
            tap.see(view)

    def text_on(self, stack: StackName, device: torch.device) -> Pieces | None:
        """A stack's input on the device of one of its sites; copied once per pass."""
        text = self.texts.get(stack)
        if text is None or text.ids.device == device:
            return text
        if (stack, device) not in self._texts_on:
            self._texts_on[stack, device] = text.to(device)
        return self._texts_on[stack, device]

    def gate(self, site: Site, batch: int) -> Tensor | None:
        """The product of all gates at a site.  # [batch or 1, heads]"""
        product: Tensor | None = None
        for tap in self.taps:
            if isinstance(tap, Gate):
                values = tap.of(site, batch)
                product = values if product is None else product * values
        return product

    def passed(self, site: Site, output: Tensor) -> Tensor:
        """The heads' outputs after replacement by the taps."""
        for tap in self.output_taps():
            output = tap.passed(site, output, self.text_on(site.stack, output.device))
        return output

    def output_taps(self) -> list[Outputs]:
        """The taps that get outputs."""
        return [tap for tap in self.taps if hasattr(tap, "passed")]  # type: ignore[misc]


_current: ContextVar[Session | None] = ContextVar("workbench_attention_session", default=None)


def current() -> Session | None:
    """The session of the running forward pass, if any."""
    return _current.get()


def reads_attention(tap: Tap) -> bool:
    """Whether a tap needs attention sites; taps of states hook the model's modules instead."""
    return not hasattr(tap, "together")


@contextmanager
def hooked(model: Any, taps: Iterable[Tap]) -> Iterator[None]:
    """The taps that hook modules are on the model inside the context, in the order of the taps.

    Such a tap has `together`: a function, one for all taps of its kind, from the model and these
    taps to a context.
    """
    kinds: dict[Callable[[Any, list[Tap]], AbstractContextManager[None]], list[Tap]] = {}
    for tap in taps:
        if not reads_attention(tap):
            kinds.setdefault(tap.together, []).append(tap)  # type: ignore[attr-defined]
    with ExitStack() as entered:
        for together, own in kinds.items():
            entered.enter_context(together(model, own))
        yield


@contextmanager
def session(
    taps: Iterable[Tap],
    sites: Sequence[Site] | None,
    texts: dict[StackName, Pieces] | None = None,
) -> Iterator[Session]:
    """Activate taps for the forward pass inside the context."""
    opened = Session(list(taps), sites, texts or {})
    token = _current.set(opened)
    whole = False
    try:
        yield opened
        whole = True
    finally:
        _current.reset(token)
        with ExitStack() as closed:  # closes all taps, even if one fails
            for tap in reversed(opened.taps):
                closed.callback(tap.close, whole)
