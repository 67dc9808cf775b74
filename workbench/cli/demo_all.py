"""`workbench demo --all`: every experiment on the built-in corpus and models, offline.

Each stop is a normal run, so it can be interrupted and continued, and the second time all results
are read from disk. At the end it writes one report of all runs. Add new experiments to `STOPS`.
Costs: the sum of its runs, some minutes; the next runs start while one computes.
"""

import webbrowser
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from workbench.cli import output
from workbench.cli.demo import begin, cancel
from workbench.core import machine
from workbench.experiment.definition import EXPERIMENTS
from workbench.models.references import MINI_CORPUS
from workbench.runs.run import Run


@dataclass(frozen=True)
class Stop:
    """One run."""

    title: str
    experiment: str
    models: tuple[str, ...] = ()
    corpora: tuple[str, ...] = ("primer",)
    settings: Mapping[str, Any] = field(default_factory=dict)


AHEAD = 2  # runs that start while one computes
SHORT: Mapping[str, Any] = {  # settings for a fine-tuning of a few seconds
    "max_train": 80, "max_dev": 40, "max_test": 80,
    "max_epochs": 2, "learning_rates": (1e-3,), "seeds": (0,),
}  # fmt: skip
STOPS = (
    Stop("Statistics of the built-in corpus", "describe"),
    Stop("A small BERT: size, architecture and loss", "profile", ("mini:bert",)),
    Stop(
        "Acceptability judgements of BERT on minimal pairs",
        "minimal-pairs",
        ("mini:bert",),
        ("primer/acceptability",),
        {"max_sentences": 200},
    ),
    Stop(
        "Logit lens: what each layer of BERT would predict",
        "lens",
        ("mini:bert",),
        settings={"max_predictions": 200},
    ),
    Stop(
        "Into how many pieces BERT and GPT split words", "tokenization", ("mini:bert", "mini:gpt")
    ),
    Stop(
        "Geometry of word states: how contextual and isotropic each layer of BERT is",
        "geometry",
        ("mini:bert",),
        settings={"max_sentences": 300, "random_models": 2, "n_permutations": 200},
    ),
    Stop(
        "Average attention of each head, by offset and by part of speech",
        "attention-averages",
        ("mini:bert",),
        settings={"max_sentences": 300},
    ),
    Stop(
        "Roles of attention heads: offsets, relations, rare words, separators",
        "heads",
        ("mini:bert",),
        settings={"max_sentences": 300, "max_examples": 20},
    ),
    Stop(
        "Importance of each head, from gradients",
        "head-importance",
        ("mini:bert",),
        settings={"max_sentences": 200},
    ),
    Stop(
        "Ablation of each head: loss without it",
        "head-ablation",
        ("mini:bert",),
        settings={"max_sentences": 100},
    ),
    Stop(
        "Head pruning: how many heads can be removed, and in which order",
        "head-pruning",
        ("mini:bert",),
        settings={
            "max_sentences": 100,
            "selection_texts": 40,
            "steps": 4,
            "random_orders": 1,
            "recovery_steps": 10,
        },
    ),
    Stop(
        "Learned head gates with a sparsity penalty",
        "head-gates",
        ("mini:bert",),
        settings={"max_sentences": 100, "lambdas": (0.03,), "budgets": (0.25,), "steps": 60},
    ),
    Stop(
        "Edge probing of each layer, from words to roles",
        "edge-probing",
        ("mini:bert",),
        settings={"max_sentences": 100, "effort": "quick"},
    ),
    Stop(
        "Description length of parts of speech in each layer",
        "description-length",
        ("mini:bert",),
        settings={
            "max_sentences": 100,
            "max_targets": 300,
            "tasks": ("pos",),
            "variational_steps": 100,
        },
    ),
    Stop(
        "Structural probe: syntax trees in each layer",
        "structural-probe",
        ("mini:bert",),
        settings={"max_sentences": 60, "seeds": (0,)},
    ),
    Stop(
        "Attention probe: syntactic heads from all attention maps",
        "attention-probe",
        ("mini:bert",),
        settings={"max_sentences": 60, "seeds": (0,)},
    ),
    Stop(
        "BERT frozen and fine-tuned: scores of both",
        "frozen-vs-finetuned",
        ("mini:bert",),
        settings={**SHORT, "tasks": ("sentiment",), "lstm_baseline": False},
    ),
    Stop(
        "Fine-tuning BERT for one task",
        "finetune",
        ("mini:bert",),
        ("primer/sentiment",),
        SHORT,
    ),
    Stop(
        "What training changes: BERT with random weights and trained",
        "drift",
        ("mini:bert@random", "mini:bert"),
        settings={"max_sentences": 60},
    ),
    Stop(
        "Similarity of the layers of four models",
        "similarity",
        ("mini:bert", "mini:gpt", "mini:elmo", "mini:t5"),
        settings={"max_sentences": 60},
    ),
    Stop(
        "Nearest neighbours of words in each layer of BERT, and senses of ambiguous words",
        "neighbours",
        ("mini:bert",),
        settings={"max_queries": 200, "max_occurrences": 4000, "random_models": 2},
    ),
    Stop(
        "Which words carry the predictions of BERT, and which attribution method is faithful",
        "attribution",
        ("mini:bert",),
        settings={"max_predictions": 15, "random_models": 1},
    ),
    Stop(
        "Pretraining objectives: masked or left-to-right, scored after fine-tuning",
        "pretraining",
        settings={
            **SHORT,
            "arms": ("mlm", "ltr"),
            "pretraining_steps": 60,
            "tasks": ("sentiment",),
            "seeds": (0,),
        },
    ),
    Stop(
        "Architectures: an encoder-decoder, or one stack that reads input and target",
        "architectures",
        settings={
            "arms": ("encoder-decoder", "prefix language model"),
            "objectives": ("denoising",),
            "seeds": (0, 1),
            "steps": 20,
        },
    ),
    Stop(
        "A memory of the text before a segment, as in Transformer-XL",
        "recurrence",
        settings={"segments": (16,), "memories": (0, 16), "seeds": (0, 1), "steps": 20},
    ),
    Stop(
        "What each head and MLP of GPT adds to the words it predicts",
        "contributions",
        ("mini:gpt",),
        settings={"max_words": 150},
    ),
    Stop(
        "Where GPT has what decides between two words: activation patching",
        "patching",
        ("mini:gpt",),
        ("primer/counterfactuals",),
        {"max_pairs": 40},
    ),
    Stop(
        "Steering BERT by the difference of two sets of texts",
        "steering",
        ("mini:bert",),
        ("primer/counterfactuals",),
        {"max_words": 2, "max_texts": 32},
    ),
    Stop(
        "What BERT loses without the directions of parts of speech: amnesic probing",
        "erasure",
        ("mini:bert",),
        settings={"max_words": 300, "max_predictions": 30},
    ),
    Stop(
        "GPT and a trigram model of its training text",
        "trigram",
        ("mini:gpt",),
        (MINI_CORPUS,),
        {"max_sentences": 300},
    ),
    Stop(
        "What each layer of BERT predicts: logit lens and tuned lens",
        "tuned-lens",
        ("mini:bert",),
        settings={"max_sentences": 200, "max_train": 400, "steps": 75},
    ),
    Stop(
        "Training a tiny GPT in a few seconds",
        "train",
        (),
        ("primer:size=2000",),
        {"family": "gpt", "size": "tiny", "rows": "sentences", "steps": 200},
    ),
)


def every_experiment(json: bool = False, open_report: bool = False) -> None:
    """Run all stops in order, start the next ones meanwhile, and write the report.

    Args:
        json: Print one JSON object instead of the results.
        open_report: Open the report in a browser.
    """
    runs: list[Run] = []
    ahead: deque[tuple[Run, bool]] = deque()
    planned = [stop for stop in STOPS if stop.experiment in EXPERIMENTS]
    for stop in STOPS:
        if stop not in planned:
            output.note(f"Left out, since its analysis is not installed: {stop.title}")
    waiting = iter(planned)
    try:
        for number, stop in enumerate(planned, start=1):
            if not json:
                output.heading(f"{number} of {len(planned)}: {stop.title}")
            ahead.extend(map(_started, islice(waiting, AHEAD + 1 - len(ahead))))
            run, from_disk = ahead.popleft()
            output.follow(run, from_disk)
            if not json or run.status.state != "done":
                output.result(run, json)
            runs.append(run)
    finally:
        cancel((run for run, _ in ahead), "workbench demo --all")
    with output.progress("writing the report"):
        from workbench.report import write_report

        title = f"Every experiment of Workbench: {len(runs)} analyses of the built-in models"
        path = write_report(runs, machine.runs() / "demo-all.html", title=title)
    if json:
        output.print_json({"runs": [run.as_data() for run in runs], "report": str(path)})
    else:
        output.heading("Report")
        print(f"{path}\nOpen it in a browser; it needs no network.")
    if open_report:
        webbrowser.open(path.resolve().as_uri())


def _started(stop: Stop) -> tuple[Run, bool]:
    """Start the run of a stop; return it, and whether it was done before."""
    run = begin(stop.experiment, stop.models, stop.corpora, stop.settings)
    return run, run.status.state == "done"
