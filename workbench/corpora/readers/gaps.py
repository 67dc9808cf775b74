"""Cloze files as they are published: a gap in a text, and the words to choose from.

| file | columns, or form |
|---|---|
| any table | `text` with `___` or `[MASK]`, `answer`; maybe `options` (a list, or joined by `|`) |
| WinoGrande | `sentence` with `_`, `option1`, `option2`, `answer` (1 or 2) |
| WinoGender | `sentid` (occupation, other person, which of them, gender) and `sentence` |
| LAMA | `masked_sentences` with `[MASK]`, `obj_label`, `sub_label` |
| Children's Book Test | blocks of 21 numbered lines, the last one with `XXXXX`, a word, ten words |

A text without a gap has it at its end. The subject of a fact and the passage of a question are
marked too, for the null without them. Costs: the reading of the stream.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from spacy.language import Language
from spacy.tokens import Doc

from workbench.core.errors import WorkbenchError
from workbench.core.files import numbered_lines, stem
from workbench.corpora.cloze import GAP, OPTIONS, PAIR, PASSAGE, SEPARATOR
from workbench.corpora.counterfactuals import filled
from workbench.corpora.layers import Mention, set_spans

MARK = re.compile(r"\[MASK\]|<mask>|XXXXX|(?<!\w)_+(?!\w)", re.IGNORECASE)
READ = "Each text has a gap, for the experiment cloze."
QUESTION = 21  # the line of a block of the Children's Book Test that has the question
_NUMBERED = re.compile(r"(\d+) (.*)")
_PRONOUN = re.compile(r"\b(?:she|he|they|her|him|them|his|their)\b", re.IGNORECASE)
_POSSESSIVE = re.compile(
    r"(?:his|their)\b|her (?!and|as|at|for|in|on|that|to|with)\w", re.IGNORECASE
)

Values = Mapping[str, object]


class Gap(NamedTuple):
    """One item as text, in characters of its text."""

    text: str  # with a mark, or none: the gap is at its end
    answer: str
    options: tuple[str, ...] = ()
    passage: str = ""  # the part that the null leaves out
    labels: Mapping[str, str] = {}


def gap_of(values: Values) -> Callable[[Values, str], Gap] | None:
    """How a row with these columns is read; None if it is no cloze item."""
    names = values.keys()
    for known, read in _FORMS:
        if set(known) <= names:
            return read
    marked = MARK.search(str(values["text"])) if {"text", "answer"} <= names else None
    return _plain if marked and len(marked[0]) > 1 else None  # a single _ may be part of a text


def docs(gaps: Iterable[tuple[str, Gap]], document: str, nlp: Language) -> Iterator[Doc]:
    """One Doc of each item, given where it stands."""
    for where, gap in gaps:
        if not gap.answer or (gap.options and gap.answer not in gap.options):
            raise _wrong(f"the answer {gap.answer!r:.40} is not one of the options.", where)
        text, start = filled(gap.text, gap.answer, "text", where, MARK)
        doc = nlp(text)
        words = [
            token.i for token in doc if start < token.idx + len(token) <= start + len(gap.answer)
        ]
        if not words or doc[words[0]].idx != start:
            raise _wrong(f"{gap.answer!r:.40} is not whole words of its text.", where)
        set_spans(doc, GAP, [Mention(words[0], words[-1] + 1, GAP)])
        place = text.find(gap.passage) if gap.passage else -1
        inside = (
            [t.i for t in doc if place <= t.idx < place + len(gap.passage)] if place >= 0 else []
        )
        if inside and not set(inside) & set(words):
            set_spans(doc, PASSAGE, [Mention(inside[0], inside[-1] + 1, PASSAGE)])
        doc._.document = document
        doc._.labels = dict(gap.labels)
        if gap.options:
            doc._.labels[OPTIONS] = SEPARATOR.join(gap.options)
        yield doc


def _wrong(what: str, where: str) -> WorkbenchError:
    return WorkbenchError(
        what,
        code="file-format",
        where=where,
        remedy="Mark one gap with ___ or [MASK], and write the right words as one of the options, "
        "which are a list, or joined by |, as in is|are.",
    )


# --- forms ----------------------------------------------------------------------------------------


def _plain(values: Values, where: str) -> Gap:
    given = values.get("options") or ""
    options = given if isinstance(given, list) else str(given).split(SEPARATOR.strip())
    answer = _words(values["answer"])
    listed = tuple(filter(None, map(_words, options)))
    if answer.isdecimal() and answer not in listed and int(answer) < len(listed):
        answer = listed[int(answer)]
    return Gap(
        _words(values["text"]), answer, listed, _words(values.get("passage", "")),
        {name: _words(values[name]) for name in ("phenomenon", PAIR) if values.get(name)},
    )  # fmt: skip


def _winogrande(values: Values, where: str) -> Gap:
    options = tuple(_words(values[name]) for name in ("option1", "option2"))
    if (answer := _words(values["answer"])) not in ("1", "2"):
        raise _wrong(f"the answer is {answer!r:.20}, not 1 or 2.", where)
    # the two sentences of a pair differ in one word: `qID` is the same but for its last part
    pair = _words(values.get("qID", "")).rpartition("-")[0]
    return Gap(
        _words(values["sentence"]), options[int(answer) - 1], options,
        labels={PAIR: pair} if pair else {},
    )  # fmt: skip


def _winogender(values: Values, where: str) -> Gap:
    """The pronoun is the gap, and one of the two persons belongs there."""
    parts = _words(values["sentid"]).removesuffix(".txt").split(".")
    text = _words(values["sentence"])
    pronouns = [*_PRONOUN.finditer(text)]
    if len(parts) != 4 or parts[2] not in ("0", "1") or len(pronouns) != 1:
        raise _wrong("this is no sentence of WinoGender with one pronoun.", where)
    occupation, other, answer, gender = parts
    start, end = pronouns[0].span()
    owner = "'s" if _POSSESSIVE.match(text, start) else ""
    people = [f"the {occupation}", other if other == "someone" else f"the {other}"]
    options = [person + owner for person in people]
    if start == 0:
        options = [option[0].upper() + option[1:] for option in options]
    return Gap(
        f"{text[:start]}___{text[end:]}", options[int(answer)], tuple(options),
        labels={"phenomenon": gender, PAIR: f"{occupation} {other} {gender}"},
    )  # fmt: skip


def _lama(values: Values, where: str) -> Gap:
    sentences = values["masked_sentences"]
    text = " ".join(map(str, sentences)) if isinstance(sentences, list) else str(sentences)
    relation = _words(values.get("pred", values.get("predicate_id", "")))
    return Gap(
        _words(text), _words(values["obj_label"]), (), _words(values.get("sub_label", "")),
        {"phenomenon": relation} if relation else {},
    )  # fmt: skip


_FORMS: tuple[tuple[tuple[str, ...], Callable[[Values, str], Gap]], ...] = (
    (("sentence", "option1", "option2", "answer"), _winogrande),
    (("sentid", "sentence"), _winogender),
    (("masked_sentences", "obj_label"), _lama),
    (("text", "options", "answer"), _plain),
)


def _words(value: object) -> str:
    return " ".join(str(value).split())


# --- the Children's Book Test ---------------------------------------------------------------------


def is_childrens_book_test(path: Path) -> bool:
    """Whether the first lines of a text file are numbered, and the 21st asks for a word."""
    for number, (_, line) in enumerate(numbered_lines(path), start=1):
        found = _NUMBERED.match(line)
        if not found or int(found[1]) != number:
            return False
        if number == QUESTION:
            return "XXXXX" in line and line.count("\t") >= 2
    return False


def childrens_book_test(path: Path, nlp: Language) -> Iterator[Doc]:
    """One Doc for each block: a passage of twenty sentences, and a question."""
    return docs(_blocks(path), stem(path), nlp)


def _blocks(path: Path) -> Iterator[tuple[str, Gap]]:
    passage: list[str] = []
    for number, line in numbered_lines(path):
        if not line.strip():
            continue
        found = _NUMBERED.match(line)
        if found is None:
            raise _wrong("this line has no number.", f"{path}:{number}")
        if int(found[1]) < QUESTION:
            passage = [*passage, _words(found[2])] if int(found[1]) > 1 else [_words(found[2])]
            continue
        question, answer, *rest = found[2].split("\t")
        options = tuple(dict.fromkeys(filter(None, (rest[-1] if rest else "").split("|"))))
        text = " ".join(passage)
        yield f"{path}:{number}", Gap(f"{text} {_words(question)}", answer, options, text)
