"""A forward pass that begins in the middle: blocks below a site hand on what they did before.

    with recorded(places_of(model)) as prefix:
        model.forward(text)
    with prefix.from_site(site.index, rows):
        model.forward(text.take(rows), taps=[Gate(values)])

What a gate changes at a site changes nothing below it, so half of a model on average need not be
run again; of an encoder-decoder all of the encoder, for a site of the decoder. In the block of the
site itself queries, keys and values are those of before. `rows` repeats the documents of the
recorded batch, so that many gates can be tried in one pass. The answer is that of the whole pass
over the same rows: on a CPU to the bit, on a GPU as far as its products, which depend on how many
rows there are, let it be (some 1e-6 of a loss in float32). Costs the states of every block and the
queries, keys and values of every site, once a batch.
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
class Places:
    """Where a model can be taken up again; found once, for any number of batches."""

    stacks: Sequence[Sequence[nn.Module]]
    maps: Mapping[int, Sequence[nn.Module]]  # of each site, those that make what is compared
    axis: int  # of documents, in what blocks hand on


def places_of(model: HuggingFace) -> Places:
    """Costs a forward pass over four pieces."""
    axis = 1 if model.sequence_first else 0
    return Places(tuple(_blocks_of(model)), _maps_of(model), axis)


@dataclass(eq=False)
class Prefix:
    """What each block made of a batch, in the order of the calls."""

    places: Places
    outputs: list[Any] = field(default_factory=list)
    after: list[int] = field(default_factory=list)  # attention calls up to the end of each block
    last: set[int] = field(default_factory=set)  # block calls that end a stack
    made: dict[tuple[int, int], Any] = field(default_factory=dict)  # by site and place in `maps`

    @contextmanager
    def from_site(self, site: int, rows: Tensor) -> Iterator[None]:
        """Passes within run from the block of this site on.

        `rows` [rows], of the batch, are on the host.
        """
        first, chosen = self.saved(site), _Chosen(rows, self.places.axis)
        calls = 0

        def replayed(block: nn.Module, run: Callable[..., Any]) -> Callable[..., Any]:
            def forward(*args: Any, **kwargs: Any) -> Any:
                nonlocal calls
                number, calls = calls, calls + 1
                if number >= first:
                    return run(*args, **kwargs)
                running = current()
                if running is not None:
                    running.calls = self.after[number]
                if number == first - 1 or number in self.last:
                    return chosen(self.outputs[number])
                return self.outputs[number]

            return forward

        with _replaced(self.places.stacks, replayed), self._made_before(site, chosen):
            yield

    @contextmanager
    def _made_before(self, site: int, chosen: "_Chosen") -> Iterator[None]:
        """The site's maps hand on what they made, the first time that they are asked."""
        asked: set[nn.Module] = set()
        owners = self.places.maps[site]

        def replayed(owner: nn.Module, run: Callable[..., Any]) -> Callable[..., Any]:
            place = owners.index(owner)

            def forward(*args: Any, **kwargs: Any) -> Any:
                if owner in asked:  # of a block that shares its weights
                    return run(*args, **kwargs)
                asked.add(owner)
                return chosen(self.made[site, place])

            return forward

        there = [owner for n, owner in enumerate(owners) if (site, n) in self.made]
        with _replaced([there], replayed):
            yield

    def saved(self, site: int) -> int:
        """How many of the blocks need not be run for a site."""
        return next((n for n, end in enumerate(self.after) if site < end), 0)


@contextmanager
def recorded(places: Places) -> Iterator[Prefix]:
    """Keep what every block makes of the one pass within."""
    prefix = Prefix(places)
    ends = {stack[-1] for stack in places.stacks}

    def kept(block: nn.Module, run: Callable[..., Any]) -> Callable[..., Any]:
        def forward(*args: Any, **kwargs: Any) -> Any:
            running = current()
            output = run(*args, **kwargs)
            prefix.after.append(running.calls if running else 0)
            prefix.outputs.append(output)
            if block in ends:
                prefix.last.add(len(prefix.outputs) - 1)
            return output

        return forward

    calls: dict[nn.Module, int] = {}

    def noted(owner: nn.Module, run: Callable[..., Any]) -> Callable[..., Any]:
        """Which site a map works for is told by how often it was asked before."""
        sites = [site for site, owners in places.maps.items() if owner in owners]

        def forward(*args: Any, **kwargs: Any) -> Any:
            output = run(*args, **kwargs)
            number = calls.get(owner, 0)
            calls[owner] = number + 1
            if number < len(sites):
                site = sites[number]
                prefix.made[site, places.maps[site].index(owner)] = output
            return output

        return forward

    every = dict.fromkeys(owner for owners in places.maps.values() for owner in owners)
    with _replaced(places.stacks, kept), _replaced([list(every)], noted):
        yield prefix


def _maps_of(model: HuggingFace) -> Mapping[int, Sequence[nn.Module]]:
    """The maps that make queries, keys and values, where they are modules of their own.

    None of Longformer's, which scales what they made in its place.
    """
    found = {}
    for site, part in zip(model.sites, parts(model), strict=True):
        named = () if type(part.module).__name__ == LONGFORMER else part.layout.names
        owners = (getattr(part.module, name, None) for name in named)
        found[site.index] = [each for each in owners if isinstance(each, nn.Linear | Conv1D)]
    return found


def _blocks_of(model: HuggingFace) -> Iterator[Sequence[nn.Module]]:
    """The blocks of each stack that can be told apart; of shared ones, each once."""
    for stack in model.stacks:
        body = model.body(stack.name)
        found = blocks(body, stack.layers)
        if found is None:
            shared = [each for each in body.modules() if type(each).__name__ == "AlbertLayerGroup"]
            if not shared:
                return
            yield shared
        else:
            yield list(found)


@contextmanager
def _replaced(
    stacks: Sequence[Sequence[nn.Module]],
    by: Callable[[nn.Module, Callable[..., Any]], Callable[..., Any]],
) -> Iterator[None]:
    """Other forwards for all blocks, put back in the end."""
    with ExitStack() as back:
        for block in (each for stack in stacks for each in stack):
            own = block.__dict__.get("forward")
            block.forward = by(block, block.forward)
            if own is None:
                back.callback(block.__dict__.pop, "forward", None)
            else:
                back.callback(setattr, block, "forward", own)
        yield


class _Chosen:
    """Takes the same documents out of all that was recorded."""

    def __init__(self, rows: Tensor, axis: int) -> None:
        self.rows, self.axis = rows, axis
        self.least = int(rows.max()) + 1  # documents

    def __call__(self, output: Any) -> Any:
        if isinstance(output, Tensor):
            if output.ndim <= self.axis or output.shape[self.axis] < self.least:
                return output
            self.rows = sent(self.rows, output.device)
            return output.index_select(self.axis, self.rows)
        if isinstance(output, tuple | list):
            return type(output)(map(self, output))
        return output
