"""An independent judge of the primer: reads a Doc's gold and the word lists, not the generator.

Each check yields complaints in words, so that an empty list means a sentence is in order.
"""

from collections.abc import Iterator

from spacy.tokens import Doc, Span, Token

from workbench.corpora.layers import chains, edges, mentions
from workbench.corpora.primer import lexicon as lex

CLASS_OF = {n.lemma: n.cls for nouns in lex.NOUNS.values() for n in nouns}
GENDER_OF = {n.lemma: n.gender for n in lex.NOUNS["person"] if n.gender}
GENDER_OF |= {name: gender for gender, names in lex.FIRST_NAMES.items() for name in names}
OBJECTS: dict[str, frozenset[str]] = {}
SUBJECTS: dict[str, frozenset[str]] = {}
for _frame in lex.FRAMES:
    OBJECTS[_frame.lemma] = OBJECTS.get(_frame.lemma, frozenset()) | _frame.object
    SUBJECTS[_frame.lemma] = SUBJECTS.get(_frame.lemma, frozenset()) | _frame.subject
SUBJECT_RELATIONS = ("nsubj", "nsubj:pass")


def child(token: Token, *relations: str) -> Token | None:
    return next((c for c in token.children if c.dep_ in relations), None)


def subject_of(verb: Token) -> Token | None:
    """The subject of a verb: its own, or that of the verb it is coordinated with or opens."""
    if (own := child(verb, *SUBJECT_RELATIONS)) is not None:
        return own
    return (
        subject_of(verb.head) if verb.dep_ in ("conj", "xcomp") and verb.head.i != verb.i else None
    )


def referent(token: Token) -> Token:
    """The noun a relative pronoun stands for; any other word for itself."""
    if "Rel" in token.morph.get("PronType"):
        clause = next(a for a in token.ancestors if a.dep_ == "acl:relcl")
        return clause.head
    return token


def number_of(subject: Token) -> str:
    subject = referent(subject)
    if any(c.dep_ == "conj" for c in subject.children):
        return "Plur"
    return (subject.morph.get("Number") or ["Sing"])[0]


def agreement(doc: Doc) -> Iterator[str]:
    """A finite verb shows the number of its subject."""
    for token in doc:
        shown = {"VBZ": "Sing", "VBP": "Plur"}.get(token.tag_)
        shown = shown or {"was": "Sing", "were": "Plur"}.get(token.lower_)
        if shown is None:
            continue
        verb = token.head if token.dep_ in ("aux", "aux:pass", "cop") else token
        subject = subject_of(verb)
        if subject is None:
            yield f"{token.text}: a finite verb without a subject"
        elif number_of(subject) != shown:
            yield f"{token.text} does not agree with {subject.text}"


def gender_of(token: Token) -> str:
    return (
        token.morph.get("Gender") or [GENDER_OF.get(token.text, GENDER_OF.get(token.lemma_, ""))]
    )[0]


def reflexives(doc: Doc) -> Iterator[str]:
    """A reflexive has the number and gender of its subject."""
    for token in doc:
        if token.morph.get("Reflex"):
            subject = subject_of(token.head)
            assert subject is not None
            subject = referent(subject)
            genders = {gender_of(subject), gender_of(token)} - {""}
            if number_of(subject) != number_of(token) or len(genders) > 1:
                yield f"{token.text} cannot be {subject.text}"


def case(doc: Doc) -> Iterator[str]:
    """Subjects are nominative, everything else is not."""
    for token in doc:
        if token.tag_ == "PRP" and token.morph.get("Case"):
            nominative = token.morph.get("Case") == ["Nom"]
            if nominative != (token.dep_ in SUBJECT_RELATIONS):
                yield f"{token.text} as {token.dep_}"


def word_order(doc: Doc) -> Iterator[str]:
    """A determiner comes first in its noun phrase, and nothing but modifiers stands in between."""
    for token in doc:
        if token.pos_ == "DET" and token.dep_ == "det":
            between = doc[token.i + 1 : token.head.i]
            if token.i > token.head.i or any(w.head.i != token.head.i for w in between):
                yield f"{token.text} out of place"
            if any(c.i < token.i for c in token.head.children if c.dep_ in ("amod", "nummod")):
                yield f"{token.text} behind a modifier"


def class_of(token: Token, doc: Doc) -> str:
    """The noun class of an argument; of a pronoun or name, what coreference says it is."""
    token = referent(token)
    if token.pos_ == "NOUN":
        return CLASS_OF.get(token.lemma_, "")
    for m in mentions(doc, "coreference"):
        if m.start == token.i and m.end >= token.i + 1:
            return {"PERSON": "person", "GPE": "", "ORG": ""}.get(m.label, m.label)
    return ""


def selection(doc: Doc) -> Iterator[str]:
    """A verb's subject and object are of the classes it takes."""
    for verb in doc:
        if verb.pos_ != "VERB" or verb.lemma_ not in SUBJECTS:
            continue
        if any(c.dep_ in ("xcomp", "ccomp", "expl") for c in verb.children):
            continue
        passive = child(verb, "nsubj:pass")
        doer = child(verb, "obl:agent") if passive is not None else subject_of(verb)
        done = passive if passive is not None else child(verb, "obj")
        for what, token, allowed in (
            ("subject", doer, SUBJECTS[verb.lemma_]),
            ("object", done, OBJECTS[verb.lemma_]),
        ):
            if (
                token is None
                or (token.morph.get("PronType") == ["Int"])
                or token.morph.get("Reflex")
            ):
                continue
            cls = class_of(token, doc)
            if cls and cls not in allowed:
                yield f"{verb.lemma_} with {what} {token.text} ({cls})"


CHECKS = {
    "agreement": agreement,
    "reflexive": reflexives,
    "case": case,
    "word-order": word_order,
    "selection": selection,
}


def complaints(doc: Doc) -> list[str]:
    return [complaint for check in CHECKS.values() for complaint in check(doc)]


def tree_faults(doc: Doc) -> Iterator[str]:
    """One root a sentence, every word under it, no arcs that cross."""
    for sentence in doc.sents:
        roots = [t for t in sentence if t.head.i == t.i]
        if len(roots) != 1 or roots[0].dep_ != "root":
            yield f"{len(roots)} roots"
        for token in sentence:
            if not sentence.start <= token.head.i < sentence.end:
                yield f"{token.text} hangs outside its sentence"
            if token.head.i != token.i and token.dep_ in ("root", ""):
                yield f"{token.text} has no relation"
            if not any(a.i == roots[0].i for a in [token, *token.ancestors]):
                yield f"{token.text} does not reach the root"
        arcs = [sorted((t.i, t.head.i)) for t in sentence if t.head.i != t.i]
        for a, b in arcs:
            if any(a < c < b < d for c, d in arcs):
                yield "arcs cross"


def heads_outside(span: Span) -> int:
    """How many of its words are headed from outside, or are the root: 1 for any real phrase."""
    return sum(t.head.i == t.i or not span.start <= t.head.i < span.end for t in span)


def phrase_faults(doc: Doc) -> Iterator[str]:
    """Every span of every layer is a phrase of the tree, and constituents nest."""
    spans = [
        *mentions(doc, "constituents"),
        *mentions(doc, "entities"),
        *mentions(doc, "coreference"),
    ]
    ranges = {(m.start, m.end, m.label) for m in spans}
    for layer in doc._.edges:
        for edge in edges(doc, layer):
            ranges |= {(*edge.span1, layer), (*(edge.span2 or edge.span1), layer)}
    for start, end, label in ranges:
        if not 0 <= start < end <= len(doc):
            yield f"{label} {start}-{end} lies outside the text"
        elif heads_outside(doc[start:end]) != 1:
            yield f"{label} {doc[start:end].text!r} has {heads_outside(doc[start:end])} heads"
    constituents = [(m.start, m.end) for m in mentions(doc, "constituents")]
    for a, b in constituents:
        if any(a < c < b < d for c, d in constituents):
            yield f"constituents cross in {doc.text!r}"


def chain_faults(doc: Doc) -> Iterator[str]:
    """All pronouns of a chain have one gender and number, and they are those of its names."""
    for name, members in chains(doc).items():
        shown = set()
        for m in members:
            token = doc[m.start]
            if m.end == m.start + 1 and token.pos_ in ("PRON", "PROPN"):
                shown.add((gender_of(token), number_of(token)))
        if len(shown) > 1:
            yield f"chain {name} is {sorted(shown)}"


def binding_faults(doc: Doc) -> Iterator[str]:
    """Inside a clause that depends on it, a subject's own entity is spoken of by a pronoun only."""
    members = mentions(doc, "coreference")
    for verb in doc:
        if verb.dep_ not in ("ccomp", "advcl") or (subject := child(verb.head, "nsubj")) is None:
            continue
        own = {m.id for m in members if m.start <= subject.i < m.end and m.end <= verb.left_edge.i}
        for m in members:
            inside = verb.left_edge.i <= m.start <= verb.right_edge.i
            heads = [i for i in own if doc[m.start].pos_ != "PRON" and i == m.id]
            if inside and heads and number_of(subject) == number_of(doc[m.start : m.end].root):
                yield f"{subject.text} ... {doc[m.start : m.end].text}"


# --- what a sentence says, read off its tree ------------------------------------------------------

KINDS = {**{lemma: {lemma, lex.HYPERNYMS.get(cls, lemma)} for lemma, cls in CLASS_OF.items()}}
Facts = dict[str, object]


def facts(span: Span) -> Facts:
    """Who did what to whom, where, when and how, whatever the voice and word order."""
    root = span.root
    passive = child(root, "nsubj:pass")
    doer = child(root, "obl:agent") if passive is not None else child(root, "nsubj")
    done = passive if passive is not None else child(root, "obj")
    assert doer is not None
    said: Facts = {"verb": root.lemma_, "doer": _phrase(doer), "denied": False}
    if done is not None:
        said["done"] = done.lemma_
        said |= {f"quality {c.lemma_}": True for c in done.children if c.dep_ == "amod"}
        said["denied"] = any(c.lower_ == "any" for c in done.children)
    if child(doer, "det") is not None and child(doer, "det").lower_ == "no":  # type: ignore[union-attr]
        said["denied"] = True
    for c in root.children:
        if c.dep_ == "advmod" and c.lemma_ == "not":
            said["denied"] = True
        elif c.dep_ == "advmod":
            said[f"how {c.lemma_}"] = True
        elif c.dep_ in ("obl", "obl:unmarked", "iobj") and c.dep_ != "obl:agent":
            preposition = child(c, "case")
            kind = (
                "to" if c.dep_ == "iobj" else preposition.lower_ if preposition is not None else ""
            )
            said[f"{kind} {_phrase(c)}"] = True
    return said


def _phrase(head: Token) -> str:
    """A phrase without its determiner: whom or what it names."""
    words = [
        t for t in head.subtree if t.dep_ in ("flat", "nummod", "amod", "compound") or t.i == head.i
    ]
    return " ".join(t.lemma_ for t in words if t.dep_ != "amod")


def verdict(premise: Facts, hypothesis: Facts) -> str:
    """Entailment by parts: all that the hypothesis says, the premise says."""
    core = {"verb", "doer", "denied", "done"}
    same = premise["verb"] == hypothesis["verb"] and premise["doer"] == hypothesis["doer"]
    done = hypothesis.get("done") in (
        None,
        *KINDS.get(str(premise.get("done")), {premise.get("done")}),
    )
    if same and done and hypothesis["denied"] and set(hypothesis) <= set(premise):
        return "contradiction"
    if same and done and set(hypothesis) - core <= set(premise):
        return "entailment"
    return "neutral"
