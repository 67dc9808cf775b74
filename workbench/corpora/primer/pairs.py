"""Pairs of sentences: one meaning is spoken, changed, and spoken again; the label is the change.

Entailment (entailment, neutral, contradiction), relatedness (0-5) and paraphrase. 250 µs an item.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from workbench.corpora.primer import english as en
from workbench.corpora.primer import lexicon as lex
from workbench.corpora.primer.draw import GIVING, PERSON, TRANSITIVE, Draw, adjectives_for
from workbench.corpora.primer.stories import TRADES
from workbench.corpora.primer.structures import NP, Clause, Entity, Item
from workbench.corpora.primer.syntax import speak

# verbs that do not hold of one pair whenever they hold of it turned round
_ONE_WAY = tuple(f for f in TRANSITIVE if "person" in f.subject & f.object and f.lemma != "meet")
_EVENTS = tuple(
    f
    for f in TRANSITIVE
    if "person" in f.subject and f.kind != "feel" and not f.object & lex.classes("place event idea")
)


def _scene(draw: Draw) -> Clause:
    """Something that happened to something, with detail enough to leave out."""
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
    """The same with detail left out; whoever accepts the longer accepts the shorter."""
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
    """The object by the name of its kind: a dog is an animal."""
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
    """What cannot be true beside it: the same, denied, with no detail that could be denied."""
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
    """With "any", as English has it under a denial, so that no other object is meant."""
    assert c.object is not None
    return replace(c, object=NP(c.object.entity, "any"))


def _undecided(draw: Draw, c: Clause) -> Clause:
    """What the first sentence leaves open: more detail, another object, another doer."""
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


# nouns that some of their class are as well: an owl is a bird
_GENERAL = frozenset(
    "bird tree flower bush boat ship book story box party table cabinet soup lamp bowl".split()
)


def _other_thing(draw: Draw, entity: Entity) -> Entity:
    """Of the same class and number, and neither is the other: not a bird for an owl."""
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
        draw.afresh()
        label = draw.even(tuple(change))
        premise = _scene(draw)
        hypothesis = change[label](draw, premise)
        item = Item([speak(premise)], {"entailment": label}, [speak(hypothesis)])
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
    """How much two sentences speak of the same, from 0 (nothing) to 5 (all)."""
    while True:
        draw.afresh()
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
        yield (Item([speak(first)], {"relatedness": related(first, second)}, [speak(second)]),)


def _partly(draw: Draw, c: Clause) -> Clause:
    """Somebody else, elsewhere, at another time, doing the like."""
    assert c.subject is not None and c.frame is not None
    if draw.chance(0.5):
        other = replace(_scene(draw), subject=c.subject)
    else:
        other = replace(c, subject=_another(draw, c.subject))
    if draw.chance(0.5):
        other.place, other.time = draw.place(), None
    return other


def _said(c: Clause) -> dict[str, object]:
    """What a clause says, part by part; style is no part of it."""
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
    """Weight of the parts both say over the weight of those either says, out of 5."""
    one, two = _said(first), _said(second)
    either = sum(_WEIGHTS[part] for part in one | two)
    both = sum(_WEIGHTS[part] for part in one if part in two and one[part] == two[part])
    denied = _WEIGHTS["denied"]  # shared silence is no sign of kinship
    if one["denied"] == two["denied"]:
        both, either = both - denied, either - denied
    return round(5 * both / either, 1)


def paraphrase(draw: Draw) -> Iterator[tuple[Item, ...]]:
    """The same said otherwise, or something else in nearly the same words."""
    while True:
        draw.afresh()
        same = draw.chance(0.5)
        first = _scene(draw)
        second = _reworded(draw, first) if same else _twisted(draw, first)
        if second is not None:
            first, other = second
            label = "paraphrase" if same else "different"
            item = Item([speak(first)], {"paraphrase": label}, [speak(other)])
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
    """Roles turned round, a denial, another time or thing: close in words, not in meaning."""
    kind = draw.random()
    if kind < 0.45:
        frame = draw.zipf(_ONE_WAY)
        one, two = draw.named(), NP(draw.thing(PERSON, 0.0), "the")
        first = Clause(one, frame, two, place=c.place, time=c.time, time_first=c.time_first)
        turned = replace(first, subject=two, object=one)
        return first, replace(turned, passive=draw.chance(0.4))
    if kind < 0.65:
        return c, replace(
            c, negative=True, contracted=draw.chance(0.5), time_first=draw.chance(0.5)
        )
    return c, _reversed_detail(draw, c)


def _reversed_detail(draw: Draw, c: Clause) -> Clause:
    assert c.object is not None
    entity = _other_thing(draw, c.object.entity)
    other = replace(c, object=NP(entity, c.object.form, c.object.adjectives, c.object.count))
    return _other_voice(draw, other) if draw.chance(0.5) else other
