"""False claims of the pruning experiments about random weights.

A claim is a verdict column of a table, or a p-value under .05. Each function takes a random twin, a
corpus with `train`, `dev` and `test` (some hundred sentences) and a seed, and returns the claims
tried, the false ones, and the level at which the experiment makes them; the gate pools them over
twins.

What is false? A random model has learnt nothing, but its loss does change a little with every head,
so "the loss changes without this head" can be true of it. There are three kinds of claims:

- *knowledge* (`matters`, `better`): the head, order or gates matter to what the model has learnt.
  Of random weights each such claim is false.
- *replication* (p-values of a difference): the loss of the model changes in this direction. False
  where the direction is not confirmed on other texts, several times as many. The p-values are
  corrected over all heads, so a family (one table of one twin) is one try.
- *calibration*: families in which there is nothing to find: differences of a twin's own heads less
  their mean over all texts, and random orders tested against other random orders. Any claim is
  false, and they come at the level if the tests are exact.

`head-importance` makes no claim beyond its baseline. The findings of all four experiments are
claims of knowledge too: those with a null must not be supported. Costs some seconds a twin.
"""

from typing import Any

import numpy as np

from tests.judges.odd import run_here
from workbench import Corpus
from workbench.analyses.pruning.ablation import ablated
from workbench.analyses.pruning.evaluation import build_head_evaluation
from workbench.analyses.pruning.head_masks import heads_of
from workbench.core.stats import SIGNIFICANT, prediction_p_value, sign_flip_p_values
from workbench.experiment.definition import EXPERIMENTS
from workbench.models.attention_hooks import is_special

Claims = tuple[int, int, float]
FEW = 30  # texts that a claim is made on
DRAWS = 10  # samples of texts for calibration
GATES: dict[str, Any] = {"lambdas": [0.003], "budgets": [0.5], "steps": 12, "batch_size": 8}
ORDERS = 6  # one random order, tested against as many others as there are by default


def baseline(twin: Any, corpus: Corpus, seed: int) -> Claims:
    """`head-importance`: the model is better than its trivial baseline."""
    table = run_here("head-importance", twin, corpus, seed, max_sentences=FEW).tables["baseline"]
    return len(table), int(table["better"].sum()), 0.025  # one side of a 95 % interval


def ablation(twin: Any, corpus: Corpus, seed: int) -> Claims:
    """`head-ablation`: this head matters (knowledge)."""
    table = run_here(
        "head-ablation", twin, corpus, seed, max_sentences=FEW,
        replacement="zero" if is_special(twin.family) else "all",
    ).tables["ablation"]  # fmt: skip
    families = table.groupby(["mode", "metric"])["matters"].any()
    return len(families), int(families.sum()), SIGNIFICANT


def ablation_signs(twin: Any, corpus: Corpus, seed: int) -> Claims:
    """`head-ablation`: the loss changes without this head, or these two (replication)."""
    settings = {"replacement": "zero", "pairs": "layer"}
    few, many = _halves(corpus)
    one, other = (
        run_here("head-ablation", twin, half, seed, **settings).tables for half in (few, many)
    )
    false = 0
    for name, value in (("ablation", "delta"), ("pairs", "interaction")):
        own, again = (
            table.query("metric == 'loss'") if name == "ablation" else table
            for table in (one[name], other[name])
        )
        sure = (own["p_value"] < SIGNIFICANT).to_numpy()
        turned = np.sign(own[value].to_numpy()) != np.sign(again[value].to_numpy())
        false += bool((sure & turned).any())
    return 2, false, SIGNIFICANT


def ablation_calibration(twin: Any, corpus: Corpus, seed: int) -> Claims:
    """p-values over all heads where no head changes the loss: any is false (calibration)."""
    evaluation = build_head_evaluation(twin, list(corpus.docs("train", 4 * FEW)), "", seed)
    sets = [[head] for head in heads_of(evaluation.model)]
    apart = ablated(evaluation.model, evaluation.aim, evaluation.questions, sets).differences(
        "loss"
    )
    apart = apart - apart.mean(0)
    random = np.random.default_rng(seed)
    false = 0
    for draw in range(DRAWS):
        some = random.choice(len(apart), FEW, replace=False)
        false += bool((sign_flip_p_values(apart[some], draw) < SIGNIFICANT).any())
    return DRAWS, false, SIGNIFICANT


def pruning(twin: Any, corpus: Corpus, seed: int) -> Claims:
    """`head-pruning`: this order is better than random ones (knowledge)."""
    table = _pruned(twin, corpus, seed, recovery_steps=0, max_test=FEW).tables["summary"]
    families = table.groupby("metric")["better"].any()
    return len(families), int(families.sum()), SIGNIFICANT


def pruning_kept(twin: Any, corpus: Corpus, seed: int) -> Claims:
    """`head-pruning`: the model is worse, or better, after pruning and tuning (replication)."""
    few, many = _halves(corpus)
    one, other = (
        _pruned(twin, half, seed, recovery_steps=4, methods=["random"], random_orders=1).tables[
            "kept"
        ]
        for half in (few, many)
    )
    sure = (one["p_value"] < SIGNIFICANT).to_numpy()
    turned = np.sign(one["delta"].to_numpy()) != np.sign(other["delta"].to_numpy())
    families = (sure & turned).reshape(2, -1).any(1)  # a metric each
    return len(families), int(families.sum()), SIGNIFICANT


def pruning_calibration(twin: Any, corpus: Corpus, seed: int) -> Claims:
    """One random order tested against the others is better by chance alone (calibration)."""
    settings = {"methods": ["random"], "random_orders": 2 * ORDERS, "recovery_steps": 0}
    found = _pruned(twin, corpus, seed, max_test=FEW, **settings).tables
    areas = found["summary"].query("metric == 'loss'")["area"].to_numpy()
    p = [prediction_p_value(each[0], each[1:]) for each in np.split(areas, 2)]
    return 2, sum(value < SIGNIFICANT for value in p), SIGNIFICANT


def gates(twin: Any, corpus: Corpus, seed: int) -> Claims:
    """`head-gates`: the kept heads are better than random ones (knowledge)."""
    table = run_here("head-gates", twin, corpus, seed, max_sentences=FEW, **GATES).tables[
        "survival"
    ]
    families = table.groupby("metric")["better"].any()
    return len(families), int(families.sum()), SIGNIFICANT


def findings(twin: Any, corpus: Corpus, seed: int) -> Claims:
    """The findings of each experiment: some finding with a null is supported (knowledge)."""
    few = {"max_sentences": FEW}
    tables = {
        "head-importance": run_here("head-importance", twin, corpus, seed, **few).tables,
        "head-ablation": run_here("head-ablation", twin, corpus, seed, pairs="layer", **few).tables,
        "head-gates": run_here("head-gates", twin, corpus, seed, **GATES, **few).tables,
        "head-pruning": _pruned(twin, corpus, seed, recovery_steps=4, max_test=FEW).tables,
    }
    false = sum(
        any(
            each.null is not None and each.verdict == "supported"
            for each in EXPERIMENTS[name].findings_of(found)
        )
        for name, found in tables.items()
    )
    return len(tables), false, SIGNIFICANT


def compressed(twin: Any, corpus: Corpus, seed: int) -> Claims:
    """`compress`: some finding is supported (knowledge)."""
    tables = run_here(
        "compress", twin, corpus, seed, max_sentences=FEW, amounts=(0.5,), rounds=0, max_pairs=0,
        methods=("weights", "neurons", "layers"), random_orders=3,
    ).tables  # fmt: skip
    found = EXPERIMENTS["compress"].findings_of(tables)
    return 1, int(any(each.verdict == "supported" for each in found)), 0.025  # as `baseline`


CLAIMS = (
    baseline, ablation, ablation_signs, ablation_calibration, pruning, pruning_kept,
    pruning_calibration, gates, findings, compressed,
)  # fmt: skip


def _pruned(twin: Any, corpus: Corpus, seed: int, **settings: Any) -> Any:
    return run_here(
        "head-pruning",
        twin,
        corpus,
        seed,
        **{
            "steps": 2,
            "selection_texts": 15,
            "batch_size": 8,
            "prune_by": "magnitude",
            **settings,
        },
    )


def _halves(corpus: Corpus) -> tuple[Corpus, Corpus]:
    """The same train and dev; few test texts, and three times as many others."""
    docs = list(corpus.docs("test", 4 * FEW))
    return tuple(  # type: ignore[return-value]
        Corpus(
            corpus.name,
            {
                **{name: _reader(list(corpus.docs(name, 2 * FEW))) for name in ("train", "dev")},
                "test": _reader(part),
            },
        )
        for part in (docs[:FEW], docs[FEW:])
    )


def _reader(docs: list[Any]) -> Any:
    return lambda: iter(docs)
