"""Contents of a corpus: the experiment `describe`.

`workbench.corpora.describe` counts; here the counts become tables, one for each layer that the
corpus has. Costs: one pass over the corpus.
"""

import pandas as pd

from workbench.analyses.basics.experiments import Describe
from workbench.corpora.corpus import Corpus
from workbench.corpora.describe import Description, describe
from workbench.corpora.formats import WHOLE
from workbench.experiment.definition import Caveat, Inputs, Progress, Result


def run(inputs: Inputs, settings: Describe, progress: Progress) -> Result:
    """Compute the tables of `describe`."""
    corpus, max_sentences = inputs.corpus, settings.max_sentences
    splits = [inputs.split] if inputs.split else list(corpus.splits)
    docs = {split: corpus.docs(split) for split in splits}
    if max_sentences is not None:
        docs = {inputs.split or WHOLE: inputs.docs()}
    description = describe(
        docs,
        lambda done: progress(done, max_sentences, "reading the corpus"),
        most=settings.max_words,
    )
    tables = {name: table for name, table in _tables(description).items() if len(table)}
    return Result(tables, caveats=_caveats(corpus, max_sentences))


def _tables(description: Description) -> dict[str, pd.DataFrame]:
    lengths = description.lengths.histogram if description.lengths else ()
    chains = description.coreference
    tags = (("upos", description.upos), ("xpos", description.xpos))
    return {
        "sizes": _frame(
            [
                (s.split, s.docs, s.documents, s.sentences, s.words, s.types)
                for s in description.splits
            ],
            "split docs documents sentences words types",
        ),
        "lengths": _frame([(b.first, b.last, b.count) for b in lengths], "first last count"),
        "tags": _frame(
            [(layer, tag, n) for layer, counts in tags for tag, n in counts.items()],
            "layer tag count",
        ),
        "relations": _frame(
            [(r.label, r.count, r.offset, r.share) for r in description.relations],
            "relation count offset share",
        ),
        "labels": _frame(
            [
                (layer, label, n)
                for layer, ns in description.labels.items()
                for label, n in ns.items()
            ],
            "layer label count",
        ),
        "coreference": _frame(
            [("chains", chains.chains), ("mentions", chains.mentions)] if chains else [],
            "what count",
        ),
        "classes": _frame(
            [
                (name, value, n)
                for name, ns in description.classes.items()
                for value, n in ns.items()
            ],
            "label value count",
        ),
        "scores": _frame(
            [(name, s.count, s.min, s.mean, s.max) for name, s in description.scores.items()],
            "label count min mean max",
        ),
        "words": _frame(
            [(word, n, rank) for rank, (word, n) in enumerate(description.words.items(), start=1)],
            "word count rank",
        ),
    }


def _frame(rows: list[tuple[object, ...]], columns: str) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=columns.split())


def _caveats(corpus: Corpus, max_sentences: int | None) -> tuple[Caveat, ...]:
    notes = tuple(Caveat(note) for note in corpus.notes)
    if max_sentences is None:
        return notes
    return (Caveat(f"Only the first {max_sentences:,} Docs are counted.", ("sizes",)), *notes)
