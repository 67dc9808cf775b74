"""What a corpus holds, as tables: sizes, lengths, tags, relations, labels, coreference, words.

The counting is `workbench.corpora.describe`; here it becomes tables, of the layers there are. Costs
one reading of the corpus.
"""

import pandas as pd

from workbench.basics.experiments import Describe
from workbench.core.experiment import Caveat, Inputs, Progress, Result
from workbench.corpora.corpus import Corpus
from workbench.corpora.describe import Description, describe
from workbench.corpora.formats import WHOLE


def run(inputs: Inputs, settings: Describe, progress: Progress) -> Result:
    """Count the splits that are looked at."""
    corpus, limit = inputs.corpus, settings.max_sentences
    splits = [inputs.split] if inputs.split else list(corpus.splits)
    left = {split: corpus.docs(split) for split in splits}
    if limit is not None:
        left = {inputs.split or WHOLE: inputs.docs()}
    found = describe(left, lambda done: progress(done, limit, "Docs"), most=settings.words)
    tables = {name: table for name, table in _tables(found).items() if len(table)}
    return Result(tables, caveats=_caveats(corpus, limit))


def _tables(found: Description) -> dict[str, pd.DataFrame]:
    lengths = found.lengths.histogram if found.lengths else ()
    chains = found.coreference
    tags = (("upos", found.upos), ("xpos", found.xpos))
    return {
        "sizes": _frame(
            [(s.split, s.docs, s.documents, s.sentences, s.words, s.types) for s in found.splits],
            "split docs documents sentences words types",
        ),
        "lengths": _frame([(b.first, b.last, b.count) for b in lengths], "first last count"),
        "tags": _frame(
            [(layer, tag, n) for layer, counts in tags for tag, n in counts.items()],
            "layer tag count",
        ),
        "relations": _frame(
            [(r.label, r.count, r.offset, r.share) for r in found.relations],
            "relation count offset share",
        ),
        "labels": _frame(
            [(layer, label, n) for layer, ns in found.labels.items() for label, n in ns.items()],
            "layer label count",
        ),
        "coreference": _frame(
            [("chains", chains.chains), ("mentions", chains.mentions)] if chains else [],
            "what count",
        ),
        "classes": _frame(
            [(name, value, n) for name, ns in found.classes.items() for value, n in ns.items()],
            "label value count",
        ),
        "scores": _frame(
            [(name, s.count, s.min, s.mean, s.max) for name, s in found.scores.items()],
            "label count min mean max",
        ),
        "words": _frame(
            [(word, n, rank) for rank, (word, n) in enumerate(found.words.items(), start=1)],
            "word count rank",
        ),
    }


def _frame(rows: list[tuple[object, ...]], columns: str) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=columns.split())


def _caveats(corpus: Corpus, limit: int | None) -> tuple[Caveat, ...]:
    notes = tuple(Caveat(note) for note in corpus.notes)
    if limit is None:
        return notes
    return (Caveat(f"Only the first {limit:,} Docs were counted.", ("sizes",)), *notes)
