"""Pairs of sentences: a meaning is realised, changed and realised again; the change is the label.

The tasks are entailment (entailment, neutral, contradiction), relatedness (0-5) and paraphrase.
Costs: 250 µs per item.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from workbench.corpora.primer import english as en
from workbench.corpora.primer import lexicon as lex
from workbench.corpora.primer.draw import GIVING, PERSON, TRANSITIVE, Draw, adjectives_for
from workbench.corpora.primer.stories import TRADES
from workbench.corpora.primer.structures import NP, Clause, Entity, Item
from workbench.corpora.primer.syntax import realise

# asymmetric verbs: "a VERB b" does not imply "b VERB a"
_ASYMMETRIC = tuple(f for f in TRANSITIVE if "person" in f.subject & f.object and f.lemma != "meet")
_EVENTS = tuple(
    f
    for f in TRANSITIVE
    if "person" in f.subject and f.kind != "feel" and not f.object & lex.classes("place event idea")
)


def _scene(draw: Draw) -> Clause:
    """An event with details that can be left out."""
    draw.theme = ()
    subject = draw.named() if draw.chance(0.6) else NP(draw.thing(PERSON, 0.0), "a")
    if draw.chance(0.25):
        frame = draw.zipf(GIVING)
        obj = draw.phrase(frame.object)
        recipient = NP(draw.thing(PERSON, 0.2), "the")
        clause = Clause(subject, frame, obj, recipient, dative_shift=draw.chance(0.5))
    else:
        frame = draw.zipf(_EVENTS)
        clause = Clause(subject, frame, draw.phrase(frame.object))
    assert clause.object is not None
    clause.object.form = "some" if clause.object.plural and not clause.object.count else "a"
    if clause.object.entity.cls == "drink":
        clause.object.form = "some"
    if not clause.object.adjectives and draw.chance(0.5):
        clause.object.adjectives = (draw.zipf(adjectives_for(clause.object.entity.cls)),)
    if draw.chance(0.5):
        clause.place = draw.place()
    if draw.chance(0.5):
        clause.time, clause.time_first = draw.time("Past"), draw.chance(0.5)
    if draw.chance(0.3):
        clause.manner = en.adverb(draw.zipf(lex.MANNER))
    return clause


def _less(draw: Draw, c: Clause) -> Clause:
    """The clause without some details; the longer clause entails the shorter one."""
    assert c.object is not None
    shorter = replace(c, time_first=False)
    shorter.place = c.place if draw.chance(0.3) else None
    shorter.time = c.time if draw.chance(0.3) else None
    shorter.manner = c.manner if draw.chance(0.3) else None
    shorter.object = NP(c.object.entity, "some" if c.object.plural else c.object.form)
    if draw.chance(0.4):
        shorter.object.adjectives = c.object.adjectives
    return shorter


def _other_voice(draw: Draw, c: Clause) -> Clause:
    if c.recipient is not None:
        return replace(c, dative_shift=not c.dative_shift)
    return replace(c, passive=True)


def _more_general(c: Clause) -> Clause | None:
    """The clause with the object's hypernym: a dog is an animal."""
    assert c.object is not None
    entity = c.object.entity
    kind = lex.HYPERNYMS.get(entity.cls)
    if kind is None or c.frame is None:
        return None
    noun = lex.Noun(en.noun(kind), entity.cls)
    return replace(c, object=NP(replace_entity(entity, noun), c.object.form))


def replace_entity(entity: Entity, noun: lex.Noun) -> Entity:
    return Entity(entity.id, entity.cls, entity.number, entity.gender, noun)


def _entailed(draw: Draw, c: Clause) -> Clause:
    shorter = _less(draw, c)
    kind = draw.random()
    if kind < 0.3:
        return _other_voice(draw, shorter)
    if kind < 0.5 and (general := _more_general(shorter)) is not None:
        return general
    return shorter


def _denied(draw: Draw, c: Clause) -> Clause:
    """A contradiction: the negated clause, without details that the negation could apply to."""
    assert c.subject is not None
    bare = replace(c, place=None, time=None, manner=None, time_first=False)
    assert bare.object is not None
    if not c.subject.entity.name and draw.chance(0.4):
        return replace(_as_any(bare), subject=NP(c.subject.entity, "no"))
    bare = _as_any(bare)
    bare.negative, bare.contracted = True, draw.chance(0.5)
    if not c.subject.entity.name:
        bare.subject = NP(c.subject.entity, "the")
    return bare


def _as_any(c: Clause) -> Clause:
    """The clause with "any", as English uses under negation, so that no other object is meant."""
    assert c.object is not None
    return replace(c, object=NP(c.object.entity, "any"))


def _undecided(draw: Draw, c: Clause) -> Clause:
    """A neutral clause: with more detail, another object or another agent."""
    assert c.object is not None and c.subject is not None and c.frame is not None
    kind = draw.random()
    shorter = _less(draw, c)
    assert shorter.object is not None
    if kind < 0.35:
        if c.place is None:
            return replace(shorter, place=draw.place())
        if c.manner is None:
            return replace(shorter, manner=en.adverb(draw.zipf(lex.MANNER)))
    if kind < 0.55:
        fitting = adjectives_for(c.object.entity.cls)
        extra = [a for a in fitting if a not in c.object.adjectives]
        shorter.object.adjectives = (draw.zipf(extra),)
        return shorter
    if kind < 0.8:
        shorter.object = NP(_other_thing(draw, c.object.entity), shorter.object.form)
        return shorter
    return replace(shorter, subject=_another(draw, c.subject))


# nouns that are hypernyms of others in their class: an owl is a bird
_GENERAL = frozenset(
    "bird tree flower bush boat ship book story box party table cabinet soup lamp bowl".split()
)


def _other_thing(draw: Draw, entity: Entity) -> Entity:
    """Another entity of the same class and number that is no hypernym: not a bird for an owl."""
    nouns = lex.NOUNS[entity.cls]
    others = [n for n in nouns if n is not entity.noun and n.lemma not in _GENERAL]
    if entity.cls == "person":
        others = [n for n in TRADES if n is not entity.noun]
    return replace_entity(entity, draw.zipf(others))


def _another(draw: Draw, np: NP) -> NP:
    while True:
        other = draw.named()
        if other.entity.name[0] != (np.entity.name or (None,))[0]:
            return other


def entailment(draw: Draw) -> Iterator[tuple[Item, ...]]:
    """Premise and hypothesis: entailment, neutral or contradiction."""
    change: Mapping[str, Callable[[Draw, Clause], Clause]] = {
        "entailment": _entailed,
        "neutral": _undecided,
        "contradiction": _denied,
    }
    while True:
        draw.reset()
        label = draw.uniform(tuple(change))
        premise = _scene(draw)
        hypothesis = change[label](draw, premise)
        item = Item([realise(premise)], {"entailment": label}, [realise(hypothesis)])
        if item.first[0].text != item.second[0].text:
            yield (item,)


_WEIGHTS = {
    "verb": 3.0,
    "subject": 2.0,
    "object": 2.0,
    "place": 1.0,
    "time": 1.0,
    "manner": 0.5,
    "denied": 1.0,
}


def relatedness(draw: Draw) -> Iterator[tuple[Item, ...]]:
    """The relatedness of two sentences, from 0 (nothing in common) to 5 (everything)."""
    while True:
        draw.reset()
        first = _scene(draw)
        kind = draw.random()
        if kind < 0.12:
            second = _scene(draw)
        elif kind < 0.5:
            second = _undecided(draw, first)
        elif kind < 0.7:
            second = _entailed(draw, first)
        elif kind < 0.8:
            second = _denied(draw, first)
        else:
            second = _partly(draw, first)
        yield (Item([realise(first)], {"relatedness": related(first, second)}, [realise(second)]),)


def _partly(draw: Draw, c: Clause) -> Clause:
    """A clause that shares some parts: another agent or event, perhaps another place and time."""
    assert c.subject is not None and c.frame is not None
    if draw.chance(0.5):
        other = replace(_scene(draw), subject=c.subject)
    else:
        other = replace(c, subject=_another(draw, c.subject))
    if draw.chance(0.5):
        other.place, other.time = draw.place(), None
    return other


def _content(c: Clause) -> dict[str, object]:
    """The content of a clause, part by part, without its style."""
    parts: dict[str, object] = {
        "verb": c.frame and c.frame.lemma,
        "denied": c.negative or (c.subject and c.subject.form == "no"),
    }
    for name, np in (
        ("subject", c.subject),
        ("object", c.object),
        ("place", c.place and c.place[1]),
    ):
        if np:
            entity = np.entity
            parts[name] = entity.noun.lemma if entity.noun else entity.name
    if c.time:
        parts["time"] = tuple(word.form for word, _ in c.time.words)
    if c.manner:
        parts["manner"] = c.manner.form
    return parts


def related(first: Clause, second: Clause) -> float:
    """5 times the weight of the shared parts divided by the weight of all parts of the two."""
    one, two = _content(first), _content(second)
    either = sum(_WEIGHTS[part] for part in one | two)
    both = sum(_WEIGHTS[part] for part in one if part in two and one[part] == two[part])
    denied = _WEIGHTS["denied"]  # equal polarity does not make two sentences related
    if one["denied"] == two["denied"]:
        both, either = both - denied, either - denied
    return round(5 * both / either, 1)


def paraphrase(draw: Draw) -> Iterator[tuple[Item, ...]]:
    """Paraphrases, and different meanings in nearly the same words."""
    while True:
        draw.reset()
        same = draw.chance(0.5)
        first = _scene(draw)
        second = _reworded(draw, first) if same else _twisted(draw, first)
        if second is not None:
            first, other = second
            label = "paraphrase" if same else "different"
            item = Item([realise(first)], {"paraphrase": label}, [realise(other)])
            if item.first[0].text != item.second[0].text:
                yield (item,)


def _reworded(draw: Draw, c: Clause) -> tuple[Clause, Clause] | None:
    other = _with_synonyms(draw, c)
    if draw.chance(0.6):
        other = _other_voice(draw, other)
    if c.time is not None:
        other = replace(other, time_first=draw.chance(0.5))
    return c, other


def _with_synonyms(draw: Draw, c: Clause) -> Clause:
    assert c.frame is not None and c.object is not None
    other = replace(c)
    if (verb := lex.SYNONYMS.get(c.frame.lemma)) and draw.chance(0.8):
        other.frame = replace(c.frame, verb=en.verb(verb))
    words = tuple(en.adjective(lex.SYNONYMS.get(a.lemma, a.lemma)) for a in c.object.adjectives)
    other.object = NP(c.object.entity, c.object.form, words, c.object.count)
    return other


def _twisted(draw: Draw, c: Clause) -> tuple[Clause, Clause] | None:
    """Exchanged roles, a negation or another object: similar in words, not in meaning."""
    kind = draw.random()
    if kind < 0.45:
        frame = draw.zipf(_ASYMMETRIC)
        one, two = draw.named(), NP(draw.thing(PERSON, 0.0), "the")
        first = Clause(one, frame, two, place=c.place, time=c.time, time_first=c.time_first)
        exchanged = replace(first, subject=two, object=one)
        return first, replace(exchanged, passive=draw.chance(0.4))
    if kind < 0.65:
        return c, replace(
            c, negative=True, contracted=draw.chance(0.5), time_first=draw.chance(0.5)
        )
    return c, _other_object(draw, c)


def _other_object(draw: Draw, c: Clause) -> Clause:
    assert c.object is not None
    entity = _other_thing(draw, c.object.entity)
    other = replace(c, object=NP(entity, c.object.form, c.object.adjectives, c.object.count))
    return _other_voice(draw, other) if draw.chance(0.5) else other
