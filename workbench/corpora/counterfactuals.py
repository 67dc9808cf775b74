"""Counterfactual pairs: a clean and a corrupt text, and the word at which their predictions differ.

    pairs, left_out = counterfactual_pairs(wb.read("primer/counterfactuals").docs("test"))

A Doc is one pair. Its texts are `doc.spans["segments"]`, and `doc.spans["predicted"]` has the word
that is right in each: `target` after the clean context, `against` after the corrupt one. They come
from `primer/counterfactuals`, and from tables with the columns clean, corrupt, target and against,
whose place is marked by `___` or `[MASK]`, or is the end of the text.

Minimal pairs are read where their file names a word that both sentences share and that only one
context allows (BLiMP's `two_prefix_word`). In other minimal pairs the contexts are equal and the
predicted words differ, so that nothing could be restored: they are left out and counted. Costs:
only the reading of the stream.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from workbench.core.errors import WorkbenchError
from workbench.corpora.layers import Mention, mentions, set_spans

if TYPE_CHECKING:
    from spacy.tokens import Doc, Span

PREDICTED = "predicted"  # the layer of predicted words
TARGET, AGAINST = "target", "against"  # the labels of its spans, and columns of a table
COLUMNS = ("clean", "corrupt", TARGET, AGAINST)
MARKER = re.compile(r"\[MASK\]|<mask>|<extra_id_\d+>|_{3,}", re.IGNORECASE)
SHARED_WORD = "two_prefix_word"  # BLiMP's name of a word that both sentences share


class Counterfactual(NamedTuple):
    """Two texts, and the word of each that is predicted from its context."""

    clean: "Doc"
    corrupt: "Doc"
    word: int  # of the clean text
    corrupt_word: int  # of the corrupt text
    phenomenon: str
    name: str  # of its document

    @property
    def has_against(self) -> bool:
        """Whether the two contexts predict different words."""
        return self.clean[self.word].text != self.corrupt[self.corrupt_word].text


def counterfactual_pairs(docs: "Iterable[Doc]") -> tuple[list[Counterfactual], Mapping[str, int]]:
    """The counterfactual pairs of these Docs in order, and how many are left out by reason."""
    waiting = iter(docs)
    first = next(waiting, None)
    left_out: Counter[str] = Counter()
    pairs: list[Counterfactual] = []
    if first is not None:
        every = chain([first], waiting)
        is_marked = PREDICTED in first.spans
        pairs = list(map(_marked, every) if is_marked else _of_minimal_pairs(every, left_out))
    if not pairs:
        reasons = "".join(
            f" {count:,} are left out: {why}." for why, count in left_out.items() if count
        )
        raise WorkbenchError(
            f"there are no counterfactual pairs in this corpus.{reasons}",
            code="no-minimal-pairs",
            remedy="Read primer/counterfactuals, a file of BLiMP with two_prefix_word, or a table "
            "with the columns clean, corrupt, target and against.",
        )
    return pairs, left_out


def _marked(doc: "Doc") -> Counterfactual:
    segments = sorted(mentions(doc, "segments")) if "segments" in doc.spans else []
    words = {mention.label: mention.start for mention in mentions(doc, PREDICTED)}
    if len(segments) != 2 or not {TARGET, AGAINST} <= words.keys():
        raise WorkbenchError(
            "this text is no counterfactual pair, unlike the first one.",
            code="no-minimal-pairs",
            where=doc._.document or f"the text {doc.text[:40]!r}",
            remedy="Mark two segments and the predicted word of each in every text.",
        )
    clean, corrupt = (alone(doc[part.start : part.end]) for part in segments)
    return Counterfactual(
        clean,
        corrupt,
        words[TARGET] - segments[0].start,
        words[AGAINST] - segments[1].start,
        phenomenon_of(doc._.labels),
        doc._.document,
    )


def alone(part: "Span") -> "Doc":
    """A text of a pair as its own Doc with words only, without the space after it."""
    from spacy.tokens import Doc

    spaces = [bool(token.whitespace_) for token in part]
    return Doc(part.doc.vocab, [token.text for token in part], [*spaces[:-1], False])


def phenomenon_of(labels: Mapping[str, object]) -> str:
    """The phenomenon of a pair; of BLiMP its `linguistics_term`, else the paradigm or the field."""
    names = ("phenomenon", "linguistics_term", "UID", "field")
    return next((str(labels[name]) for name in names if labels.get(name)), "all")


# --- minimal pairs that share the predicted word --------------------------------------------------

NO_SHARED_WORD = "their file names no word that both sentences share and one context rules out"
NOT_FOUND = "their shared word does not follow the words that differ, at the same place in both"


def _of_minimal_pairs(docs: "Iterable[Doc]", left_out: Counter[str]) -> Iterator[Counterfactual]:
    for doc in docs:
        segments = sorted(mentions(doc, "segments")) if "segments" in doc.spans else []
        shared = str(doc._.labels.get(SHARED_WORD) or "")
        if len(segments) != 2:  # the sentences of a pair are Docs of their own
            left_out[NO_SHARED_WORD] += doc._.labels.get("acceptability") == "acceptable"
        elif not shared:
            left_out[NO_SHARED_WORD] += 1
        else:
            good, bad = (alone(doc[part.start : part.end]) for part in segments)
            word = _after_difference(good, bad, shared)
            if word is None:
                left_out[NOT_FOUND] += 1
            else:
                about = phenomenon_of(doc._.labels), doc._.document
                yield Counterfactual(good, bad, word, word, *about)


def _after_difference(good: "Doc", bad: "Doc", shared: str) -> int | None:
    """Where both sentences have the shared word, after the words in which they differ."""
    if len(good) != len(bad):
        return None
    differ = [one.i for one, other in zip(good, bad, strict=True) if one.text != other.text]
    later = good[differ[-1] + 1 :] if differ else good[:0]
    return next((token.i for token in later if token.text == shared), None)


# --- rows of a table ------------------------------------------------------------------------------


def filled(
    text: str, word: str, column: str, where: str, marker: "re.Pattern[str]" = MARKER
) -> tuple[str, int]:
    """The text with the word in the place of its marker, or at its end; and where it begins."""
    found = [match.span() for match in marker.finditer(text)]
    if len(found) > 1:
        raise WorkbenchError(
            f"the text in column {column!r} has {len(found)} gaps.",
            code="file-format",
            where=where,
            remedy="Mark one word with ___ or [MASK], or none: the gap is then after the text.",
        )
    if not found:
        return f"{text} {word}", len(text) + 1
    ((start, end),) = found
    return text[:start] + word + text[end:], start


def mark_predicted(doc: "Doc", starts: Sequence[int], words: Sequence[str], where: str) -> None:
    """Mark the predicted words of a pair, given where they begin in its two texts."""
    found = []
    for part, start, word, label in zip(
        doc.spans["segments"], starts, words, (TARGET, AGAINST), strict=True
    ):
        begin = part.start_char + start
        later = [token for token in part if token.idx + len(token) > begin]
        if later[0].idx != begin or later[0].text != word:
            shown = [token.text for token in later if token.idx < begin + len(word)]
            raise WorkbenchError(
                f"{label} is {word!r:.40}, which is not one word of its text: the words there are "
                f"{' · '.join(shown)}.",
                code="file-format",
                where=where,
                remedy="Write one word, without punctuation, and put white space around its place.",
            )
        found.append(Mention(later[0].i, later[0].i + 1, label))
    set_spans(doc, PREDICTED, found)


def check_row(values: Mapping[str, str], where: str) -> None:
    """Raise if the two contexts, or the two words, of a row are equal or empty."""
    for name in COLUMNS:
        if not values[name]:
            raise WorkbenchError(
                f"there is no text in column {name!r}.",
                code="file-format",
                where=where,
                remedy="Write both texts and both words in every row.",
            )
    for one, other in (COLUMNS[:2], COLUMNS[2:]):
        if values[one] == values[other]:
            raise WorkbenchError(
                f"{one} and {other} are both {values[one]!r:.60}.",
                code="file-format",
                where=where,
                remedy="Write two texts of which each makes another word right.",
            )
    marked = [MARKER.search(values[name]) is not None for name in COLUMNS[:2]]
    if marked[0] != marked[1]:
        raise WorkbenchError(
            "only one of the two texts has a hidden word.",
            code="file-format",
            where=where,
            remedy="Mark the predicted word with ___ or [MASK] in both texts, or in neither.",
        )
