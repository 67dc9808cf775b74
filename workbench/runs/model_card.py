"""The model card of a saved model: `README.md` with the hub's metadata, from a run's findings.

A card says what the model predicts, how it is opened, what was done, and what was found. Runs that
save a model write one beside it; `workbench export-model` writes one into every folder. It is no
part of the model: no hash of a model includes it. Costs: milliseconds, and importing
huggingface_hub.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.core.files import read_json, write_atomically
from workbench.core.findings import Finding
from workbench.core.machine import MEBI
from workbench.core.objectives import LANGUAGE_MODELS, PREDICTED, described
from workbench.experiment.definition import EXPERIMENTS
from workbench.models.references import TASK, has_adapter, net_folder
from workbench.runs.spec import Spec

if TYPE_CHECKING:
    from huggingface_hub import ModelCardData

NAME = "README.md"
NO_LIMIT = 1_000_000  # pieces; without a limit a tokenizer says 10 ** 30
_AUTO = {  # transformers' class that opens a model, by what it predicts
    "masked": "AutoModelForMaskedLM",
    "causal": "AutoModelForCausalLM",
    "seq2seq": "AutoModelForSeq2SeqLM",
    "class": "AutoModelForSequenceClassification",
    "score": "AutoModelForSequenceClassification",
    "tags": "AutoModelForTokenClassification",
    "entities": "AutoModelForTokenClassification",
    "answers": "AutoModelForQuestionAnswering",
    "text": "AutoModelForSeq2SeqLM",
}
_PIPELINES = {  # the hub's name of a task
    "masked": "fill-mask",
    "causal": "text-generation",
    "seq2seq": "text2text-generation",
    "class": "text-classification",
    "score": "text-classification",
    "tags": "token-classification",
    "entities": "token-classification",
    "answers": "question-answering",
    "text": "text2text-generation",
}


@dataclass(frozen=True)
class Origin:
    """The run that a model comes from."""

    run: str
    spec: Spec
    findings: Sequence[Finding]
    caveats: Sequence[str]
    workbench: str  # its version
    sizes: Mapping[str, int | None] = field(default_factory=dict)  # settings, where a sample grew


def write(folder: Path, origin: Origin | None, notes: Iterable[str] = ()) -> None:
    """Write the card of the model in a folder; `notes` are sentences on how it was exported."""
    from huggingface_hub import ModelCard

    task = predicts(folder)
    lines = "\n".join(_lines(folder, task, origin, notes))
    card = ModelCard(f"---\n{_metadata(task, origin, folder).to_yaml()}\n---\n\n{lines}\n")
    write_atomically(folder / NAME, str(card))


def predicts(folder: Path) -> Mapping[str, Any] | None:
    """What the model in a folder predicts, by its files alone; None if they do not say it."""
    with suppress(OSError, ValueError, LookupError, TypeError):
        if (folder / TASK).is_file():
            task: dict[str, Any] = read_json(folder / TASK)["task"]
            return task
        config = read_json(net_folder(folder) / "config.json")
        for name in config.get("architectures") or ():
            for ending, kind in LANGUAGE_MODELS.items():
                if str(name).endswith(ending):
                    return {"kind": kind, "name": PREDICTED[kind], "names": [], "pairs": False}
    return None


def is_plain(folder: Path) -> bool:
    """Whether plain transformers opens the model in a folder."""
    if not (folder / "config.json").is_file():
        return False
    with suppress(OSError, ValueError, KeyError):
        manifest = read_json(folder / "heads.json")
        return bool(manifest["plain"])
    return not any((folder / name).exists() for name in ("heads.json", "packed.json"))


def size_on_disk(folder: Path) -> float:
    """MiB of the weights in a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*.safetensors")) / MEBI


def longest_input(folder: Path) -> int | None:
    """How many pieces the tokenizer of a folder allows; None without a limit."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        longest = int(read_json(folder / "tokenizer_config.json")["model_max_length"])
        return longest if longest < NO_LIMIT else None
    return None


def _metadata(
    task: Mapping[str, Any] | None, origin: Origin | None, folder: Path
) -> "ModelCardData":
    from huggingface_hub import ModelCardData

    base = datasets = None
    if origin is not None:
        base = [model.name for model in origin.spec.models] or None
        datasets = [corpus.name for corpus in origin.spec.corpora] or None
    kind = task["kind"] if task else ""
    library = "peft" if has_adapter(folder) else "transformers" if is_plain(folder) else "workbench"
    return ModelCardData(
        library_name=library,
        base_model=base[0] if base and len(base) == 1 else base,
        datasets=datasets,
        pipeline_tag=_PIPELINES.get(kind),
        metrics=[task["metric"]] if task and task.get("metric") else None,
        tags=["workbench", *([origin.spec.experiment] if origin else [])],
    )


def _lines(
    folder: Path, task: Mapping[str, Any] | None, origin: Origin | None, notes: Iterable[str]
) -> Iterator[str]:
    yield f"# {origin.run if origin else folder.name}\n"
    yield f"Predicts: {described(task) if task else 'nothing: it has states, and no head'}."
    yield "\n## Open it\n"
    yield from _opening(folder, task)
    if origin is not None:
        yield from _of_run(origin)
    yield "\n## Files\n"
    yield f"- Weights on disk: {size_on_disk(folder):.2f} MiB."
    yield from (f"- {note}" for note in notes)


def opening_code(folder: Path) -> str:
    """The code that opens the model of a folder, which it calls "FOLDER"."""
    return "\n".join(_code(folder, predicts(folder)))


def _code(folder: Path, task: Mapping[str, Any] | None) -> Iterator[str]:
    """In transformers or peft where they can, else in Workbench."""
    auto = _AUTO.get(task["kind"], "AutoModel") if task else "AutoModel"
    if has_adapter(folder):
        yield "from peft import PeftModel"
        yield f"from transformers import {auto}\n"
        yield "# `base_model_name_or_path` in adapter_config.json names the base"
        options = f", id2label={dict(enumerate(task['names']))}" if task and task["names"] else ""
        yield f'base = {auto}.from_pretrained("BASE"{options})'
        yield 'model = PeftModel.from_pretrained(base, "FOLDER")'
    elif is_plain(folder):
        yield f"from transformers import {auto}, AutoTokenizer\n"
        yield f'model = {auto}.from_pretrained("FOLDER")'
        yield 'tokenizer = AutoTokenizer.from_pretrained("FOLDER")'
    else:
        yield "import workbench as wb\n"
        yield 'model = wb.load("FOLDER")'


def _opening(folder: Path, task: Mapping[str, Any] | None) -> Iterator[str]:
    """How the model is opened."""
    yield "```python"
    yield from _code(folder, task)
    yield "```\n"
    if is_plain(folder) or has_adapter(folder):
        yield 'In Workbench: `wb.load("FOLDER")`.'
        if task and task["kind"] in ("class", "score") and (longest := longest_input(folder)):
            yield (
                f"\nThe model reads at most {longest:,} pieces: call the tokenizer with "
                "`truncation=True`. Workbench leaves out a last word that does not fit as a whole, "
                "and the tokenizer keeps its first pieces, so predictions of longer texts can "
                "differ."
            )
    else:
        yield (
            "Plain transformers does not open this folder. `workbench export-model` writes one "
            "that it opens, or says why there is none."
        )


def _of_run(origin: Origin) -> Iterator[str]:
    spec = origin.spec
    yield "\n## What was done\n"
    if spec.experiment in EXPERIMENTS:
        with suppress(Exception):  # settings of another version have no words
            settings = EXPERIMENTS[spec.experiment].settings
            yield settings.model_validate({**spec.settings, **origin.sizes}).in_prose()
            yield ""
    names = ", ".join(model.name for model in spec.models) or "none"
    corpora = ", ".join(corpus.name for corpus in spec.corpora) or "none"
    yield f"Model: {names}. Corpus: {corpora}. Seed: {spec.seed}."
    yield "\n## What was found\n"
    for finding in origin.findings:
        verdict = "" if finding.verdict == "supported" else f" *({finding.verdict})*"
        yield f"- {finding.claim}{verdict}"
    if origin.caveats:
        yield "\nCaveats:\n"
        yield from (f"- {text}" for text in origin.caveats)
    yield ""
    yield f"Run `{origin.run}` of Workbench {origin.workbench}."
