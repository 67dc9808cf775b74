"""Tasks about sentences and pairs, right by construction: one meaning is spoken, changed, "
"spoken again.

Sentiment, entailment, relatedness (0-5), paraphrase, acceptability (twins that differ in one fault)
and span questions about a story. A label is never read off the words: it follows from what was
changed. About 300 µs an item.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from workbench.corpora.primer import english as en
from workbench.corpora.primer import lexicon as lex
from workbench.corpora.primer.draw import GIVING, REFLEXIVE, TRANSITIVE, Draw, adjectives_for
from workbench.corpora.primer.lexicon import Frame
from workbench.corpora.primer.meaning import NP, Clause, Entity, Question, Tense
from workbench.corpora.primer.stories import TRADES, Teller
from workbench.corpora.primer.syntax import Range, Sentence, speak

Label = str | float


@dataclass(slots=True)
class Item:
    """One text, or two, with what is to be said of them."""

    first: list[Sentence]
    labels: dict[str, Label]
    second: list[Sentence] = field(default_factory=list)
    answer: Range | None = None  # words of the second text


PERSON = frozenset(("person",))
# verbs that do not hold of one pair whenever they hold of it turned round
_ONE_WAY = tuple(f for f in TRANSITIVE if "person" in f.subject & f.object and f.lemma != "meet")
_EVENTS = tuple(
    f
    for f in TRANSITIVE
    if "person" in f.subject and f.kind != "feel" and not f.object & lex.classes("place event idea")
)


# --- sentiment ------------------------------------------------------------------------------------

_JUDGED = lex.classes("event text food drink idea building garment")
_LIKING = {
    True: ("love", "enjoy", "like", "admire", "praise"),
    False: ("hate", "reject", "ignore", "blame"),
}
_FRAME = {frame.lemma: frame for frame in lex.FRAMES if frame.object and not frame.goal}
_THINK = Frame(en.verb("think"), PERSON, frozenset(), "say")


def sentiment(draw: Draw) -> Iterator[Item]:
    """Judgements, plain, negated, reported, or told by what somebody does."""
    while True:
        good = draw.chance(0.5)
        yield Item(
            [speak(_judgement(draw, good))], {"sentiment": "positive" if good else "negative"}
        )


def _judgement(draw: Draw, good: bool) -> Clause:
    tense: Tense = "Past" if draw.chance(0.6) else "Pres"
    kind = draw.random()
    if kind < 0.3:
        frame = _FRAME[draw.zipf(_LIKING[good])]
        if allowed := frame.object & _JUDGED:
            np = draw.phrase(allowed)
            np.adjectives = (_quality(draw, good),) if draw.chance(0.6) else ()
            return Clause(_name(draw), frame, np, tense=tense)
    np = NP(draw.thing(_JUDGED, 0.2), "this" if draw.chance(0.3) else "the")
    negative = draw.chance(0.25)
    clause = Clause(np, predicate=_quality(draw, good != negative), tense=tense)
    clause.negative, clause.contracted = negative, draw.chance(0.5)
    if not negative and draw.chance(0.5):
        clause.degree = en.adverb(draw.zipf(lex.DEGREE))
    if draw.chance(0.3):
        return Clause(_name(draw), _THINK, that=clause, tense=tense)
    if draw.chance(0.3):
        other = NP(draw.thing(_JUDGED, 0.2), "the")
        clause.beside = (en.AND, Clause(other, predicate=_quality(draw, good), tense=tense))
    elif draw.chance(0.3):
        draw.intervening(np)
    return clause


def _quality(draw: Draw, good: bool) -> en.Word:
    return en.adjective(draw.zipf(lex.GOOD if good else lex.BAD))


def _name(draw: Draw) -> NP:
    return NP(draw.person(), "name")


# --- pairs of sentences ---------------------------------------------------------------------------


def _scene(draw: Draw) -> Clause:
    """Something that happened to something, with detail enough to leave out."""
    draw.theme = ()
    subject = _name(draw) if draw.chance(0.6) else NP(draw.thing(PERSON, 0.0), "a")
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
    """What cannot be true beside it: the same, denied, with no detail that could be what is "
    "denied."""
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
    """With "any", as English has it in the scope of a denial, so that no other object is "
    "meant."""
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
        other = _name(draw)
        if other.entity.name[0] != (np.entity.name or (None,))[0]:
            return other


def entailment(draw: Draw) -> Iterator[Item]:
    """Premise and hypothesis: entailment, neutral or contradiction."""
    change: Mapping[str, Callable[[Draw, Clause], Clause]] = {
        "entailment": _entailed,
        "neutral": _undecided,
        "contradiction": _denied,
    }
    while True:
        label = draw.even(tuple(change))
        premise = _scene(draw)
        hypothesis = change[label](draw, premise)
        item = Item([speak(premise)], {"entailment": label}, [speak(hypothesis)])
        if item.first[0].text != item.second[0].text:
            yield item


_WEIGHTS = {
    "verb": 3.0,
    "subject": 2.0,
    "object": 2.0,
    "place": 1.0,
    "time": 1.0,
    "manner": 0.5,
    "denied": 1.0,
}


def relatedness(draw: Draw) -> Iterator[Item]:
    """How much two sentences speak of the same, from 0 (nothing) to 5 (all)."""
    while True:
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
        yield Item([speak(first)], {"relatedness": related(first, second)}, [speak(second)])


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


def paraphrase(draw: Draw) -> Iterator[Item]:
    """The same said otherwise, or something else in nearly the same words."""
    while True:
        same = draw.chance(0.5)
        first = _scene(draw)
        second = _reworded(draw, first) if same else _twisted(draw, first)
        if second is not None:
            first, other = second
            label = "paraphrase" if same else "different"
            item = Item([speak(first)], {"paraphrase": label}, [speak(other)])
            if item.first[0].text != item.second[0].text:
                yield item


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
        one, two = _name(draw), NP(draw.thing(PERSON, 0.0), "the")
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


# --- acceptability --------------------------------------------------------------------------------


def acceptability(draw: Draw) -> Iterator[Item]:
    """Twins: a sentence, then the same with one fault; five phenomena in turn."""
    pair = 0
    while True:
        for phenomenon, make in _PHENOMENA.items():
            twins = make(draw)
            if twins is None or twins[0].text == twins[1].text:
                continue
            pair += 1
            for sentence, label in zip(twins, ("acceptable", "unacceptable"), strict=True):
                labels: dict[str, Label] = {
                    "acceptability": label,
                    "phenomenon": phenomenon,
                    "pair": str(pair),
                }
                yield Item([sentence], labels)


Twins = tuple[Sentence, Sentence]


def _plain(draw: Draw, tense: Tense, plural: float = 0.5) -> Clause:
    subject = NP(draw.thing(frozenset(("person", "animal")), plural), "the")
    return draw.transitive(subject, tense)


def _agreement(draw: Draw) -> Twins | None:
    """A verb in the wrong number, mostly with a noun of the other number in between."""
    clause = (
        _plain(draw, "Pres")
        if draw.chance(0.7)
        else draw.state(NP(draw.thing(lex.classes("concrete"), 0.5), "the"), "Past")
    )
    assert clause.subject is not None
    kind = draw.random()
    if kind < 0.4:
        draw.intervening(clause.subject)
    elif kind < 0.75:
        clause.subject.relative = Teller(draw).relative(clause.subject)
    return speak(clause), speak(replace(clause, wrong=frozenset(("agreement",))))


def _reflexive(draw: Draw) -> Twins | None:
    """ "herself" of somebody who is not a she, or not one."""
    subject = _name(draw) if draw.chance(0.5) else NP(draw.thing(PERSON, 0.5), "the")
    frame = draw.zipf(REFLEXIVE)
    own = subject.entity.pronouns
    wrong = draw.even([p for p in ("Masc", "Fem", "Plur") if p != own])
    if not subject.entity.name and not (subject.entity.noun and subject.entity.noun.gender):
        wrong = "Masc" if own == "Plur" else "Plur"  # a teacher may be either
    elif own == "Plur":
        wrong = draw.even(("Masc", "Fem"))
    good = Clause(subject, frame, NP(subject.entity, "reflexive"), place=draw.place())
    bad = replace(good, object=NP(subject.entity, "reflexive", pronouns=wrong))
    return speak(good), speak(bad)


def _selection(draw: Draw) -> Twins | None:
    """An object, or a doer, of a kind the verb does not take."""
    draw.theme = ()
    tense: Tense = "Past" if draw.chance(0.5) else "Pres"
    frame = draw.zipf(_CRISP)
    subject = NP(draw.thing(PERSON, 0.4), "the")
    good = Clause(subject, frame, NP(draw.thing(frame.object), "the"), tense=tense)
    odd = NP(draw.thing(_THINGS - frame.object, 0.4), "the")
    if draw.chance(0.6):
        odd.entity.number = good.object.entity.number if good.object else "Sing"
        return speak(good), speak(replace(good, object=odd))
    odd.entity.number = subject.entity.number
    return speak(good), speak(replace(good, subject=odd))


# verbs nobody would stretch, and classes that no reading saves
_CRISP = tuple(
    f
    for f in TRANSITIVE
    if f.lemma in "eat read drink wear drive play bake cook sew fold pour tune park sign".split()
)
_THINGS = lex.classes("building land water furniture garment vehicle instrument")


def _case(draw: Draw) -> Twins | None:
    """ "him sleeps" """
    entity = draw.person() if draw.chance(0.6) else draw.thing(PERSON, 1.0)
    subject = NP(entity, "pronoun")
    clause = draw.transitive(subject, "Past" if draw.chance(0.6) else "Pres")
    if draw.chance(0.5):
        clause.place = draw.place()
    return speak(clause), speak(replace(clause, wrong=frozenset(("case",))))


def _word_order(draw: Draw) -> Twins | None:
    """A determiner behind its noun."""
    clause = _plain(draw, "Past")
    if draw.chance(0.5):
        clause.place = draw.place()
    good, bad = speak(clause), speak(clause)
    spots = [
        i
        for i, word in enumerate(good.words[:-1])
        if word.pos == "DET" and good.words[i + 1].pos in ("NOUN", "ADJ", "NUM")
    ]
    swap(bad, draw.even(spots))
    return good, bad


def swap(s: Sentence, i: int) -> None:
    """Exchange words i and i + 1, trees and all; constituents are given up."""
    place = {i: i + 1, i + 1: i}
    order = list(range(len(s.words)))
    order[i], order[i + 1] = i + 1, i
    s.words = [s.words[j] for j in order]
    s.deps = [s.deps[j] for j in order]
    s.heads = [place.get(s.heads[j], s.heads[j]) for j in order]
    if i == 0:
        second = s.words[1]
        s.words[1] = second._replace(form=second.lemma if second.pos == "DET" else second.form)
        s.words[0] = s.words[0].capitalised()
    s.constituents = []


_PHENOMENA: Mapping[str, Callable[[Draw], Twins | None]] = {
    "agreement": _agreement,
    "reflexive": _reflexive,
    "word-order": _word_order,
    "selection": _selection,
    "case": _case,
}


# --- questions ------------------------------------------------------------------------------------


def questions(draw: Draw) -> Iterator[Item]:
    """A question and a story; the answer is a span of the story."""
    while True:
        clauses = list(Teller(draw).tell())
        sentences = [speak(clause) for clause in clauses]
        lemmas = [word.lemma for sentence in sentences for word in sentence.words]
        at = 0
        for clause, sentence in zip(clauses, sentences, strict=True):
            once = clause.frame is not None and lemmas.count(clause.frame.lemma) == 1
            asked = _question(draw, clause, sentence) if once else None
            if asked is not None:
                question, (start, end) = asked
                answer = _named(sentences, (at + start, at + end))
                if answer is not None:
                    yield Item([speak(question)], {}, sentences, answer)
                    break
            at += len(sentence.words)


def _askable(c: Clause) -> bool:
    simple = (
        c.conjoined is None
        and c.that is None
        and c.infinitive is None
        and c.under is None
        and c.beside is None
    )
    return simple and not (
        c.question or c.passive or c.exist or c.negative or c.modal or c.predicate or c.relation
    )


def _question(draw: Draw, c: Clause, s: Sentence) -> tuple[Clause, Range] | None:
    """A question that this sentence answers, and the words that answer it."""
    if not _askable(c) or c.frame is None or c.subject is None or c.subject.also is not None:
        return None
    root = next(i for i, head in enumerate(s.heads) if head == i)
    spans = {role.role: role.span for role in s.roles if role.predicate == root}
    kinds: list[tuple[Question, Range]] = []
    if c.subject.entity.cls == "person" and "ARG0" in spans and c.subject.apposition is None:
        kinds.append(("who", spans["ARG0"]))
    if c.object is not None and c.object.entity.cls != "person" and c.object.form != "reflexive":
        kinds.append(("what", spans["ARG1"]))
    if c.place is not None:
        kinds.append(("where", spans["ARGM-LOC"]))
    if not kinds:
        return None
    kind, span = draw.even(kinds)
    asked = replace(
        c,
        question=kind,
        subject=_plainly(c.subject),
        object=c.object and _plainly(c.object),
        recipient=c.recipient and _plainly(c.recipient),
        place=None if kind == "where" else c.place,
        perfect=False,
        progressive=False,
    )
    asked.time = asked.link = asked.often = asked.manner = None
    return asked, span


def _plainly(np: NP) -> NP:
    """By name or with "the": a question stands alone, so a pronoun would say nothing."""
    if np.form == "reflexive":
        return np
    if np.entity.name:
        return NP(np.entity, "name")
    owner = np.owner
    return NP(np.entity, "owned" if owner else "the", owner=owner)


def _named(sentences: list[Sentence], span: Range) -> Range | None:
    """The span, or where it is a pronoun the last phrase before it that names the same one."""
    words = [word for s in sentences for word in s.words]
    if any(words[i].pos != "PRON" for i in range(*span)):
        return span
    mentions: list[tuple[int, int, str]] = []
    at = 0
    for s in sentences:
        mentions += [(at + a, at + b, name) for a, b, _, name in s.mentions]
        at += len(s.words)
    chain = next((name for a, b, name in mentions if (a, b) == span), "")
    named = [
        (a, b)
        for a, b, name in mentions
        if name == chain and b <= span[0] and words[a].pos != "PRON"
    ]
    return max(named) if named else None


TASKS: Mapping[str, Callable[[Draw], Iterator[Item]]] = {
    "acceptability": acceptability,
    "entailment": entailment,
    "paraphrase": paraphrase,
    "questions": questions,
    "relatedness": relatedness,
    "sentiment": sentiment,
}
