"""A forward pass that starts in the middle: blocks below a site replay their recorded outputs.

    with recorded(replay_points(model)) as prefix:
        model.forward(text)
    with prefix.from_site(site.index, rows):
        model.forward(text.take(rows), taps=[Gate(values)])

A gate at a site changes nothing below it, so on average half of a model need not run again; for a
decoder site of an encoder-decoder, none of the encoder. The block of the site itself reuses its
queries, keys and values. `rows` repeats documents of the recorded batch, so that one pass can test
many gates. The result equals a full pass over the same rows: bit for bit on a CPU; on a GPU up to
rounding of its products, which depends on the number of rows (about 1e-6 of a loss in float32).
Costs: memory for the states of every block and the queries, keys and values of every site, once per
batch.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from workbench.engine.batch import sent
from workbench.engine.taps import current
from workbench.models.head_removal import LONGFORMER, parts
from workbench.models.huggingface import HuggingFace
from workbench.models.net_parts import blocks


@dataclass(frozen=True)
class ReplayPoints:
    """The modules whose outputs are recorded and replayed; found once per model."""

    stacks: Sequence[Sequence[nn.Module]]
    maps: Mapping[int, Sequence[nn.Module]]  # by site: its query, key and value projections
    axis: int  # the batch dimension of the blocks' outputs


def replay_points(model: HuggingFace) -> ReplayPoints:
    """The modules to record and replay; costs a forward pass over four pieces."""
    axis = 1 if model.sequence_first else 0
    return ReplayPoints(tuple(blocks_of(model)), _maps_of(model), axis)


@dataclass(eq=False)
class Prefix:
    """The recorded outputs of one batch, in the order of the calls."""

    points: ReplayPoints
    outputs: list[Any] = field(default_factory=list)
    # number of attention calls up to the end of each block
    after: list[int] = field(default_factory=list)
    last: set[int] = field(default_factory=set)  # indices of block calls that end a stack
    made: dict[tuple[int, int], Any] = field(default_factory=dict)  # by site and index in `maps`

    @contextmanager
    def from_site(self, site: int, rows: Tensor, states: bool = False) -> Iterator[None]:
        """Forward passes inside the context start at the block of this site.

        `rows`, [rows], are rows of the recorded batch; the tensor is on the host. `states`: the
        states of all layers are read, those below too.
        """
        chosen = _Chosen(rows, self.points.axis)
        with (
            self.from_block(self.saved(site), rows, states),
            self._replay_projections(site, chosen),
        ):
            yield

    @contextmanager
    def from_block(self, first: int, rows: Tensor, states: bool = False) -> Iterator[None]:
        """Forward passes inside the context start at this block, counted from 0 over all stacks.

        `rows` and `states` as in `from_site`.
        """
        chosen = _Chosen(rows, self.points.axis)
        calls = 0

        def replayed(block: nn.Module, run: Callable[..., Any]) -> Callable[..., Any]:
            def forward(*args: Any, **kwargs: Any) -> Any:
                nonlocal calls
                index, calls = calls, calls + 1
                if index >= first:
                    return run(*args, **kwargs)
                running = current()
                if running is not None:
                    running.calls = self.after[index]
                if states or index == first - 1 or index in self.last:
                    return chosen(self.outputs[index])
                return self.outputs[index]

            return forward

        with replaced_forward(self.points.stacks, replayed):
            yield

    @contextmanager
    def _replay_projections(self, site: int, chosen: "_Chosen") -> Iterator[None]:
        """The site's projections return their recorded outputs on their first call."""
        called: set[nn.Module] = set()
        owners = self.points.maps[site]

        def replayed(owner: nn.Module, run: Callable[..., Any]) -> Callable[..., Any]:
            index = owners.index(owner)

            def forward(*args: Any, **kwargs: Any) -> Any:
                if owner in called:  # a later block that shares these weights
                    return run(*args, **kwargs)
                called.add(owner)
                return chosen(self.made[site, index])

            return forward

        recorded_owners = [owner for n, owner in enumerate(owners) if (site, n) in self.made]
        with replaced_forward([recorded_owners], replayed):
            yield

    def saved(self, site: int) -> int:
        """How many blocks need not run for a site."""
        return next((n for n, end in enumerate(self.after) if site < end), 0)


@contextmanager
def recorded(points: ReplayPoints) -> Iterator[Prefix]:
    """Record the outputs of all blocks in one forward pass inside the context."""
    prefix = Prefix(points)
    last_blocks = {stack[-1] for stack in points.stacks}

    def record_block(block: nn.Module, run: Callable[..., Any]) -> Callable[..., Any]:
        def forward(*args: Any, **kwargs: Any) -> Any:
            running = current()
            output = run(*args, **kwargs)
            prefix.after.append(running.calls if running else 0)
            prefix.outputs.append(output)
            if block in last_blocks:
                prefix.last.add(len(prefix.outputs) - 1)
            return output

        return forward

    calls: dict[nn.Module, int] = {}

    def record_projection(owner: nn.Module, run: Callable[..., Any]) -> Callable[..., Any]:
        """Record a projection; its site follows from how often it was called before."""
        sites = [site for site, owners in points.maps.items() if owner in owners]

        def forward(*args: Any, **kwargs: Any) -> Any:
            output = run(*args, **kwargs)
            n_before = calls.get(owner, 0)
            calls[owner] = n_before + 1
            if n_before < len(sites):
                site = sites[n_before]
                prefix.made[site, points.maps[site].index(owner)] = output
            return output

        return forward

    all_owners = dict.fromkeys(owner for owners in points.maps.values() for owner in owners)
    with (
        replaced_forward(points.stacks, record_block),
        replaced_forward([list(all_owners)], record_projection),
    ):
        yield prefix


def _maps_of(model: HuggingFace) -> Mapping[int, Sequence[nn.Module]]:
    """The query, key and value projections of each site, if they are separate modules.

    None for Longformer, which scales their outputs in place.
    """
    maps = {}
    for site, part in zip(model.sites, parts(model), strict=True):
        names = () if type(part.module).__name__ == LONGFORMER else part.layout.names
        owners = (getattr(part.module, name, None) for name in names)
        maps[site.index] = [each for each in owners if isinstance(each, nn.Linear | Conv1D)]
    return maps


def blocks_of(model: HuggingFace) -> Iterator[Sequence[nn.Module]]:
    """The distinct blocks of each stack; a shared block appears once."""
    for stack in model.stacks:
        body = model.body(stack.name)
        stack_blocks = blocks(body, stack.layers)
        if stack_blocks is None:
            shared = [each for each in body.modules() if type(each).__name__ == "AlbertLayerGroup"]
            if not shared:
                return
            yield shared
        else:
            yield list(stack_blocks)


@contextmanager
def replaced_forward(
    stacks: Sequence[Sequence[nn.Module]],
    wrap: Callable[[nn.Module, Callable[..., Any]], Callable[..., Any]],
) -> Iterator[None]:
    """Replace the forward of all blocks; restored at the end."""
    with ExitStack() as restore:
        for block in (each for stack in stacks for each in stack):
            original = block.__dict__.get("forward")
            block.forward = wrap(block, block.forward)
            if original is None:
                restore.callback(block.__dict__.pop, "forward", None)
            else:
                restore.callback(setattr, block, "forward", original)
        yield


class _Chosen:
    """Selects the same documents from recorded outputs of any shape."""

    def __init__(self, rows: Tensor, axis: int) -> None:
        self.rows, self.axis = rows, axis
        self.min_size = int(rows.max()) + 1  # documents

    def __call__(self, output: Any) -> Any:
        if isinstance(output, Tensor):
            if output.ndim <= self.axis or output.shape[self.axis] < self.min_size:
                return output
            self.rows = sent(self.rows, output.device)
            return output.index_select(self.axis, self.rows)
        if isinstance(output, tuple | list):
            return type(output)(map(self, output))
        return output
