"""Rewrites: a sentence, and the same meaning in the past, negated or in the passive.

The label `task` names the change, as T5's prefixes do. Costs: 150 µs per item.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from workbench.corpora.primer.draw import PERSON, Draw
from workbench.corpora.primer.structures import NP, Clause, Item
from workbench.corpora.primer.syntax import realise


def rewrites(draw: Draw) -> Iterator[tuple[Item, ...]]:
    """A sentence and its rewrite: in the past, negated, or in the passive, in turn."""
    while True:
        for task, change in _CHANGES.items():
            draw.reset()
            subject = draw.named() if draw.chance(0.5) else NP(draw.thing(PERSON), "the")
            clause = draw.transitive(subject, "Pres" if task == "past" else "Past")
            if draw.chance(0.4):
                clause.place = draw.place()
            yield (Item([realise(clause)], {"task": task}, [realise(change(clause))]),)


_CHANGES: Mapping[str, Callable[[Clause], Clause]] = {
    "past": lambda clause: replace(clause, tense="Past"),
    "negate": lambda clause: replace(clause, negative=True),
    "passive": lambda clause: replace(clause, passive=True),
}
