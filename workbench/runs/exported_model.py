"""Models for other programs: `wb.export_model` writes a folder that plain transformers opens.

    wb.export_model("head-pruning-0123456789ab", "smaller")      # or: workbench export-model

A pruned model keeps its smaller shape where its config can say it; else its removed heads come back
as zeros, and the result says so. What no class of transformers computes is refused before anything
is written. The folder appears complete or not at all. Costs: those of `models.whole_net`, and the
bytes of the weights.
"""

import logging
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from workbench.core.errors import WorkbenchError, require_extra
from workbench.core.files import drafted, is_full, reason_of, unwritable, user_path
from workbench.core.public import public, require_choice
from workbench.models.references import folder_of, trained_by
from workbench.runs import model_card
from workbench.runs.run import Run, open_run

if TYPE_CHECKING:
    from workbench.engine.model import Model
    from workbench.models.huggingface import HuggingFace

Form = Literal["transformers", "onnx"]
ONNX = "model.onnx"
_SHAPES = {
    "unchanged": "with its own shape",
    "smaller": "with the smaller shape, which its config can say",
    "zeros": "with the full shape and zeros for its removed heads",
}


@dataclass(frozen=True)
class ExportedModel:
    """A written folder: its form, how removed heads went, and sizes as written.

    Example:
        >>> exported = wb.export_model("mini:gpt", "exported-gpt")
        >>> exported.opened_by, exported.shape
        ('GPT2LMHeadModel', 'unchanged')
    """

    folder: str
    form: str
    opened_by: str  # the class of transformers
    shape: str  # unchanged, smaller, or zeros
    removed_heads: int
    parameters: int  # as written
    parameters_before: int  # of the model that was exported
    mebibytes: float  # of the weights on disk

    def __str__(self) -> str:
        """A sentence or two for a terminal."""
        size = f"{self.parameters:,} parameters, {self.mebibytes:.2f} MiB"
        heads = "1 head was" if self.removed_heads == 1 else f"{self.removed_heads} heads were"
        removed = f"; {heads} removed" if self.removed_heads else ""
        said = f"{self.opened_by} {_SHAPES[self.shape]}: {size}{removed}."
        if self.shape == "zeros":
            said += f" Without the zeros, it has {self.parameters_before:,}."
        return said

    def as_dict(self) -> dict[str, Any]:
        """The result as plain data."""
        return asdict(self)


@public
def export_model(
    model: "Model | str | os.PathLike[str]",
    folder: str | os.PathLike[str],
    form: Form = "transformers",
    *,
    objective: str = "",
    force: bool = False,
) -> ExportedModel:
    """Write a model into a folder that plain transformers opens with equal outputs.

    Args:
        model: A `Model`, or a reference: a run that saved one, a folder, a hub id.
        folder: The folder to write; it must not exist, or be empty.
        form: `transformers`, or `onnx` (needs the extra `onnx`).
        objective: What is exported of a model with several objectives, such as `language-model`
            of a fine-tuned one (default: what it was made for).
        force: Whether to replace a folder that is not empty.

    Returns:
        An `ExportedModel`, with the shape and the sizes as written.

    Raises:
        WorkbenchError: No class of transformers computes what the model does, or the folder cannot
            be written.

    Example:
        >>> wb.export_model("mini:bert", "exported").opened_by
        'BertForMaskedLM'
    """
    from workbench.models.formats.task_checkpoint import save_task
    from workbench.models.loading import load, with_objective
    from workbench.models.whole_net import plain_net, require_plain

    require_choice("form", form, Form)
    target = user_path(folder)
    _require_free(target, force)
    ref = _reference(model)
    origin = _origin(ref) if ref is not None else None
    opened: Any = model if ref is None else load(ref, "cpu", "fp32")
    chosen = require_plain(with_objective(opened, objective))
    plain = plain_net(chosen)
    draft = drafted(target.absolute())
    try:
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(parents=True)
        if form == "onnx":
            _write_onnx(chosen, plain.net, draft)
        else:
            plain.net.save_pretrained(draft)
            save_task(chosen, draft)
        chosen.tokenizer.save_pretrained(draft)
        result = ExportedModel(
            str(folder),
            form,
            type(plain.net).__name__,
            plain.shape,
            chosen.n_removed_heads,
            int(plain.net.num_parameters()),
            chosen.parameters,
            sum(path.stat().st_size for path in draft.iterdir() if path.suffix in _WEIGHTS) / 2**20,
        )
        if form == "transformers":
            model_card.write(draft, origin, [f"Exported as {result}"])
        if force and target.is_dir():
            shutil.rmtree(target)
        elif target.is_dir():
            target.rmdir()
        draft.replace(target.absolute())
    except Exception as error:
        if isinstance(error, OSError) or is_full(error):  # safetensors has an error of its own
            raise unwritable(target, error) from None
        raise
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return result


_WEIGHTS = (".safetensors", ".onnx", ".data")


def _require_free(target: Path, force: bool) -> None:
    """Raise if the folder has files, unless they may be replaced."""
    if not os.path.lexists(target):
        return
    if target.is_symlink() or not target.is_dir():
        raise WorkbenchError(
            "this is not a folder.",
            code="file-unwritable",
            where=str(target),
            remedy="Name a folder that does not exist yet.",
        )
    if any(target.iterdir()) and not force:
        raise WorkbenchError(
            "the folder has files already.",
            code="file-unwritable",
            where=str(target),
            remedy="Name another folder, or replace all of its files with --force (force=True).",
        )
    if force and any(target.iterdir()) and not (target / "config.json").is_file():
        raise WorkbenchError(
            "the folder holds no model, so it is not replaced.",
            code="file-unwritable",
            where=str(target),
            remedy="Name another folder.",
        )


def _reference(named: object) -> str | None:
    """A reference that a caller gave instead of an open model."""
    return os.fspath(named) if isinstance(named, str | os.PathLike) else None


def _origin(ref: str) -> model_card.Origin | None:
    """The finished run that saved a model; None for other references."""
    folder = folder_of(ref)
    name = "" if folder is None else trained_by(folder)
    if not name:
        return None
    try:
        run = open_run(name)
        return origin_of(run) if run.status.state == "done" else None
    except WorkbenchError:  # a folder of another place that is called as a run
        return None


def origin_of(run: Run) -> model_card.Origin:
    """What a card says of a finished run."""
    caveats = [caveat.text for caveat in run.caveats]
    version = str(run.provenance.get("workbench", ""))
    sizes = run.provenance.get("growth", {}).get("sizes", {})
    return model_card.Origin(run.name, run.spec, run.findings, caveats, version, sizes)


@contextmanager
def _without_hints() -> Iterator[None]:
    """Without the exporter's warnings on packages that no language model needs."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(before)


def _root(error: Exception) -> Exception:
    """The error that others came from: those of the exporter say what to do in its code."""
    while isinstance(error.__cause__, Exception):
        error = error.__cause__
    return error


def _write_onnx(model: "HuggingFace", net: Any, folder: Path) -> None:
    """Write the net as ONNX, with any number of texts and pieces, through torch's exporter."""
    import torch

    require_extra("onnx", ("onnx", "onnxscript"), "ONNX", model.name)
    twin: Any = type(net)(net.config)
    twin.load_state_dict(net.state_dict())
    twin.set_attn_implementation("eager")
    twin.config.use_cache = False
    twin.config.return_dict = True
    twin.train(False)
    text = model.tokenizer(["one two three"] * 2, return_tensors="pt")
    names = [name for name in signature(twin.forward).parameters if name in text]
    axes = {0: torch.export.Dim("texts"), 1: torch.export.Dim("pieces")}
    try:
        with _without_hints():
            program = torch.onnx.export(
                twin,
                (),
                kwargs={name: text[name] for name in names},
                input_names=names,
                dynamic_shapes=dict.fromkeys(names, axes),
                dynamo=True,
                verbose=False,
            )
    except Exception as error:  # of any step of the exporter
        raise WorkbenchError(
            f"torch cannot write the architecture {type(net).__name__} as ONNX: "
            f"{reason_of(_root(error))}.",
            code="model-unsupported",
            where=model.name,
            remedy="Export it as transformers, the default; or try a newer torch.",
        ) from None
    assert program is not None, "the exporter returns a program"
    program.save(str(folder / ONNX))
    net.config.save_pretrained(folder)
