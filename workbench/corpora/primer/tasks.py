"""The tasks of the primer by name: endless streams of items, in groups that stay together."""

from collections.abc import Callable, Iterator, Mapping

from workbench.corpora.primer.acceptability import acceptability
from workbench.corpora.primer.draw import Draw
from workbench.corpora.primer.item import Item
from workbench.corpora.primer.pairs import entailment, paraphrase, relatedness
from workbench.corpora.primer.questions import questions
from workbench.corpora.primer.sentiment import sentiment

TASKS: Mapping[str, Callable[[Draw], Iterator[tuple[Item, ...]]]] = {
    "acceptability": acceptability,
    "entailment": entailment,
    "paraphrase": paraphrase,
    "questions": questions,
    "relatedness": relatedness,
    "sentiment": sentiment,
}
