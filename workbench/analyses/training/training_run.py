"""The experiment `train`: trains a model family on the text of a corpus, in the run's folder.

The run holds the model's folder, the curves, and a table of facts. Costs: the time budget, or the
time of the steps.
"""

import re
import shutil
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from workbench.analyses.training.experiments import Training, recipe_of
from workbench.core.errors import WorkbenchError
from workbench.core.files import drafted
from workbench.experiment.definition import Caveat, Inputs, Progress, Result
from workbench.models.references import has_adapter

if TYPE_CHECKING:
    from workbench.analyses.training.curves import Row
    from workbench.analyses.training.train import Trained

_PLAIN = re.compile(r".*\.txt(\.(gz|bz2|xz))?", re.IGNORECASE)
_CAVEATS = (
    Caveat(
        "Losses depend on the objective and pieces of the family: do not compare families by them. "
        "Compare perplexity per word or bits per byte, from profile.",
        ("curves",),
    ),
)


def run(inputs: Inputs, settings: Training, progress: Progress) -> Result:
    """Train the model into the run's folder `model`, and return facts and curves."""
    from workbench.analyses.training.train import train

    if inputs.keep is None:
        raise WorkbenchError(
            "train needs the folder of a run for its model.",
            code="run-folder-missing",
            remedy="Call wb.run, or workbench train.",
        )
    source = _source(inputs)
    with_teacher = settings.family == "distilbert"
    trained = train(
        settings.family,
        text_of(inputs, by_sentence=settings.rows == "sentences"),
        inputs.keep,
        recipe_of(settings, inputs.seed),
        progress,
        continue_from=None if with_teacher else source,
        teacher=source if with_teacher else None,
        device=inputs.device,
        scratch=inputs.scratch / "training" if inputs.scratch else None,
    )
    return Result({"facts": _facts(trained), "curves": _curves(trained.rows)}, caveats=_CAVEATS)


def text_of(inputs: Inputs, by_sentence: bool = False) -> "Path | list[str]":
    """A plain text file as a path; any other corpus as one line per Doc, with blank lines between
    documents. A line of a file may have several sentences, so `by_sentence` reads it as Docs."""
    origin = inputs.corpus.origin
    if origin is not None and inputs.limit is None and not by_sentence:
        files = [path for split, path in origin.files if inputs.split in (None, split)]
        if len(files) == 1 and _PLAIN.fullmatch(files[0].name):
            return files[0]
    return list(_lines(inputs))


def _lines(inputs: Inputs) -> Iterator[str]:
    before = None
    for doc in inputs.docs():
        document = doc._.document or None
        if before is not None and document != before[0]:
            yield ""
        yield " ".join(doc.text.split())
        before = (document or object(),)


def _source(inputs: Inputs) -> Path | None:
    """The folder of the model to continue from, or of the teacher."""
    if not inputs.models:
        return None
    folder = inputs.folders[0]
    if folder is not None and not has_adapter(folder):
        return folder
    if inputs.scratch is None:
        raise WorkbenchError(
            "train needs the folder of a run for a model that is open or an adapter.",
            code="run-folder-missing",
            where=inputs.model.name,
            remedy="Call wb.run, or save the model: model.save(folder).",
        )
    folder = inputs.scratch / "source"  # an adapter with its base, or an open model
    if not folder.is_dir():
        draft = drafted(folder)
        shutil.rmtree(draft, ignore_errors=True)
        inputs.model.save(draft)
        draft.rename(folder)
    return folder


def _facts(trained: "Trained") -> pd.DataFrame:
    recipe = trained.recipe
    last = trained.rows[-1] if trained.rows else None
    facts: dict[str, Any] = {
        "family": recipe["family"],
        "objective": recipe["objective"],
        "parameters": recipe["parameters"],
        "tokens of text": recipe["text"]["tokens"],
        "bytes of text": recipe["text"]["bytes"],
        "text": recipe["text"]["hash"],
        "tokenizer": recipe["tokenizer"],
        "devices": recipe["devices"],
    }
    if last is not None:
        facts |= {
            "steps": last.step,
            "tokens trained on": last.tokens,
            "seconds": round(last.seconds, 1),
            "loss": round(last.loss, 4),
        }
        if last.held_out is not None:
            facts["held-out loss"] = round(last.held_out, 4)
    return pd.DataFrame([(k, str(v)) for k, v in facts.items()], columns=["fact", "value"])


def _curves(rows: "tuple[Row, ...]") -> pd.DataFrame:
    from workbench.analyses.training.curves import Row

    table = pd.DataFrame([asdict(row) for row in rows], columns=list(Row.__dataclass_fields__))
    return table.astype({"mfu": "float64", "held_out": "float64"})
