"""Which head follows which relation best: the one question of `heads` that others ask too.

Costs a forward pass over the documents, with shuffled trees beside.
"""

from collections.abc import Sequence

import pandas as pd
from spacy.tokens import Doc

from workbench.corpora.encode import encode
from workbench.engine.model import Model
from workbench.heads import tables
from workbench.heads.gold import gold_of
from workbench.heads.looking import Asking, look
from workbench.heads.roles import Rules


def followed(model: Model, docs: Sequence[Doc], least: int = 30) -> pd.DataFrame:
    """Of each relation and direction of so many words at least, the best head of the model."""
    gold = gold_of(docs)
    answers = look(model, encode(docs), gold, Asking())
    found = tables.relations(answers, tables.sums_of(answers, gold), gold, Rules(), least)
    return tables.best(found, least)
