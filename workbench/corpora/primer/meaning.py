"""What a sentence says, before it is said: entities, noun phrases that refer to them, and clauses.

All choices are made here; `syntax.speak` turns the same meaning into the same words every time.
That is what makes twins exact: change one field, speak again, and only that differs.
"""

from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from workbench.corpora.primer.english import Word
from workbench.corpora.primer.lexicon import Frame, Noun

Number = Literal["Sing", "Plur"]
Tense = Literal["Past", "Pres"]


@dataclass(slots=True, eq=False)
class Entity:
    """Someone or something spoken of; `name` for proper names, else `noun`."""

    id: str
    cls: str
    number: Number = "Sing"
    gender: str = "Neut"
    noun: Noun | None = None
    name: tuple[Word, ...] = ()
    label: str = ""  # PERSON, GPE or ORG for a name
    trait: Word | None = None  # an adjective that goes with its first mention

    @property
    def pronouns(self) -> str:
        return "Plur" if self.number == "Plur" else self.gender


Form = Literal[
    "name", "the", "a", "some", "this", "every", "no", "any", "owned", "pronoun", "reflexive"
]


@dataclass(slots=True, eq=False)
class NP:
    """A way to refer to an entity."""

    entity: Entity
    form: Form
    adjectives: tuple[Word, ...] = ()
    count: Word | None = None
    owner: "NP | None" = None
    place: "tuple[str, NP] | None" = None  # "the key on the table"
    relative: "tuple[str, Clause] | None" = None  # the gap, "subject" or "object", and the clause
    apposition: "NP | None" = None
    relation: str = ""  # how a name in apposition or place relates to this one
    also: "NP | None" = None  # the second half of "the cat and the dog"
    pronouns: str = ""  # overrides the entity's own, for unacceptable twins

    @property
    def plural(self) -> bool:
        return self.also is not None or self.entity.number == "Plur"


class Time(NamedTuple):
    """A time adjunct: an optional preposition, words with their relation to the head, its place."""

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
    passive: bool = False  # the object is spoken as subject, the subject after "by" or not at all
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
    beside: "tuple[Word, Clause] | None" = None  # ", but she …"
    under: "tuple[Word, Clause] | None" = None  # "because she …"
    question: Question = ""
    relation: str = ""  # between subject and object or goal
    wrong: frozenset[str] = field(default_factory=frozenset)  # what an unacceptable twin gets wrong
