"""The data structures of the primer: meanings, generated sentences, and items of tasks.

Costs: nothing.
"""

from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from workbench.corpora.primer.english import Word
from workbench.corpora.primer.lexicon import Frame, Noun

# --- meaning --------------------------------------------------------------------------------------
#
# The meaning of a sentence before it has words: entities, noun phrases that refer to them, clauses.
#
# All random choices are made here; `syntax.realise` turns the same meaning into the same words
# every time. So minimal pairs are exact: change one field, realise again, and only that differs.

Number = Literal["Sing", "Plur"]
Tense = Literal["Past", "Pres"]


@dataclass(slots=True, eq=False)
class Entity:
    """A referent; it has a `name` (proper name) or a `noun`."""

    id: str
    cls: str
    number: Number = "Sing"
    gender: str = "Neut"
    noun: Noun | None = None
    name: tuple[Word, ...] = ()
    label: str = ""  # PERSON, GPE or ORG for a name
    trait: Word | None = None  # an adjective of its first mention

    @property
    def pronouns(self) -> str:
        return "Plur" if self.number == "Plur" else self.gender


Form = Literal[
    "name", "the", "a", "some", "this", "every", "no", "any", "owned", "pronoun", "reflexive"
]


@dataclass(slots=True, eq=False)
class NP:
    """A noun phrase that refers to an entity."""

    entity: Entity
    form: Form
    adjectives: tuple[Word, ...] = ()
    count: Word | None = None
    owner: "NP | None" = None
    place: "tuple[str, NP] | None" = None  # "the key on the table"
    relative: "tuple[str, Clause] | None" = None  # the gap, "subject" or "object", and the clause
    apposition: "NP | None" = None
    relation: str = ""  # relation of this name to the name in the apposition or place
    also: "NP | None" = None  # the second conjunct of "the cat and the dog"
    pronouns: str = ""  # overrides the entity's pronouns, for unacceptable sentences

    @property
    def plural(self) -> bool:
        return self.also is not None or self.entity.number == "Plur"


class Time(NamedTuple):
    """A time adjunct: optional preposition, words with their relations, index of the head."""

    preposition: str
    words: tuple[tuple[Word, str], ...]
    head: int
    label: str = "DATE"


Question = Literal["", "polar", "who", "what", "where", "when"]


@dataclass(slots=True, eq=False)
class Clause:
    """One predication with its arguments, adjuncts and style."""

    subject: NP | None = None
    frame: Frame | None = None
    object: NP | None = None
    recipient: NP | None = None
    dative_shift: bool = False  # "gave her the key" for "gave the key to her"
    goal: tuple[str, NP] | None = None
    passive: bool = False  # the object becomes the subject; the subject follows "by" or is absent
    agent: bool = True
    predicate: "Word | NP | tuple[str, NP] | None" = (
        None  # after "be": adjective, noun phrase, place
    )
    degree: Word | None = None
    exist: bool = False  # "there is …"
    that: "Clause | None" = None
    infinitive: "Clause | None" = None
    place: tuple[str, NP] | None = None
    time: Time | None = None
    time_first: bool = False
    manner: Word | None = None
    often: Word | None = None
    link: Word | None = None
    tense: Tense = "Past"
    perfect: bool = False
    progressive: bool = False
    modal: str = ""
    negative: bool = False
    contracted: bool = False
    conjoined: "Clause | None" = None  # a second predicate of the same subject
    coordinate: "tuple[Word, Clause] | None" = None  # ", but she …"
    subordinate: "tuple[Word, Clause] | None" = None  # "because she …"
    question: Question = ""
    relation: str = ""  # between subject and object or goal
    wrong: frozenset[str] = field(default_factory=frozenset)  # errors of an unacceptable sentence


# --- a generated sentence: words with their tree, and every other layer ---------------------------

Range = tuple[int, int]


class Role(NamedTuple):
    """An argument of a predicate; `kind` and `cls` decide its proto-roles."""

    predicate: int
    span: Range
    role: str
    kind: str
    cls: str


@dataclass(slots=True, eq=False)
class Sentence:
    """The words of a sentence with their tree and every other layer."""

    words: list[Word] = field(default_factory=list)
    glued: list[bool] = field(default_factory=list)  # no space before this word
    heads: list[int] = field(default_factory=list)
    deps: list[str] = field(default_factory=list)
    constituents: list[tuple[int, int, str]] = field(default_factory=list)
    mentions: list[tuple[int, int, str, str]] = field(default_factory=list)
    entities: list[tuple[int, int, str]] = field(default_factory=list)
    roles: list[Role] = field(default_factory=list)
    relations: list[tuple[Range, Range, str]] = field(default_factory=list)

    def add(self, word: Word, dep: str, head: int = -1, glued: bool = False) -> int:
        """Add a word and return its index; a head that comes later is set later."""
        self.words.append(word)
        self.deps.append(dep)
        self.heads.append(head)
        self.glued.append(glued)
        return len(self.words) - 1

    def close(self, start: int, label: str) -> Range:
        """Add a constituent that began at `start` and ends here; return its range."""
        self.constituents.append((start, len(self.words), label))
        return start, len(self.words)

    @property
    def text(self) -> str:
        parts: list[str] = []
        for word, glued in zip(self.words, self.glued, strict=True):
            if parts and not glued:
                parts.append(" ")
            parts.append(word.form)
        return "".join(parts)


# --- items ----------------------------------------------------------------------------------------

Label = str | float


@dataclass(slots=True)
class Item:
    """One example of a task: one or two texts, their labels, and an optional answer span."""

    first: list[Sentence]
    labels: dict[str, Label]
    second: list[Sentence] = field(default_factory=list)
    answer: Range | None = None  # range of words in the second text
    predicted: int | None = None  # in both texts, the word that depends on the exchanged one
