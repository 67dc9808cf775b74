"""What each head looks at in some sentences, word by word: the evidence behind its scores.

Costs a row for each of their words and each head.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from spacy.tokens import Doc

from workbench.heads.few import Few
from workbench.heads.gold import relation_of
from workbench.heads.looks import NOWHERE

SAID = ("stack", "kind", "layer", "head", "sentence", "word", "looks_at", "weight")
WORDS = ("sentence", "word", "text", "start", "governor", "relation")


def looks(found: Few) -> pd.DataFrame:
    """Where every word looks, by head and sentence."""
    parts = []
    for (site, document), seen in found.seen.items():
        words = np.flatnonzero(seen.there.numpy())
        other = seen.other[:, words].numpy()  # [heads, words]
        weight = np.where(other == NOWHERE, 0.0, seen.weight[:, words].numpy())
        part = pd.DataFrame(
            {
                "layer": site.layer,
                "head": np.repeat(np.arange(site.heads), len(words)),
                "sentence": document,
                "word": np.tile(words, site.heads),
                "looks_at": other.ravel(),
                "weight": weight.ravel().astype(float),
            }
        )
        parts.append(part.assign(stack=site.stack, kind=site.kind))
    if not parts:
        return pd.DataFrame(columns=SAID)
    whole = pd.concat(parts, ignore_index=True)[list(SAID)]
    order = {site: place for place, site in enumerate(dict.fromkeys(s for s, _ in found.seen))}
    place = {(s.stack, s.kind, s.layer): n for s, n in order.items()}
    keys = zip(whole["stack"], whole["kind"], whole["layer"], strict=True)
    whole["place"] = [place[key] for key in keys]
    ordered = whole.sort_values(["place", "head", "sentence", "word"], ignore_index=True)
    return ordered[list(SAID)]


def words(docs: Sequence[Doc], subtypes: bool) -> pd.DataFrame:
    """The words of these documents with their gold; a governor of -1 is none that counts."""
    rows = [
        (number, token.i, token.text, token.idx,
         token.head.i if (name := relation_of(token.dep_, subtypes)) else NOWHERE, name)
        for number, doc in enumerate(docs)
        for token in doc
    ]  # fmt: skip
    return pd.DataFrame(rows, columns=WORDS)
