"""Surface realisation: turns a meaning into words with every gold layer, in one pass.

Each function adds one type of phrase to a `Sentence`, returns the index of its head word, and
records dependencies (UD), constituents (Penn style), mentions, names, roles (PropBank style) and
relations. Costs: about 50 µs per sentence.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

from workbench.corpora.primer import english as en
from workbench.corpora.primer.english import Verb, Word
from workbench.corpora.primer.lexicon import Frame
from workbench.corpora.primer.structures import NP, Clause, Range, Role, Sentence, Time


def realise(clause: Clause) -> Sentence:
    """A whole sentence: capital letter, clause, full stop or question mark."""
    sentence = Sentence()
    root = _clause(sentence, clause, "root")
    sentence.heads[root] = root
    sentence.add(en.QUESTION if clause.question else en.STOP, "punct", root, glued=True)
    label = {"": "S", "polar": "SQ"}.get(clause.question, "SBARQ")
    sentence.close(0, label)
    sentence.words[0] = sentence.words[0].capitalised()
    sentence.constituents.reverse()  # of two with the same words, the outer one was closed last
    sentence.constituents.sort(key=lambda c: (c[0], -c[1]))
    _other_relations(sentence)
    return sentence


_NAMES = ("PERSON", "GPE", "ORG")


def _other_relations(s: Sentence) -> None:
    """Label pairs of names without a relation as "Other"."""
    related = {(one, two) for one, two, _ in s.relations}
    names = [(start, end) for start, end, label in s.entities if label in _NAMES]
    for i, one in enumerate(names):
        for two in names[i + 1 :]:
            if (one, two) not in related and (two, one) not in related:
                s.relations.append((one, two, "Other"))


# --- noun phrases ---------------------------------------------------------------------------------


def _noun_phrase(s: Sentence, np: NP, dep: str, nominative: bool = False) -> tuple[int, Range]:
    """Add a noun phrase; return its head word and its range."""
    start = len(s.words)
    head = _bare_phrase(s, np, dep, nominative)
    first = s.close(start, "NP")
    name = (start, len(s.words)) if np.form == "name" else None
    if name and np.entity.label:
        s.entities.append((*name, np.entity.label))
    if np.apposition is not None:
        _apposition(s, np, head, start)
    if np.place is not None:
        _inner_place(s, np, head, start)
    if np.relative is not None:
        _relative(s, np, head, first)
        s.close(start, "NP")
    if np.entity.id:
        end = len(s.words) - (np.apposition is not None)  # without the comma after an apposition
        s.mentions.append((start, end, np.entity.label or np.entity.cls, np.entity.id))
    if np.also is not None:
        cc = s.add(en.AND, "cc")
        second, _ = _noun_phrase(s, np.also, "conj", nominative)
        s.heads[cc], s.heads[second] = second, head
        s.close(start, "NP")
    return head, (start, len(s.words))


def _bare_phrase(s: Sentence, np: NP, dep: str, nominative: bool) -> int:
    entity = np.entity
    if np.form in ("pronoun", "reflexive"):
        forms = en.PRONOUNS[np.pronouns or entity.pronouns]
        if np.form == "reflexive":
            return s.add(forms.reflexive, dep)
        return s.add(forms.nominative if nominative else forms.accusative, dep)
    if np.form == "name":
        return _name(s, np, dep)
    assert entity.noun is not None
    before = _determiner(s, np, entity.noun.forms[entity.number == "Plur"])
    if np.count is not None:
        before.append(s.add(np.count, "nummod"))
    before += [s.add(word, "amod") for word in np.adjectives]
    head = s.add(entity.noun.forms[entity.number == "Plur"], dep)
    for i in before:
        s.heads[i] = head
    return head


def _name(s: Sentence, np: NP, dep: str) -> int:
    """Add a name: a person's head is the first name, an organisation's the last word."""
    first, *rest = np.entity.name
    if np.entity.label == "ORG":
        det = s.add(en.THE, "det")
        modifier = s.add(first, "compound")
        head = s.add(rest[0], dep)
        s.heads[det] = s.heads[modifier] = head
        return head
    head = s.add(first, dep)
    for word in rest:
        s.add(word, "flat", head)
    return head


def _determiner(s: Sentence, np: NP, noun: Word) -> list[int]:
    """Add the determiner or owner of a common noun; return the words whose head is the noun."""
    if np.owner is not None:
        return [_owner(s, np.owner)]
    if np.form == "a":
        if np.plural and np.also is None:
            return []
        following = np.adjectives[0] if np.adjectives else noun
        return [s.add(en.article(following.form), "det")]
    if np.form == "this":
        return [s.add(en.THESE if np.entity.number == "Plur" else en.THIS, "det")]
    words = {"the": en.THE, "some": en.SOME, "every": en.EVERY, "no": en.NO, "any": en.ANY}
    return [s.add(words[np.form], "det")]


def _owner(s: Sentence, owner: NP) -> int:
    start = len(s.words)
    if owner.form == "pronoun":
        head = s.add(en.PRONOUNS[owner.entity.pronouns].genitive, "nmod:poss")
        s.mentions.append(
            (start, start + 1, owner.entity.label or owner.entity.cls, owner.entity.id)
        )
        return head
    head, _ = _noun_phrase(s, owner, "nmod:poss")
    after_s = s.words[-1].tag == "NNS" and s.words[-1].form.endswith("s")
    s.add(en.POSSESSIVE_PLURAL if after_s else en.POSSESSIVE, "case", head, glued=True)
    s.close(start, "NP")
    return head


def _apposition(s: Sentence, np: NP, head: int, start: int) -> None:
    assert np.apposition is not None
    comma = s.add(en.COMMA, "punct", glued=True)
    other, _ = _noun_phrase(s, np.apposition, "appos")
    s.heads[comma], s.heads[other] = other, head
    if np.relation and np.apposition.place is None:
        _relate(s, np.relation)
    s.add(en.COMMA, "punct", other, glued=True)
    s.close(start, "NP")


def _relate(s: Sentence, relation: str) -> None:
    """Add a relation from the last name to the one before it: "Mara's brother, Tom"."""
    names = [(start, end) for start, end, label in s.entities if label]
    s.relations.append((names[-1], names[-2], relation))


def _inner_place(s: Sentence, np: NP, head: int, start: int) -> None:
    assert np.place is not None
    preposition, other = np.place
    _prepositional(s, preposition, other, "nmod", head)
    s.close(start, "NP")
    if np.relation:
        one, two = s.entities[-2][:2], s.entities[-1][:2]
        s.relations.append((one, two, np.relation))


def _prepositional(
    s: Sentence, preposition: str, np: NP, dep: str, head: int = -1
) -> tuple[int, Range]:
    """Add a prepositional phrase; return its noun and its range."""
    start = len(s.words)
    case = s.add(en.preposition(preposition), "case")
    noun, _ = _noun_phrase(s, np, dep)
    s.heads[case], s.heads[noun] = noun, head
    return noun, s.close(start, "PP")


def _relative(s: Sentence, np: NP, head: int, antecedent: Range) -> None:
    assert np.relative is not None
    gap, clause = np.relative
    start = len(s.words)
    person = np.entity.cls == "person"
    if gap == "subject":
        pronoun = s.add(en.REL_WHO if person else en.REL_THAT, "nsubj")
    else:
        pronoun = s.add(en.REL_WHOM if person else en.REL_THAT, "obj")
    s.close(start, "WHNP")
    verb = _clause(s, clause, "acl:relcl", gap=Gap(gap, pronoun, antecedent, np))
    s.heads[pronoun], s.heads[verb] = verb, head
    s.close(start, "SBAR")


# --- clauses --------------------------------------------------------------------------------------


class Gap(NamedTuple):
    """An argument before its clause: a relative pronoun or a question word."""

    which: str  # "subject" or "object"
    pronoun: int
    span: Range  # the antecedent; for a question word, its own range
    np: NP


class Shared(NamedTuple):
    """The subject of a higher clause, shared by an infinitive or by a second predicate."""

    span: Range
    np: NP


@dataclass(slots=True, eq=False)
class Progress:
    """The state of a clause during its realisation."""

    gap: Gap | None
    shared: Shared | None
    finite: bool
    inverted: bool  # whether the first auxiliary comes before the subject
    subject: Range | None = None
    pending: list[int] = field(default_factory=list)  # words whose head is the root to come
    arguments: list[tuple[Range, str]] = field(default_factory=list)  # with their roles

    def has_gap(self, which: str) -> bool:
        return self.gap is not None and self.gap.which == which


def _clause(
    s: Sentence,
    c: Clause,
    dep: str,
    gap: Gap | None = None,
    shared: Shared | None = None,
    finite: bool = True,
) -> int:
    """Add a clause and return its root; the caller sets the root's head."""
    start = len(s.words)
    p = Progress(gap, shared, finite, inverted=c.question not in ("", "who"))
    _opening(s, c, p)
    body = len(s.words)
    if c.question not in ("", "polar"):
        _question_word(s, c, p)
    inverted_from = len(s.words)
    group = _verb_group(c, _plural(c, p), p)
    if p.inverted:
        word, relation = group.pop(0)
        p.pending.append(s.add(word, relation))
        if c.negative and c.contracted:
            p.pending.append(s.add(en.NT, "advmod", glued=True))
    _subject(s, c, p)
    root = _predicate(s, c, p, dep, group)
    for i in p.pending:
        s.heads[i] = root
    if c.question not in ("", "polar"):
        s.close(inverted_from, "SQ")
    elif finite and dep != "root" and shared is None:
        s.close(body, "S")
    _second_clause(s, c, root, start)
    return root


def _opening(s: Sentence, c: Clause, p: Progress) -> None:
    """Add what comes before the subject: a linking adverb, a time."""
    if c.link is not None:
        p.pending.append(s.add(c.link, "advmod"))
        s.close(len(s.words) - 1, "ADVP")
    if c.time is not None and c.time_first:
        head, span = _time(s, c.time)
        p.arguments.append((span, "ARGM-TMP"))
        p.pending += (head, s.add(en.COMMA, "punct", glued=True))


_ADJUNCT_QUESTIONS = {"where": (en.WHERE, "ARGM-LOC"), "when": (en.WHEN, "ARGM-TMP")}


def _question_word(s: Sentence, c: Clause, p: Progress) -> None:
    start = len(s.words)
    if c.question in _ADJUNCT_QUESTIONS:
        word, role = _ADJUNCT_QUESTIONS[c.question]
        p.pending.append(s.add(word, "advmod"))
        p.arguments.append((s.close(start, "WHADVP"), role))
        return
    which = "subject" if c.question == "who" else "object"
    np = c.subject if which == "subject" else c.object
    assert np is not None
    person = np.entity.cls == "person" or which == "subject"
    pronoun = s.add(en.WHO if person else en.WHAT, "nsubj" if which == "subject" else "obj")
    p.pending.append(pronoun)
    p.gap = Gap(which, pronoun, s.close(start, "WHNP"), np)


def _subject(s: Sentence, c: Clause, p: Progress) -> None:
    surface = c.object if c.passive else c.subject
    if p.shared is not None:
        p.subject = p.shared.span
    elif p.gap is not None and p.gap.which == "subject":
        p.subject = p.gap.span
    elif c.exist:
        p.pending.append(s.add(en.THERE, "expl"))
        s.close(len(s.words) - 1, "NP")
    elif surface is not None:
        relation = "nsubj:pass" if c.passive else "nsubj"
        head, p.subject = _noun_phrase(s, surface, relation, nominative="case" not in c.wrong)
        p.pending.append(head)


def _plural(c: Clause, p: Progress) -> bool:
    """Whether the finite verb is plural; an agreement error inverts it."""
    surface = c.object if c.passive else c.subject
    if c.question == "who":
        plural = False
    elif p.gap is not None and p.gap.which == "subject":
        plural = p.gap.np.entity.number == "Plur"
    elif p.shared is not None:
        plural = p.shared.np.plural
    else:
        plural = surface is not None and surface.plural
    return plural != ("agreement" in c.wrong)


def _verb_group(c: Clause, plural: bool, p: Progress) -> list[tuple[Word, str]]:
    """Auxiliaries and main verb in order, each with its relation ("" for the main verb)."""
    chain: list[tuple[Verb, str]] = []
    if c.perfect:
        chain.append((en.HAVE, "aux"))
    if c.progressive:
        chain.append((en.BE, "aux"))
    if c.passive:
        chain.append((en.BE, "aux:pass"))
    if c.exist:
        chain.append((en.EXIST, ""))
    elif c.predicate is not None:
        chain.append((en.BE, "cop"))
    else:
        assert c.frame is not None
        chain.append((c.frame.verb, ""))
    group: list[tuple[Word, str]] = []
    form = "finite" if p.finite else "base"
    if c.modal:
        group.append((en.MODALS[c.modal], "aux"))
        form = "base"
    elif p.finite and not chain[0][1] and not c.exist and (c.negative or p.inverted):
        group.append((_form(en.DO, "finite", c.tense, plural), "aux"))
        form = "base"
    for verb, relation in chain:
        group.append((_form(verb, form, c.tense, plural), relation))
        form = "participle" if verb is en.HAVE or relation == "aux:pass" else "gerund"
    return group


def _form(verb: Verb, form: str, tense: str, plural: bool) -> Word:
    if form == "finite":
        return (verb.present if tense == "Pres" else verb.past)[plural]
    if form == "base":
        return verb.base
    return verb.participle if form == "participle" else verb.gerund


def _predicate(s: Sentence, c: Clause, p: Progress, dep: str, group: list[tuple[Word, str]]) -> int:
    """Add everything from the first auxiliary to the last adjunct; return the root."""
    outer = len(s.words)
    if not p.finite:
        p.pending.append(s.add(en.TO, "mark"))
    _auxiliaries(s, c, p, [item for item in group if item[1]])
    inner = len(s.words)
    verb = group[-1][0] if group and not group[-1][1] else None
    if verb is None:
        root = _nominal(s, c, dep)
        predicate = next(i for i in p.pending if s.deps[i] == "cop")
        p.arguments.append(((inner, len(s.words)), "ARG2"))
    else:
        root = predicate = s.add(verb, dep)
    _complements(s, c, p, root)
    _adjuncts(s, c, p, root)
    _embedded(s, c, p, root)
    if verb is not None and inner > outer:
        s.close(inner, "VP")
    s.close(outer, "VP")
    _roles(s, c, p, predicate)
    if c.conjoined is not None:
        np = p.shared.np if p.shared else c.object if c.passive else c.subject
        assert p.subject is not None
        assert np is not None
        cc = s.add(en.AND, "cc")
        shared = Shared(p.subject, np)
        second = _clause(s, c.conjoined, "conj", shared=shared, finite=p.finite)
        s.heads[cc], s.heads[second] = second, root
        s.close(outer, "VP")
    return root


def _auxiliaries(s: Sentence, c: Clause, p: Progress, group: list[tuple[Word, str]]) -> None:
    """Add the auxiliaries; negation and frequency adverbs follow the first one."""
    first = -1 if p.inverted else 0
    for i, (word, relation) in enumerate(group):
        p.pending.append(s.add(word, relation))
        if word.tag == "MD":
            p.arguments.append(((len(s.words) - 1, len(s.words)), "ARGM-MOD"))
        if i == first:
            _after_first_auxiliary(s, c, p, contracted=c.contracted and word.tag != "MD")
    if p.inverted or not group:
        _after_first_auxiliary(s, c, p, contracted=False)


def _after_first_auxiliary(s: Sentence, c: Clause, p: Progress, contracted: bool) -> None:
    if c.negative and not (p.inverted and c.contracted):
        i = s.add(en.NT if contracted else en.NOT, "advmod", glued=contracted)
        p.pending.append(i)
        p.arguments.append(((i, i + 1), "ARGM-NEG"))
    if c.often is not None:
        i = s.add(c.often, "advmod")
        p.pending.append(i)
        p.arguments.append((s.close(i, "ADVP"), "ARGM-TMP"))


def _nominal(s: Sentence, c: Clause, dep: str) -> int:
    """Add what follows "be": an adjective, a noun phrase, or a place."""
    start = len(s.words)
    if isinstance(c.predicate, Word):
        degree = s.add(c.degree, "advmod") if c.degree is not None else -1
        root = s.add(c.predicate, dep)
        if degree >= 0:
            s.heads[degree] = root
        s.close(start, "ADJP")
        return root
    if isinstance(c.predicate, NP):
        return _noun_phrase(s, c.predicate, dep)[0]
    assert c.predicate is not None
    preposition, np = c.predicate
    return _prepositional(s, preposition, np, dep)[0]


def _complements(s: Sentence, c: Clause, p: Progress, root: int) -> None:
    """Add objects, and prepositional phrases that the verb selects."""

    def bare(np: NP, relation: str, role: str) -> None:
        head, span = _noun_phrase(s, np, relation, nominative=relation == "nsubj")
        s.heads[head] = root
        p.arguments.append((span, role))

    if c.exist and c.subject is not None:
        bare(c.subject, "nsubj", "ARG1")
    if c.recipient is not None and c.dative_shift:
        bare(c.recipient, "iobj", "ARG2")
    if c.object is not None and not c.passive and not p.has_gap("object"):
        bare(c.object, "obj", "ARG1")
    if c.recipient is not None and not c.dative_shift:
        p.arguments.append((_prepositional(s, "to", c.recipient, "obl", root)[1], "ARG2"))
    if c.goal is not None:
        role = _goal_role(c.frame, c.goal[0])
        p.arguments.append((_prepositional(s, *c.goal, "obl", root)[1], role))
    if c.relation:
        names = [(start, end) for start, end, label in s.entities if label in _NAMES]
        s.relations.append((names[-2], names[-1], c.relation))
    if c.passive and c.agent and c.subject is not None:
        p.arguments.append((_prepositional(s, "by", c.subject, "obl:agent", root)[1], "ARG0"))


def _goal_role(frame: Frame | None, preposition: str) -> str:
    if frame is None or frame.kind == "motion":
        return "ARGM-GOL" if preposition in ("to", "into") else "ARGM-DIR"
    return "ARG2"


def _adjuncts(s: Sentence, c: Clause, p: Progress, root: int) -> None:
    if c.manner is not None:
        i = s.add(c.manner, "advmod", root)
        p.arguments.append((s.close(i, "ADVP"), "ARGM-MNR"))
    if c.place is not None:
        p.arguments.append((_prepositional(s, *c.place, "obl", root)[1], "ARGM-LOC"))
    if c.time is not None and not c.time_first:
        head, span = _time(s, c.time)
        s.heads[head] = root
        p.arguments.append((span, "ARGM-TMP"))


def _embedded(s: Sentence, c: Clause, p: Progress, root: int) -> None:
    """Add a clause as complement: "that …" or "to …"."""
    start = len(s.words)
    if c.that is not None:
        mark = s.add(en.THAT, "mark")
        head = _clause(s, c.that, "ccomp")
        s.heads[mark], s.heads[head] = head, root
        p.arguments.append((s.close(start, "SBAR"), "ARG1"))
    if c.infinitive is not None:
        assert p.subject is not None
        assert c.subject is not None
        shared = Shared(p.subject, c.subject)
        s.heads[_clause(s, c.infinitive, "xcomp", shared=shared, finite=False)] = root
        p.arguments.append((s.close(start, "S"), "ARG1"))


def _time(s: Sentence, time: Time) -> tuple[int, Range]:
    start = len(s.words)
    case = s.add(en.preposition(time.preposition), "case") if time.preposition else -1
    first = len(s.words)
    head = first + time.head
    for word, relation in time.words:
        s.add(word, relation, head)
    s.deps[head] = "obl" if time.preposition else "obl:unmarked"
    s.close(first, "NP")
    named = first + (time.words[0][0].lemma == "the")
    s.entities.append((named, len(s.words), time.label))
    if case < 0:
        return head, (start, len(s.words))
    s.heads[case] = head
    return head, s.close(start, "PP")


_PATIENT_SUBJECTS = frozenset(("happen", "appear", "be"))


def _roles(s: Sentence, c: Clause, p: Progress, predicate: int) -> None:
    """Add the semantic roles, when all ranges are known."""
    kind = c.frame.kind if c.frame is not None else "be"
    agent, patient = c.subject, c.object
    if agent is None:
        agent = p.gap.np if p.gap and p.has_gap("subject") else p.shared.np if p.shared else None
    if p.gap is not None and p.has_gap("object"):
        patient = p.gap.np
        p.arguments.append((p.gap.span, "ARG1"))
    third = c.recipient or (c.goal[1] if c.goal else None)
    if kind in _PATIENT_SUBJECTS:
        agent, patient = None, agent
    if p.subject is not None:
        subject_role = "ARG1" if c.passive or kind in _PATIENT_SUBJECTS else "ARG0"
        p.arguments.append((p.subject, subject_role))
        if p.gap is not None and p.has_gap("subject") and not c.question:
            p.arguments.append(((p.gap.pronoun, p.gap.pronoun + 1), f"R-{subject_role}"))
    if p.gap is not None and p.has_gap("object") and not c.question:
        p.arguments.append(((p.gap.pronoun, p.gap.pronoun + 1), "R-ARG1"))
    by_role = {"ARG0": agent, "ARG1": patient, "ARG2": third}
    for span, role in sorted(p.arguments):
        np = by_role.get(role)
        s.roles.append(Role(predicate, span, role, kind, np.entity.cls if np else ""))


def _second_clause(s: Sentence, c: Clause, root: int, start: int) -> None:
    """Add a second clause: coordinate after a comma, or subordinate."""
    if c.subordinate is not None:
        word, clause = c.subordinate
        sbar = len(s.words)
        mark = s.add(word, "mark")
        head = _clause(s, clause, "advcl")
        s.heads[mark], s.heads[head] = head, root
        role = "ARGM-CAU" if word.form == "because" else "ARGM-TMP"
        s.roles.append(Role(root, s.close(sbar, "SBAR"), role, "", ""))
    if c.coordinate is not None:
        s.close(start, "S")
        word, clause = c.coordinate
        comma = s.add(en.COMMA, "punct", glued=True)
        cc = s.add(word, "cc")
        head = _clause(s, clause, "conj")
        s.heads[comma] = s.heads[cc] = head
        s.heads[head] = root
