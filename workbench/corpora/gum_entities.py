"""Mentions as brackets across words, the way GUM and CorefUD write them in the MISC column.

    # global.Entity = GRP-etype-infstat-salience-centering-minspan-link-identity
    Entity=(1-person-new-...    opens a mention of chain 1 at this word
    Entity=1)                   closes the mention of chain 1 that was opened last
    Entity=(2-place-...)7)      opens and closes one on this word, then closes one of chain 7

Of the fields, named by the header, the chain (`GRP`, or CorefUD's `eid`) and the type (`etype`, or
`entity`) are read, and two of our own, `entities` and `coreference`, which tell the layers apart
where they differ: `yes` or `no`, or for an entity `same`, if it is named like its chain. A header
that names one of them says that there is no other layer; one that names neither, as GUM's, that
every mention is in both.

    # global.Entity = GRP-etype-entities-coreference
    Entity=(1-person-no-yes)    a mention, but no named entity

Mentions may nest and cross. The parts of a discontinuous mention,
`(12[1/2]-...` and `(12[2/2]-...`, become one span each, of the same chain and type.

What brackets cannot say is written as a percent code (`%28` is an opening bracket), as GUM does in
names; a raw `Spectrum_(band)` is understood as well. Costs a microsecond a bracket.
"""

import re
from collections.abc import Iterable, Sequence
from itertools import repeat
from typing import NamedTuple
from urllib.parse import unquote

from workbench.corpora.layers import Mention

GUM_FIELDS = ("GRP", "etype", "infstat", "salience", "centering", "minspan", "link", "identity")
WRITTEN_FIELDS = ("GRP", "etype")
LAYERS = ("entities", "coreference")

_CHAIN, _TYPE = ("GRP", "eid"), ("etype", "entity")
_BRACKET = re.compile(
    r"\((?P<opened>[^()]*(?:(?<=_)\([^()]*\)[^()]*)*)(?P<alone>\))?|(?P<closed>[^()]+)\)"
)
_PART = re.compile(r"\[\d+/\d+\]$")
_RESERVED = re.compile(r"[%()|\[\]\-\s\x00-\x1f]", re.ASCII)


class Found(NamedTuple):
    """A mention, the number of its opening bracket, and what is said of it in each layer."""

    number: int
    mention: Mention
    said: tuple[str, str]

    def within(self, layer: str) -> Mention | None:
        """The mention as it is in a layer; None if it is not."""
        said = self.said[LAYERS.index(layer)]
        nameless = said == "yes" and layer == "entities"
        return None if said == "no" else self.mention._replace(id="") if nameless else self.mention


def layers_of(fields: Iterable[str]) -> frozenset[str]:
    """The layers that brackets with these fields make."""
    return frozenset(LAYERS).intersection(fields) or frozenset(LAYERS)


class _Opening(NamedTuple):
    start: int
    label: str
    said: tuple[str, str]
    line: int
    number: int


class Brackets:
    """Reads the brackets of one document, word by word; a fault is a ValueError that says what."""

    def __init__(self, fields: Sequence[str]) -> None:
        self._fields = len(fields)
        self._chain = _place(_CHAIN, fields)
        self._type = _place(_TYPE, fields)
        self._open: dict[str, list[_Opening]] = {}  # by what must close them
        self._closed: list[Found] = []
        self._layers = [fields.index(layer) if layer in fields else None for layer in LAYERS]
        self._absent = "no" if self._layers != [None, None] else "same"
        self._number = 0

    def read(self, value: str, start: int, end: int, line: int) -> None:
        """Take in one word's brackets: what opens starts at `start`, what closes ends at `end`."""
        reached = 0
        for bracket in _BRACKET.finditer(value):
            if bracket.start() != reached:
                break
            reached = bracket.end()
            if bracket["closed"] is not None:
                name = self._name(bracket["closed"])
                if not self._open.get(name):
                    raise ValueError(f"the bracket {name}) closes a mention that was never opened.")
                self._close(name, end)
            else:
                name, label, said = self._opened(bracket["opened"])
                self._number += 1
                opening = _Opening(start, label, said, line, self._number)
                self._open.setdefault(name, []).append(opening)
                if bracket["alone"]:
                    self._close(name, end)
        if reached != len(value) or not value:
            raise ValueError(f"Entity={value[:80]} is not a series of brackets.")

    def take(self) -> list[Found]:
        """The mentions closed since the last call."""
        closed, self._closed = self._closed, []
        return closed

    def unclosed(self) -> tuple[str, int] | None:
        """The name and line of the first bracket that is still open."""
        still = [(o.line, name) for name, opened in self._open.items() for o in opened]
        return min(still)[::-1] if still else None

    def _close(self, name: str, end: int) -> None:
        start, label, said, _, number = self._open[name].pop()
        if start < end:  # a mention of empty nodes only has no words
            mention = Mention(start, end, label, unquote(_PART.sub("", name)))
            self._closed.append(Found(number, mention, said))

    def _name(self, text: str) -> str:
        """The chain in a closing bracket, which holds it alone or, in old files, every field."""
        fields = text.split("-", self._fields - 1)
        return fields[self._chain] if len(fields) > self._chain else fields[0]

    def _opened(self, text: str) -> tuple[str, str, tuple[str, str]]:
        """What an opening bracket says: chain, type, and what of each layer."""
        fields = text.split("-", self._fields - 1)
        if len(fields) <= max(self._chain, self._type):
            raise ValueError(f"the bracket ({text[:80]} lacks its chain or its type.")
        entities, coreference = (
            self._absent if place is None else fields[place] if place < len(fields) else "same"
            for place in self._layers
        )
        return fields[self._chain], unquote(fields[self._type]), (entities, coreference)


def _place(names: Sequence[str], fields: Sequence[str]) -> int:
    for name in names:
        if name in fields:
            return fields.index(name)
    raise ValueError(f"global.Entity names neither {' nor '.join(names)}.")


def brackets(mentions: Iterable[Mention], more: Sequence[str] = ()) -> dict[int, str]:
    """What to write after `Entity=`, by word, for mentions that all have a chain.

    `more` has the further fields of each mention, if they have any, with a dash before them.
    A word's closing brackets come before those that stay open, which else would run into them.
    Mentions of one chain that cross would be read back otherwise: that is a ValueError.
    """
    alone: dict[int, str] = {}
    opening: dict[int, str] = {}
    closing: dict[int, str] = {}
    ends: dict[str, list[int]] = {}
    pairs = zip(mentions, more or repeat(""), strict=False)
    for mention, rest in sorted(pairs, key=lambda pair: (pair[0].start, -pair[0].end)):
        start, end, label, chain = mention
        name, last = quoted(chain), end - 1
        opened = f"({name}-{quoted(label)}{rest}"
        if start == last:
            alone[start] = f"{alone.get(start, '')}{opened})"
            continue
        around = ends.setdefault(name, [])
        while around and around[-1] <= start:
            around.pop()
        if around and around[-1] < last:
            raise ValueError(f"two mentions of chain {chain!r} cross")
        around.append(last)
        opening[start] = f"{opening.get(start, '')}{opened}"
        closing[last] = f"{name}){closing.get(last, '')}"
    return {
        word: alone.get(word, "") + closing.get(word, "") + opening.get(word, "")
        for word in alone.keys() | closing.keys() | opening.keys()
    }


def quoted(text: str) -> str:
    """A chain or a label with what brackets and columns reserve as percent codes."""
    return _RESERVED.sub(lambda found: f"%{ord(found[0]):02X}", text)
