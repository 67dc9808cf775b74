"""Claims of `cloze`, `few-shot`, `text-to-text` and `retrieve` about random weights, for the gate.

Some findings are true of any weights, and no claims that a model knows anything: that the order of
demonstrations moves predictions, that BM25 finds passages, that training a bi-encoder helps it, and
that a longer text before an answer moves its probability. A twin that an experiment refuses claims
nothing. Costs: some ten seconds for each twin of the built-in models.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import workbench as wb
from tests.judges.odd import run_here
from tests.judges.twins_facts import LEVEL, Claims
from workbench import Corpus
from workbench.experiment.definition import EXPERIMENTS
from workbench.models.references import facts

RUNS: dict[str, tuple[str, dict[str, Any]]] = {  # by experiment: the corpus and the settings
    "cloze": ("primer/counterfactuals", {"max_sentences": 60}),
    "few-shot": (
        "primer/sentiment",
        {
            "max_sentences": 40, "shots": (2,), "seeds": (0, 1), "orders": 2, "attributed": 6,
            "templates": ("{text} {label}.",), "label_words": ("negative=sad; positive=happy",),
        },
    ),
    "text-to-text": ("primer/rewrites", {"max_sentences": 30, "max_pieces": 6, "attributed": 2}),
    "retrieve": (
        "primer:size=600",
        {"retrievers": ("bm25", "states"), "questions": 40, "k": 2, "attributed": 4},
    ),
}  # fmt: skip
TRUE_OF_ANY = {
    "few-shot": ("texts whose prediction depends on the order",),
    "retrieve": (
        "passage found first", "gain: RAG-sequence over none", "gain: RAG-token over RAG-sequence",
    ),
}  # fmt: skip


def claims(experiment: str, twin: Any, corpus: Corpus, seed: int) -> Claims:
    """Findings with a null that are not true of any weights."""
    known = facts(twin, hashed=False)
    if not all(need.met(known) for need in EXPERIMENTS[experiment].needs):
        return 0, 0, LEVEL
    ref, settings = RUNS[experiment]
    try:
        tables = run_here(experiment, twin, wb.read(ref), seed=seed, **settings).tables
    except wb.WorkbenchError as error:
        assert error.code in ("model-unsupported", "prompt-too-long"), error
        return 0, 0, LEVEL
    tried = [
        each for each in EXPERIMENTS[experiment].findings_of(tables)
        if each.null is not None and each.measure not in TRUE_OF_ANY.get(experiment, ())
    ]  # fmt: skip
    return len(tried), sum(each.verdict == "supported" for each in tried), LEVEL


CLAIMS: dict[str, Callable[[Any, Corpus, int], Claims]] = {
    name: partial(claims, name) for name in RUNS
}
