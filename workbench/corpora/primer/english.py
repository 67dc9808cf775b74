"""English words with their tags: inflection, pronouns, auxiliaries, numerals.

Every word form is made once and shared, so a sentence is a list of references. Tags are those of
the Penn Treebank, features those of UD English. Costs: nothing after the import.
"""

from functools import cache
from typing import NamedTuple


class Word(NamedTuple):
    """A word form with its lemma, part of speech, tag and features."""

    form: str
    lemma: str
    pos: str
    tag: str
    morph: str = ""

    def capitalised(self) -> "Word":
        return self._replace(form=self.form[0].upper() + self.form[1:])


class Verb(NamedTuple):
    """The forms of a verb; `present` and `past` hold the singular and the plural form."""

    base: Word
    present: tuple[Word, Word]
    past: tuple[Word, Word]
    participle: Word
    gerund: Word

    @property
    def lemma(self) -> str:
        return self.base.lemma


_PLURALS = dict(
    pair.split("/")
    for pair in "man/men woman/women child/children person/people mouse/mice goose/geese "
    "sheep/sheep deer/deer loaf/loaves knife/knives shelf/shelves wolf/wolves scarf/scarves "
    "thief/thieves fisherman/fishermen piano/pianos cello/cellos".split()
)

_PAST = {
    forms.split("/")[0]: (forms.split("/")[1], forms.split("/")[2])
    for forms in "eat/ate/eaten buy/bought/bought sell/sold/sold drink/drank/drunk "
    "wear/wore/worn sew/sewed/sewn "
    "read/read/read write/wrote/written hide/hid/hidden find/found/found lose/lost/lost "
    "break/broke/broken "
    "build/built/built leave/left/left see/saw/seen hear/heard/heard feed/fed/fed "
    "bite/bit/bitten meet/met/met "
    "hurt/hurt/hurt drive/drove/driven ride/rode/ridden grow/grew/grown cut/cut/cut "
    "steal/stole/stolen "
    "forget/forgot/forgotten understand/understood/understood sleep/slept/slept run/ran/run "
    "sing/sang/sung "
    "fall/fell/fallen sink/sank/sunk shine/shone/shone go/went/gone give/gave/given "
    "show/showed/shown lend/lent/lent "
    "send/sent/sent bring/brought/brought tell/told/told teach/taught/taught put/put/put "
    "say/said/said "
    "think/thought/thought know/knew/known begin/began/begun lead/led/led choose/chose/chosen "
    "sit/sat/sat "
    "make/made/made take/took/taken keep/kept/kept hold/held/held draw/drew/drawn "
    "wake/woke/woken "
    "swim/swam/swum fly/flew/flown catch/caught/caught feel/felt/felt stand/stood/stood "
    "win/won/won "
    "throw/threw/thrown sweep/swept/swept bend/bent/bent freeze/froze/frozen shake/shook/shaken "
    "spend/spent/spent "
    "light/lit/lit come/came/come mean/meant/meant set/set/set spread/spread/spread".split()
}
_DOUBLED = set(
    "plan drop stop chop grab rub drag trap slip hum nod beg stir wrap scrub hug".split()
)
_VOWELS = "aeiou"


def _sibilant(lemma: str) -> bool:
    return lemma.endswith(("s", "x", "z", "ch", "sh"))


def _with_s(lemma: str) -> str:
    if _sibilant(lemma) or lemma in ("go", "potato", "tomato", "echo"):
        return lemma + "es"
    if lemma.endswith("y") and lemma[-2] not in _VOWELS:
        return lemma[:-1] + "ies"
    return lemma + "s"


def plural(lemma: str) -> str:
    """The plural of a noun; in a compound, the last word takes the plural."""
    return _PLURALS.get(lemma) or _with_s(lemma)


def _with_ed(lemma: str) -> str:
    if lemma.endswith("e"):
        return lemma + "d"
    if lemma.endswith("y") and lemma[-2] not in _VOWELS:
        return lemma[:-1] + "ied"
    return lemma + (lemma[-1] if lemma in _DOUBLED else "") + "ed"


def _with_ing(lemma: str) -> str:
    if lemma.endswith("e") and not lemma.endswith(("ee", "ye", "oe")):
        return lemma[:-1] + "ing"
    doubled = lemma in _DOUBLED or lemma in (
        "cut",
        "put",
        "run",
        "begin",
        "forget",
        "sit",
        "swim",
        "win",
        "set",
    )
    return lemma + (lemma[-1] if doubled else "") + "ing"


def noun(lemma: str) -> tuple[Word, Word]:
    """Singular and plural of a common noun."""
    return (
        Word(lemma, lemma, "NOUN", "NN", "Number=Sing"),
        Word(plural(lemma), lemma, "NOUN", "NNS", "Number=Plur"),
    )


def name(form: str) -> Word:
    return Word(form, form, "PROPN", "NNP", "Number=Sing")


def adjective(lemma: str) -> Word:
    return Word(lemma, lemma, "ADJ", "JJ", "Degree=Pos")


def adverb(lemma: str) -> Word:
    return Word(lemma, lemma, "ADV", "RB")


def preposition(lemma: str) -> Word:
    return Word(lemma, lemma, "ADP", "IN")


def _finite(form: str, lemma: str, pos: str, tag: str, number: str, tense: str) -> Word:
    morph = f"Mood=Ind|Number={number}|Person=3|Tense={tense}|VerbForm=Fin"
    return Word(form, lemma, pos, tag, morph)


@cache
def verb(lemma: str, pos: str = "VERB") -> Verb:
    past, participle = _PAST.get(lemma) or (_with_ed(lemma), _with_ed(lemma))
    third = {"have": "has"}.get(lemma) or _with_s(lemma)
    return _verb(lemma, pos, (third, lemma), (past, past), participle, _with_ing(lemma))


def _verb(
    lemma: str,
    pos: str,
    present: tuple[str, str],
    past: tuple[str, str],
    participle: str,
    gerund: str,
) -> Verb:
    return Verb(
        base=Word(lemma, lemma, pos, "VB", "VerbForm=Inf"),
        present=(
            _finite(present[0], lemma, pos, "VBZ", "Sing", "Pres"),
            _finite(present[1], lemma, pos, "VBP", "Plur", "Pres"),
        ),
        past=(
            _finite(past[0], lemma, pos, "VBD", "Sing", "Past"),
            _finite(past[1], lemma, pos, "VBD", "Plur", "Past"),
        ),
        participle=Word(participle, lemma, pos, "VBN", "Tense=Past|VerbForm=Part"),
        gerund=Word(gerund, lemma, pos, "VBG", "Tense=Pres|VerbForm=Part"),
    )


BE = _verb("be", "AUX", ("is", "are"), ("was", "were"), "been", "being")
EXIST = _verb("be", "VERB", ("is", "are"), ("was", "were"), "been", "being")
HAVE = _verb("have", "AUX", ("has", "have"), ("had", "had"), "had", "having")
DO = _verb("do", "AUX", ("does", "do"), ("did", "did"), "done", "doing")
MODALS = {
    m: Word(m, m, "AUX", "MD", "VerbForm=Fin") for m in ("will", "can", "must", "should", "may")
}

NOT = Word("not", "not", "PART", "RB", "Polarity=Neg")
NT = Word("n't", "not", "PART", "RB", "Polarity=Neg")
TO = Word("to", "to", "PART", "TO")
THAT = Word("that", "that", "SCONJ", "IN")
POSSESSIVE = Word("'s", "'s", "PART", "POS")
POSSESSIVE_PLURAL = Word("'", "'s", "PART", "POS")
THERE = Word("there", "there", "PRON", "EX")
AND = Word("and", "and", "CCONJ", "CC")
BUT = Word("but", "but", "CCONJ", "CC")
THE = Word("the", "the", "DET", "DT", "Definite=Def|PronType=Art")
A = Word("a", "a", "DET", "DT", "Definite=Ind|PronType=Art")
AN = Word("an", "a", "DET", "DT", "Definite=Ind|PronType=Art")
SOME = Word("some", "some", "DET", "DT", "PronType=Ind")
EVERY = Word("every", "every", "DET", "DT", "PronType=Tot")
ANY = Word("any", "any", "DET", "DT", "PronType=Ind")
NO = Word("no", "no", "DET", "DT", "PronType=Neg")
THIS = Word("this", "this", "DET", "DT", "Number=Sing|PronType=Dem")
THESE = Word("these", "this", "DET", "DT", "Number=Plur|PronType=Dem")
COMMA = Word(",", ",", "PUNCT", ",")
STOP = Word(".", ".", "PUNCT", ".")
QUESTION = Word("?", "?", "PUNCT", ".")

WHO = Word("who", "who", "PRON", "WP", "PronType=Int")
WHAT = Word("what", "what", "PRON", "WP", "PronType=Int")
WHERE = Word("where", "where", "ADV", "WRB", "PronType=Int")
WHEN = Word("when", "when", "ADV", "WRB", "PronType=Int")
REL_WHO = Word("who", "who", "PRON", "WP", "PronType=Rel")
REL_WHOM = Word("whom", "whom", "PRON", "WP", "Case=Acc|PronType=Rel")
REL_THAT = Word("that", "that", "PRON", "WDT", "PronType=Rel")


class Pronouns(NamedTuple):
    """The personal pronouns of one gender and number."""

    nominative: Word
    accusative: Word
    genitive: Word
    reflexive: Word


def _pronouns(forms: str, gender: str, number: str) -> Pronouns:
    nom, acc, gen, refl = forms.split()
    tail = f"Number={number}|Person=3"
    if gender:
        tail = f"Gender={gender}|{tail}"
    return Pronouns(
        Word(nom, nom, "PRON", "PRP", f"Case=Nom|{tail}|PronType=Prs"),
        Word(acc, nom, "PRON", "PRP", f"Case=Acc|{tail}|PronType=Prs"),
        Word(gen, gen, "PRON", "PRP$", f"Case=Gen|{tail}|Poss=Yes|PronType=Prs"),
        Word(refl, refl, "PRON", "PRP", f"Case=Acc|{tail}|PronType=Prs|Reflex=Yes"),
    )


PRONOUNS = {
    "Masc": _pronouns("he him his himself", "Masc", "Sing"),
    "Fem": _pronouns("she her her herself", "Fem", "Sing"),
    "Neut": _pronouns("it it its itself", "Neut", "Sing"),
    "Plur": _pronouns("they them their themselves", "", "Plur"),
}

COUNTS = tuple(
    Word(form, form, "NUM", "CD", "NumForm=Word|NumType=Card")
    for form in "two three four five six seven eight nine ten eleven twelve twenty fifty".split()
)


@cache
def digits(number: int) -> Word:
    form = str(number)
    return Word(form, form, "NUM", "CD", "NumForm=Digit|NumType=Card")


@cache
def article(following: str) -> Word:
    """`a` or `an`, by the first sound of the next word."""
    lowered = following.lower()
    if lowered.startswith(("hour", "honest")):
        return AN
    if lowered.startswith(("uni", "use", "euro", "one", "ewe")):
        return A
    return AN if lowered[0] in _VOWELS else A
