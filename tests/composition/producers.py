"""Everything that leaves a model: trainings, fine-tunings, prunings, objects, folders of others.

Each producer makes one model and says on which corpus its task has gold labels. Costs: a training
of two steps, or a fine-tuning of ten texts.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import torch

import workbench as wb
from tests.models import zoo
from workbench.analyses.training.experiments import FamilyName
from workbench.analyses.transfer.experiments import Method
from workbench.models.references import located

PRIMER = "primer:size=60"
TASKS: Mapping[str, tuple[str, dict[str, Any]]] = {  # a corpus and settings by the kind of task
    "class": ("primer/sentiment:size=60", {}),
    "pair": ("primer/entailment:size=60", {}),
    "score": ("primer/relatedness:size=60", {}),
    "tags": (PRIMER, {"task": "pos"}),
    "entities": (PRIMER, {"task": "entities"}),
    "answers": ("primer/questions:size=60", {}),
}
QUICK: dict[str, Any] = {
    "max_train": 10, "max_dev": 6, "max_test": 6, "seeds": (0,), "max_epochs": 1,
    "learning_rates": (1e-3,), "ridge_strengths": (10.0,),
}  # fmt: skip


@dataclass(frozen=True)
class Producer:
    """What makes a model, by a name, and the corpus that has the gold of its task."""

    name: str
    make: Callable[[Path], Any]  # from an empty folder to a reference or an object
    corpus: str = PRIMER
    kind: str = ""  # what it must predict; "": nothing


def producers() -> Iterator[Producer]:
    """All of them."""
    kinds = {"gpt": "causal", "t5": "seq2seq", "bart": "seq2seq", "elmo": "bidirectional"}
    kinds |= {"electra": "", "vectors": ""}
    for family in get_args(FamilyName):
        yield Producer(f"train-{family}", _trained(family), kind=kinds.get(family, "masked"))
    for method in get_args(Method):
        yield _tuned("mini:bert", "class", method=method)
    for kind in list(TASKS)[1:]:
        yield _tuned("mini:bert", kind)
        yield _tuned("mini:bert", kind, method="frozen")
    for head in ("plain", "lstm"):
        yield _tuned("mini:bert", "class", head=head)
    yield _tuned("mini:bert", "class", method="lora", merge=False)
    for kind in ("class", "score", "tags"):
        yield _tuned("mini:gpt", kind)
    for kind in ("class", "tags"):
        yield _tuned("mini:t5", kind)
        yield _tuned("mini:elmo", kind)
    for kind in ("class", "score", "answers"):
        yield _tuned("mini:t5", kind, head="text")
    yield Producer("pruned-language-model", _pruned("mini:bert", PRIMER), kind="masked")
    tuned = _tuned("mini:bert", "class")
    yield Producer("pruned-classifier", _pruned(tuned, tuned.corpus), tuned.corpus, "class")
    for ending, kind in (
        ("ForSequenceClassification", "class"), ("ForTokenClassification", "tags"),
        ("ForQuestionAnswering", "answers"), ("ForMaskedLM", "masked"),
    ):  # fmt: skip
        yield Producer(f"folder-Bert{ending}", _of_others(ending), _corpus_of(kind), kind)
    yield Producer("folder-regression", _of_others("ForSequenceClassification", 1),
                   TASKS["score"][0], "score")  # fmt: skip
    yield Producer("object-edited", _edited, kind="masked")


def _corpus_of(kind: str) -> str:
    return TASKS[kind][0] if kind in TASKS else PRIMER


def _trained(family: str) -> Callable[[Path], str]:
    def make(home: Path) -> str:
        options: dict[str, Any] = {"size": "tiny", "steps": 2, "device": "cpu"}
        if family == "distilbert":
            options["model"] = "mini:bert"  # its teacher
        return wb.train(family, PRIMER, **options).name

    return make


def _tuned(base: str, kind: str, **settings: Any) -> Producer:
    corpus, task = TASKS[kind]
    name = "-".join(["finetune", base.removeprefix("mini:"), kind, *map(str, settings.values())])

    def make(home: Path) -> str:
        run = wb.run("finetune", model=base, corpus=corpus, **{**QUICK, **task, **settings})
        assert run.model is not None, f"{name} saved no model"
        return run.name

    predicted = "text" if settings.get("head") == "text" else {"pair": "class"}.get(kind, kind)
    return Producer(name, make, corpus, predicted)


def _pruned(base: "str | Producer", corpus: str) -> Callable[[Path], str]:
    def make(home: Path) -> str:
        model = base.make(home) if isinstance(base, Producer) else base
        settings: dict[str, Any] = {
            "methods": ("magnitude",), "prune_by": "magnitude", "steps": 2, "recovery_steps": 0,
            "max_sentences": 10,
        }  # fmt: skip
        return wb.run("head-pruning", model=model, corpus=corpus, **settings).name

    return make


def _of_others(ending: str, n_labels: int = 2) -> Callable[[Path], str]:
    """A folder that transformers' own `save_pretrained` wrote."""

    def make(home: Path) -> str:
        import transformers

        kind = getattr(transformers, f"Bert{ending}")
        labels = {
            "ForSequenceClassification": ("negative", "positive"),
            "ForTokenClassification": ("NOUN", "VERB"),
        }
        names = labels.get(ending, ("start", "end"))[:n_labels] if n_labels > 1 else ("score",)
        source = located("mini:bert")
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            net = kind.from_pretrained(source, id2label=dict(enumerate(names)))
        net.save_pretrained(home / "folder")
        transformers.AutoTokenizer.from_pretrained(source).save_pretrained(home / "folder")
        return str(home / "folder")

    return make


def _edited(home: Path) -> wb.Model:
    """An open model with changed weights."""
    model = wb.load("mini:bert", device="cpu")
    with torch.no_grad():
        next(iter(model.named_weights().values())).mul_(1.01)
    return model


__all__ = ["PRIMER", "Producer", "producers", "zoo"]
