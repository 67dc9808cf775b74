"""What each head looks at in some sentences, word by word: the evidence behind its scores.

Costs a row for each of their words and each head.
"""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from spacy.tokens import Doc

from workbench.engine.taps import Site
from workbench.heads.few import Few, Seen
from workbench.heads.gold import relation_of
from workbench.heads.looks import NOWHERE

SAID = ("stack", "kind", "layer", "head", "sentence", "word", "looks_at", "weight")
WORDS = ("sentence", "word", "text", "start", "governor", "relation")


def looks(found: Few) -> pd.DataFrame:
    """Where every word looks, by head and sentence."""
    documents = sorted({document for _, document in found.seen})
    if not documents:
        return pd.DataFrame(columns=SAID)
    parts = [_of_site(site, {d: found.seen[site, d] for d in documents}) for site in found.sites]
    return pd.DataFrame({name: np.concatenate([part[name] for part in parts]) for name in SAID})


def _of_site(site: Site, seen: Mapping[int, Seen]) -> dict[str, np.ndarray]:
    """The columns of a site's heads, one after the other."""
    places = {document: np.flatnonzero(each.there.numpy()) for document, each in seen.items()}
    word = np.concatenate([*places.values()])  # [words], of all documents
    sentence = np.repeat([*places], [len(own) for own in places.values()])
    other = np.concatenate([seen[d].other[:, own].numpy() for d, own in places.items()], 1)
    weight = np.concatenate([seen[d].weight[:, own].numpy() for d, own in places.items()], 1)
    columns = {
        "stack": site.stack,
        "kind": site.kind,
        "layer": site.layer,
        "head": np.arange(site.heads)[:, None],
        "sentence": sentence,
        "word": word,
        "looks_at": other,
        "weight": np.where(other == NOWHERE, 0.0, weight.astype(float)),
    }
    return {name: np.broadcast_to(each, other.shape).ravel() for name, each in columns.items()}


def words(docs: Mapping[int, Doc], subtypes: bool) -> pd.DataFrame:
    """The words of these documents, by their place in the corpus, with their gold.

    A governor of -1 is none that counts.
    """
    rows = [
        (number, token.i, token.text, token.idx,
         token.head.i if (name := relation_of(token.dep_, subtypes)) else NOWHERE, name)
        for number, doc in docs.items()
        for token in doc
    ]  # fmt: skip
    return pd.DataFrame(rows, columns=WORDS)
