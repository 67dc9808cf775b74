"""What `frozen-vs-finetuned` and `drift` claim where there is nothing to claim.

Each function gets a random twin, a corpus and a seed and returns how many claims were tried, how
many false ones were made, and the level they were made at. Costs seconds each with a tiny twin.
"""

import random
from typing import Any

from tests.judges.in_process import Asking, run
from workbench import Corpus, experiments

Claims = tuple[int, int, float]
LEVEL = 0.05
GAINS = (  # findings of one family, corrected for its comparisons
    "comparisons in which the frozen model is worse",
    "largest gain over the frozen model",
)
SIZES = {"train": 40, "dev": 20, "test": 60}


def claimed(experiment: str, tables: Any, measures: tuple[str, ...] = ()) -> int:
    """How many findings with a null are supported, of these measures or of all."""
    return sum(
        each.verdict == "supported" and each.null is not None
        for each in experiments()[experiment].findings_of(tables)
        if not measures or each.measure in measures
    )


def random_labels(corpus: Any, seed: int) -> Corpus:
    """The corpus' sentences with a label drawn for each, which nothing in them tells."""
    drawn = random.Random(f"labels {seed}")
    parts = {}
    for split, size in SIZES.items():
        docs = list(corpus.docs(split, size))
        copies = [type(doc)(doc.vocab, words=[word.text for word in doc]) for doc in docs]
        for doc in copies:
            doc._.labels = {"coin": drawn.choice(["heads", "tails", "tails"])}
        parts[split] = copies
    return Corpus("coins", {name: (lambda own=own: iter(own)) for name, own in parts.items()})


def _few_weights(twin: Any) -> str:
    """LoRA, or of XLNet, whose attention has no linear modules, the top alone."""
    return "top" if twin.family == "xlnet" else "lora"


def fine_tuning_helps(twin: Any, corpus: Any, seed: int) -> Claims:
    """No method may win over the frozen model on labels drawn at random."""
    result = run(
        "frozen-vs-finetuned", [twin], [random_labels(corpus, seed)], seed, Asking(), "test",
        tasks=("coin",), methods=("fine-tuned", _few_weights(twin)), lstm_baseline=False,
        seeds=(0, 1), max_epochs=2,
        learning_rates=(1e-3,), ridge_strengths=(1000.0, 10.0),
    )  # fmt: skip
    verdicts = result.tables["delta"]["verdict"]
    found = claimed("frozen-vs-finetuned", result.tables, GAINS)
    return len(verdicts) + 1, int((verdicts == "helps").sum()) + min(found, 1), LEVEL


def heads_that_learn(twin: Any, corpus: Any, seed: int) -> Claims:
    """No head may be better than the majority by more than chance on labels drawn at random."""
    result = run(
        "frozen-vs-finetuned", [twin], [random_labels(corpus, seed + 1000)], seed, Asking(), "test",
        tasks=("coin",), methods=(_few_weights(twin),), lstm_baseline=True, seeds=(0, 1),
        max_epochs=2,
        learning_rates=(1e-3,),
        ridge_strengths=(1000.0, 10.0),
    )  # fmt: skip
    learned = result.tables["means"]["learned"]
    found = claimed(
        "frozen-vs-finetuned", result.tables, ("trained models that beat the majority baseline",)
    )
    return len(learned) + 1, int(learned.sum()) + found, LEVEL


def drift_of_a_copy(twin: Any, corpus: Any, seed: int) -> Claims:
    """A model and its copy: no loss, no probe and no head has changed."""

    sizes = {"max_train": 40, "max_dev": 20, "max_test": 30}
    result = run(
        "drift", [twin, twin.copy()], [corpus], seed, Asking(), "test", max_sentences=20,
        compare_probing=True,
        tasks=("pos",), **sizes,
    )  # fmt: skip
    losses, probing = result.tables["losses"], result.tables["probing"]
    heads = result.tables["heads"]
    false = (
        int(((losses["lower"] > 0) | (losses["upper"] < 0)).sum())
        + int((probing["p_value"] < LEVEL).sum())
        + int((heads["lower"] > 1e-9).sum())
    )
    false += claimed("drift", result.tables)
    return len(losses) + len(probing) + len(heads) + 1, false, LEVEL


TWINS = (fine_tuning_helps, heads_that_learn, drift_of_a_copy)
