"""Which texts are scored, so that no training has read them.

A corpus with a train split and another is trained on the one and scored on the other. Of any other
corpus the last texts are scored: they lie at the end of what `train` reads, which a training holds
out. How much is held out is set from the bytes of the text, before there is a tokenizer, and with
room; after the trainings, the pieces of those texts are counted with each tokenizer, and texts that
do not lie wholly within the held-out end are left out. Costs: reading the text once.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from io import StringIO
from typing import TYPE_CHECKING, NamedTuple

from transformers import PreTrainedTokenizerBase

from workbench.analyses.training.batches import n_held_out
from workbench.analyses.training.experiments import Training
from workbench.analyses.training.token_store import lines_of
from workbench.analyses.training.training_run import text_of
from workbench.analyses.training.vocabulary import vocabulary_of
from workbench.core.errors import WorkbenchError
from workbench.corpora import read
from workbench.corpora.corpus import Options
from workbench.corpora.splits import DEV, TEST, TRAIN
from workbench.experiment.definition import Inputs

if TYPE_CHECKING:
    from spacy.tokens import Doc

    from workbench.corpora import Corpus

SHARE = 0.1  # of a text without a split of its own for it, at most, is scored
ROOM = 1.5  # times the bytes of the scored texts are held out
HELD_OUT: float = Training.model_fields["held_out_fraction"].default
ENDS = 2  # pieces that may stand between two lines, such as the end of a document


class Ending(NamedTuple):
    """The end of the text that is trained on: its last lines, and the line of each scored text."""

    lines: tuple[str, ...]
    line_of: tuple[int, ...]


@dataclass(frozen=True)
class Text:
    """What is trained on, and the texts that are scored."""

    corpus: "Corpus"
    trained_on: str | None  # its split; None: all of it
    scored_on: str | None  # its split; None: the end of what is trained on
    docs: "tuple[Doc, ...]"
    held_out_fraction: float = HELD_OUT  # of the trainings on it
    ending: Ending | None = None  # None if a split of its own is scored

    def unseen(
        self, trainings: Iterable[tuple[PreTrainedTokenizerBase, int]], length: int
    ) -> "Text":
        """The same, with only texts that no training has read.

        `trainings` are the tokenizer and the number of pieces of the text in each training on it;
        `length` is that of their sequences.
        """
        if self.ending is None:
            return self
        n_lines = min(
            (self._lines_held_out(*each, length) for each in trainings),
            default=len(self.ending.lines),
        )
        first = len(self.ending.lines) - n_lines
        kept = [n for n, line in enumerate(self.ending.line_of) if line >= first]
        if not kept:
            raise WorkbenchError(
                "the text is too short to hold out a text that can be scored.",
                code="text-too-short",
                where=self.corpus.name,
                remedy="Give more text, or a corpus with a train and a test split.",
            )
        ending = Ending(
            self.ending.lines[first:], tuple(self.ending.line_of[n] - first for n in kept)
        )
        return replace(self, docs=tuple(self.docs[n] for n in kept), ending=ending)

    def _lines_held_out(self, tokenizer: PreTrainedTokenizerBase, tokens: int, length: int) -> int:
        """How many of the last lines lie wholly in the held-out end of a training."""
        assert self.ending is not None
        vocabulary = vocabulary_of(tokenizer)
        content = length - len(vocabulary.before) - len(vocabulary.after)
        n_sequences = tokens // content
        n_trained_on = n_sequences - n_held_out(n_sequences, length, self.held_out_fraction)
        room = tokens - n_trained_on * content
        n_lines = 0
        for line in reversed(self.ending.lines):
            ids = tokenizer(f"{line}\n", add_special_tokens=False, verbose=False)["input_ids"]
            room -= len(ids) + ENDS
            if room < 0:
                break
            n_lines += 1
        return n_lines


def text_to_train_on(corpus: "Corpus", split: str | None, max_texts: int) -> Text:
    """What of a corpus is trained on, and at most `max_texts` texts that are scored.

    `split` is the one to score, if the corpus has it.
    """
    trained_on = TRAIN if TRAIN in corpus.splits else None
    others = [name for name in (split, TEST, DEV) if name in corpus.splits and name != TRAIN]
    if trained_on and others:
        docs = tuple(corpus.docs(others[0], max_texts))
        return Text(corpus, trained_on, others[0], docs)
    return _with_ending(corpus, trained_on, max_texts)


def _with_ending(corpus: "Corpus", trained_on: str | None, max_texts: int) -> Text:
    """The text with its last lines, which hold out `max_texts` sentences or fewer."""
    last: deque[str] = deque(maxlen=max_texts)
    n_lines = n_bytes = 0
    for line in lines_of(text_of(Inputs(corpora=(corpus,), split=trained_on))):
        if line := line.strip():
            last.append(line)
            n_lines += 1
            n_bytes += len(line.encode())
    lines = list(last)[-max(1, int(SHARE * n_lines)) :]
    docs, line_of = _sentences(corpus, lines)
    docs, line_of = docs[-max_texts:], line_of[-max_texts:]
    if not docs:
        raise WorkbenchError(
            "the text is empty.",
            code="empty-text",
            where=corpus.name,
            remedy="Name a corpus with text.",
        )
    first = line_of[0]
    ending = Ending(tuple(lines[first:]), tuple(line - first for line in line_of))
    share = sum(len(line.encode()) for line in ending.lines) / n_bytes
    fraction = min(0.5, max(HELD_OUT, ROOM * share))
    return Text(corpus, trained_on, None, tuple(docs), fraction, ending)


def _sentences(corpus: "Corpus", lines: Sequence[str]) -> "tuple[list[Doc], list[int]]":
    """The sentences of some lines, as text files are read, and the line of each."""
    options = corpus.origin.options if corpus.origin else Options()
    opened = read(StringIO("\n".join(lines)), pipeline=options.pipeline, language=options.language)
    docs = list(opened.docs())
    return docs, [int(doc._.sent_ids[0].partition(".")[0]) - 1 for doc in docs]
