"""Builds a `Doc` with every layer from one or more generated sentences.

Costs: about 50 µs per Doc; spaCy's codes of each word are computed once and cached.
"""

from collections.abc import Iterable, Sequence

import numpy as np
from spacy.attrs import DEP, HEAD, LEMMA, MORPH, POS, SENT_START, TAG
from spacy.parts_of_speech import IDS
from spacy.tokens import Doc
from spacy.vocab import Vocab

from workbench.corpora.layers import Edge, Mention, set_spans
from workbench.corpora.primer.english import Word
from workbench.corpora.primer.lexicon import GROUPS
from workbench.corpora.primer.structures import Role, Sentence

_ATTRIBUTES = [TAG, POS, MORPH, LEMMA, DEP, HEAD, SENT_START]
_MASK = 2**64 - 1  # spaCy stores negative numbers as two's complement
_ANIMATE = frozenset(GROUPS["animate"].split())

_MOVING = frozenset(("motion", "traverse", "follow", "appear", "happen"))
# kind of event -> the proto-roles of its ARG1, besides those of existence
_ARG1_ROLES: dict[str, tuple[str, ...]] = {
    "consume": ("change_of_state",),
    "create": ("change_of_state",),
    "destroy": ("change_of_state",),
    "change": ("change_of_state",),
    "harm": ("change_of_state",),
    "happen": ("change_of_state",),
    "move": ("change_of_location",),
    "place": ("change_of_location",),
    "appear": ("change_of_location",),
    "transfer": ("change_of_location", "change_of_possession"),
    "acquire": ("change_of_possession",),
    "dispose": ("change_of_possession",),
    "lose": ("change_of_possession",),
    "use": ("was_used",),
}
_NOT_AFTER = frozenset(("consume", "destroy"))
_NOT_VOLITIONAL = frozenset(("perceive", "feel", "lose", "rest"))


def proto_roles(role: Role) -> tuple[str, ...]:
    """Semantic proto-roles (the names of SPR) of an argument, from its event and noun class."""
    animate = role.cls in _ANIMATE
    properties = {"existed_during"}
    if role.kind != "create" or role.role != "ARG1":
        properties.add("existed_before")
    if role.kind not in _NOT_AFTER or role.role != "ARG1":
        properties.add("existed_after")
    if animate:
        properties |= {"awareness", "sentient"}
    if role.role == "ARG0":
        if role.kind not in _NOT_VOLITIONAL and animate:
            properties |= {"instigation", "volition"}
        if role.kind in _MOVING:
            properties.add("change_of_location")
    if role.role == "ARG1":
        properties.update(_ARG1_ROLES.get(role.kind, ()))
    if role.role == "ARG2" and role.kind in ("transfer", "show", "tell"):
        properties.add("was_for_benefit")
    return tuple(sorted(properties))


class DocBuilder:
    """Builds Docs; caches spaCy's codes of every word."""

    def __init__(self, vocab: Vocab) -> None:
        self.vocab = vocab
        self._rows: dict[Word, tuple[int, int, int, int]] = {}
        self._deps: dict[str, int] = {}

    def _row(self, word: Word) -> tuple[int, int, int, int]:
        if (row := self._rows.get(word)) is None:
            add = self.vocab.strings.add
            row = (
                add(word.tag),
                IDS[word.pos],
                self.vocab.morphology.add(word.morph),
                add(word.lemma),
            )
            self._rows[word] = row
        return row

    def _dep(self, name: str) -> int:
        if (code := self._deps.get(name)) is None:
            code = self._deps[name] = self.vocab.strings.add(name)
        return code

    def doc(self, sentences: Sequence[Sentence], document: str, first: int = 0) -> Doc:
        """One Doc of one or more sentences; `first` is the index of the first in its document."""
        words: list[str] = []
        spaces: list[bool] = []
        rows: list[tuple[int, ...]] = []
        for sentence in sentences:
            words += [word.form for word in sentence.words]
            spaces += [not glued for glued in sentence.glued[1:]] + [True]
            for i, (word, head, dep) in enumerate(
                zip(sentence.words, sentence.heads, sentence.deps, strict=True)
            ):
                start = 1 if i == 0 else -1
                offsets = (head - i) & _MASK, start & _MASK
                rows.append((*self._row(word), self._dep(dep), *offsets))
        spaces[-1] = False
        doc = Doc(self.vocab, words=words, spaces=spaces)
        table = np.array(rows, dtype=np.uint64)  # [words, attributes]
        doc.from_array(_ATTRIBUTES, table)  # type: ignore[arg-type]
        doc._.document = document
        doc._.sent_ids = tuple(f"{document}-{first + i + 1}" for i in range(len(sentences)))
        _write_layers(doc, sentences)
        return doc


def _write_layers(doc: Doc, sentences: Iterable[Sentence]) -> None:
    entities: list[Mention] = []
    constituents: list[Mention] = []
    mentions: list[Mention] = []
    roles: list[Edge] = []
    properties: list[Edge] = []
    relations: list[Edge] = []
    at = 0
    for s in sentences:
        entities += [Mention(at + a, at + b, label) for a, b, label in s.entities]
        constituents += [Mention(at + a, at + b, label) for a, b, label in s.constituents]
        mentions += [Mention(at + a, at + b, label, name) for a, b, label, name in s.mentions]
        for role in s.roles:
            predicate = (at + role.predicate, at + role.predicate + 1)
            span = (at + role.span[0], at + role.span[1])
            roles.append(Edge(predicate, span, (role.role,)))
            if role.role in ("ARG0", "ARG1", "ARG2") and role.cls:
                properties.append(Edge(predicate, span, proto_roles(role)))
        relations += [
            Edge((at + a, at + b), (at + c, at + d), (label,))
            for (a, b), (c, d), label in s.relations
        ]
        at += len(s.words)
    set_spans(doc, "entities", entities)
    set_spans(doc, "constituents", constituents)
    set_spans(doc, "coreference", mentions)
    doc._.edges = {
        "roles": tuple(roles),
        "proto-roles": tuple(properties),
        "relations": tuple(relations),
    }
