"""Which probes a task gets: modes of reading the layers, their baselines and controls.

`layer` reads one layer, `cumulative` a learnt mix of the layers up to one; `lexical`, `top` and
`mix` are their ends (layer 0, the last layer, the mix of all), so no probe is trained twice.
Layer 0 is always read, and so are what stands beside: the random twin's top and mix, bare
embeddings, static vectors. Costs nothing.
"""

from collections.abc import Sequence
from typing import Literal

from probes.sources import MODEL, RANDOM, Source
from probes.stack import Probe

Mode = Literal["lexical", "top", "layer", "mix", "cumulative"]
MODES: tuple[Mode, ...] = ("lexical", "top", "layer", "mix", "cumulative")


def planned(sources: Sequence[Source], modes: Sequence[Mode], controls: bool) -> tuple[Probe, ...]:
    """The probes of one bank of sources."""
    found: list[Probe] = []
    for encoder, stack in dict.fromkeys((source.encoder, source.stack) for source in sources):
        column = [
            place
            for place, source in enumerate(sources)
            if (source.encoder, source.stack) == (encoder, stack)
        ]
        if encoder == MODEL:
            found += _of_model(column, modes, controls)
        elif encoder == RANDOM:
            found += [Probe((column[-1],)), *([Probe(tuple(column))] if len(column) > 1 else [])]
        else:
            found += [Probe((place,)) for place in column]
    return tuple(dict.fromkeys(found))


def _of_model(column: Sequence[int], modes: Sequence[Mode], controls: bool) -> list[Probe]:
    """A stack's layers: each alone, or mixed up to each."""
    alone = column if "layer" in modes else {column[0], *(column[-1:] if "top" in modes else ())}
    upto = range(2, len(column) + 1) if "cumulative" in modes else ()
    mixes = {tuple(column[:last]) for last in upto}
    if "mix" in modes and len(column) > 1:
        mixes.add(tuple(column))
    found = [Probe((place,)) for place in sorted(alone)]
    found += [Probe(mix) for mix in sorted(mixes, key=len)]
    if controls:
        found += [Probe(probe.sources, control=True) for probe in found if len(probe.sources) == 1]
        if "layer" not in modes and mixes:
            found.append(Probe(max(mixes, key=len), control=True))
    return found


def modes_of(
    probe: Probe, sources: Sequence[Source], asked: Sequence[Mode]
) -> list[tuple[Mode, int]]:
    """Under which modes, and of which layer, a probe's score is told."""
    first, last = sources[probe.sources[0]], sources[probe.sources[-1]]
    own = [s for s in sources if (s.encoder, s.stack) == (last.encoder, last.stack)]
    bottom, top = own[0].layer, own[-1].layer
    if last.encoder != MODEL:
        if len(probe.sources) > 1:
            return [("mix", top)]
        return [("top" if last.encoder == RANDOM else "lexical", last.layer)]
    found: list[tuple[Mode, int]] = []
    if len(probe.sources) > 1:
        found += [("cumulative", last.layer)] if "cumulative" in asked else []
        found += [("mix", last.layer)] if "mix" in asked and last.layer == top else []
        return found or [("mix", last.layer)]
    if "layer" in asked:
        found.append(("layer", last.layer))
    if last.layer == top and "top" in asked:
        found.append(("top", last.layer))
    if first.layer == bottom:
        found.append(("lexical", bottom))
        found += [("cumulative", bottom)] if "cumulative" in asked else []
        found += [("mix", bottom)] if "mix" in asked and top == bottom else []
    return found
