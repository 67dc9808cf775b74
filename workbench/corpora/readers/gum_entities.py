"""Mentions as brackets across words, as GUM and CorefUD write them in the MISC column.

    # global.Entity = GRP-etype-infstat-salience-centering-minspan-link-identity
    Entity=(1-person-new-...    opens a mention of chain 1 at this word
    Entity=1)                   closes the mention of chain 1 that was opened last
    Entity=(2-place-...)7)      opens and closes one on this word, then closes one of chain 7

The header names the fields. Read are the chain (`GRP`, or CorefUD's `eid`), the type (`etype`, or
`entity`), and two fields of Workbench, `entities` and `coreference`. These two distinguish the
layers where they differ: `yes` or `no`, or for an entity `same` if its id is that of its chain. A
header with one of the two means that there is no other layer; a header with neither, such as GUM's,
means that every mention is in both layers.

    # global.Entity = GRP-etype-entities-coreference
    Entity=(1-person-no-yes)    a mention, but not a named entity

Mentions may nest and cross. The parts of a discontinuous mention,
`(12[1/2]-...` and `(12[2/2]-...`, become one span each, of the same chain and type.

Reserved characters are written as percent codes (`%28` is an opening bracket), as in GUM's names; a
raw `Spectrum_(band)` is read too. Costs: a microsecond per bracket.
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


class LayeredMention(NamedTuple):
    """A mention, the position of its opening bracket, and its value ("yes", …) in each layer."""

    order: int
    mention: Mention
    in_layers: tuple[str, str]  # in the order of LAYERS

    def in_layer(self, layer: str) -> Mention | None:
        """The mention as it is in a layer; None if it is not in it."""
        value = self.in_layers[LAYERS.index(layer)]
        without_id = value == "yes" and layer == "entities"
        if value == "no":
            return None
        return self.mention._replace(id="") if without_id else self.mention


def layers_of(fields: Iterable[str]) -> frozenset[str]:
    """The layers of mentions whose brackets have these fields."""
    return frozenset(LAYERS).intersection(fields) or frozenset(LAYERS)


class _Opening(NamedTuple):
    start: int
    label: str
    in_layers: tuple[str, str]
    line: int
    order: int


class Brackets:
    """Reads the brackets of one document, word by word; a fault is a ValueError."""

    def __init__(self, fields: Sequence[str]) -> None:
        self._fields = len(fields)
        self._chain = _position(_CHAIN, fields)
        self._type = _position(_TYPE, fields)
        self._open: dict[str, list[_Opening]] = {}  # by the name in the closing bracket
        self._closed: list[LayeredMention] = []
        self._layers = [fields.index(layer) if layer in fields else None for layer in LAYERS]
        self._default = "no" if self._layers != [None, None] else "same"
        self._count = 0

    def read(self, value: str, start: int, end: int, line: int) -> None:
        """Read one word's brackets: mentions open at `start` and close at `end`."""
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
                name, label, in_layers = self._opened(bracket["opened"])
                self._count += 1
                opening = _Opening(start, label, in_layers, line, self._count)
                self._open.setdefault(name, []).append(opening)
                if bracket["alone"]:
                    self._close(name, end)
        if reached != len(value) or not value:
            raise ValueError(f"Entity={value[:80]} is not a series of brackets.")

    def take(self) -> list[LayeredMention]:
        """The mentions closed since the last call."""
        closed, self._closed = self._closed, []
        return closed

    def unclosed(self) -> tuple[str, int] | None:
        """The name and line of the first bracket that is still open."""
        still_open = [(o.line, name) for name, opened in self._open.items() for o in opened]
        return min(still_open)[::-1] if still_open else None

    def _close(self, name: str, end: int) -> None:
        start, label, in_layers, _, order = self._open[name].pop()
        if start < end:  # a mention that consists of empty nodes has no words
            mention = Mention(start, end, label, unquote(_PART.sub("", name)))
            self._closed.append(LayeredMention(order, mention, in_layers))

    def _name(self, text: str) -> str:
        """The chain of a closing bracket, which has only the chain or, in old files, all fields."""
        fields = text.split("-", self._fields - 1)
        return fields[self._chain] if len(fields) > self._chain else fields[0]

    def _opened(self, text: str) -> tuple[str, str, tuple[str, str]]:
        """The chain, the type and the value in each layer, from an opening bracket."""
        fields = text.split("-", self._fields - 1)
        if len(fields) <= max(self._chain, self._type):
            raise ValueError(f"the bracket ({text[:80]} lacks its chain or its type.")
        entities, coreference = (
            self._default if field is None else fields[field] if field < len(fields) else "same"
            for field in self._layers
        )
        return fields[self._chain], unquote(fields[self._type]), (entities, coreference)


def _position(names: Sequence[str], fields: Sequence[str]) -> int:
    for name in names:
        if name in fields:
            return fields.index(name)
    raise ValueError(f"global.Entity names neither {' nor '.join(names)}.")


def brackets(mentions: Iterable[Mention], more: Sequence[str] = ()) -> dict[int, str]:
    """The text after `Entity=`, by word, for mentions that all have a chain.

    `more` has the further fields of each mention, if any, with a dash before them. A word's closing
    brackets come before its opening ones, so that the two cannot be confused. Crossing mentions of
    one chain could not be read back, and are a ValueError.
    """
    alone: dict[int, str] = {}
    opening: dict[int, str] = {}
    closing: dict[int, str] = {}
    ends: dict[str, list[int]] = {}
    pairs = zip(mentions, more or repeat(""), strict=False)
    for mention, fields in sorted(pairs, key=lambda pair: (pair[0].start, -pair[0].end)):
        start, end, label, chain = mention
        name, last = quoted(chain), end - 1
        opened = f"({name}-{quoted(label)}{fields}"
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
    """A chain or a label with reserved characters as percent codes."""
    return _RESERVED.sub(lambda match: f"%{ord(match[0]):02X}", text)
