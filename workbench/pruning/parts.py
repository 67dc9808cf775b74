"""Texts to choose heads and learn by, and other texts to measure on.

Costs reading the corpus.
"""

from typing import TYPE_CHECKING

from workbench.errors import WorkbenchError
from workbench.experiment import HELD_OUT, TRAIN

if TYPE_CHECKING:
    from spacy.tokens import Doc

    from workbench.corpora.corpus import Corpus


def parts_of(
    corpus: "Corpus", split: str | None, limit: int | None, most: int
) -> "tuple[list[Doc], list[Doc]]":
    """So many texts of the train split, or of another; and the held-out split, or the one named.

    A corpus without parts is halved.
    """
    measured = split or next((name for name in HELD_OUT if name in corpus.splits), None)
    others = [name for name in (*TRAIN, *corpus.splits) if name in corpus.splits]
    learnt = next((name for name in others if name != measured), None)
    if measured is not None and learnt is not None:
        return list(corpus.docs(learnt, most)), list(corpus.docs(measured, limit))
    whole = list(corpus.docs(measured, limit))
    if len(whole) < 2:
        raise WorkbenchError(
            "two texts at least are needed, to choose heads by one and to measure on the other.",
            where=corpus.name,
            remedy="Name a corpus that has more.",
        )
    middle = len(whole) // 2
    return whole[:middle][:most], whole[middle:]
