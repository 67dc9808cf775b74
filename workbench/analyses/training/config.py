"""The settings of a training, the folders it starts from, and the key that identifies both.

Two trainings with the same key give the same weights. Checkpoints and finished folders store the
key. Costs: reading the weights of the folders that a training starts from.
"""

import hashlib
import json
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, get_args

from workbench.analyses.training.objectives import known, of_words, takes
from workbench.analyses.training.objectives.masked import Unit
from workbench.analyses.training.task import Plan
from workbench.core.errors import WorkbenchError, did_you_mean, listed, require_one_of
from workbench.core.files import open_regular

FORMAT = "workbench-training-1"
HELD_OUT = 0.02  # of the text
ROWS = ("packed", "sentences")
CORRUPTION = {  # settings, and the objective's arguments that they set
    "mask_rate": "rate",
    "mask_share": "mask",
    "random_share": "random",
    "mean_span": "mean",
}


@dataclass(frozen=True)
class Settings:
    """The settings of a training, as in the experiment; None takes the value of `size`.

    Field names are part of `training.json` and of the key.
    """

    size: str = "mini"
    n_layers: int | None = None
    width: int | None = None
    n_heads: int | None = None
    vocabulary_size: int | None = None
    sequence_length: int | None = None
    dropout: float | None = None
    windows: tuple[int, ...] = ()
    global_positions: int | None = None
    objective: str = ""  # empty: that of the family
    mask_by: str = ""  # piece, word or span; empty: that of the family
    mask_rate: float | None = None  # fraction of pieces masked; None: that of the objective
    mask_share: float | None = None  # of those, replaced by the mask; None: that of the objective
    random_share: float | None = None  # of those, replaced by random pieces
    mean_span: float | None = None  # pieces of a hidden span
    generator: float | None = None  # width of ELECTRA's generator, as a fraction of the model's
    static_masking: bool = False  # ten fixed masks per sequence instead of new ones each epoch
    lowercase: bool = False
    rows: str = "packed"  # or "sentences": one sentence per sequence
    held_out_fraction: float = HELD_OUT  # fraction at the end of the text that is held out
    plan: Plan = field(default_factory=Plan)

    def corruption(self) -> dict[str, float]:
        """The arguments of the objective that are set."""
        values = {argument: getattr(self, name) for name, argument in CORRUPTION.items()}
        return {argument: value for argument, value in values.items() if value is not None}


@dataclass(frozen=True)
class Sources:
    """Folders that a training reads next to its text."""

    tokenizer: Path | None = None
    model: Path | None = None  # to continue from
    teacher: Path | None = None


def require_sound(family: str, sources: Sources, settings: Settings, objective: str) -> None:
    """Raise an error for settings that cannot be trained, before any file is written."""
    if family == "distilbert" and sources.teacher is None:
        raise WorkbenchError(
            "distilbert needs a teacher, and none is named.",
            code="teacher-missing",
            remedy="Name the folder of a masked model, such as the model of a run of train bert.",
        )
    if family != "distilbert" and sources.teacher is not None:
        raise WorkbenchError(
            f"{family} does not take a teacher.",
            code="setting-invalid",
            remedy="Leave the teacher out, or train distilbert.",
        )
    fitted = objective in of_words() and of_words()[objective].fitted is not None
    if fitted and sources.model is not None:
        raise WorkbenchError(
            f"the objective {objective} is computed from the text alone, and continues no model.",
            code="setting-invalid",
            remedy="Leave the model out, or set objective to skip-gram.",
        )
    require_known(family, settings, objective)
    for folder in (sources.tokenizer, sources.model, sources.teacher):
        if folder is not None and not folder.is_dir():
            raise WorkbenchError(
                "the folder does not exist.",
                code="file-not-found",
                where=str(folder),
                remedy="Check the path.",
            )


def require_known(family: str, settings: Settings, objective: str) -> None:
    """Raise an error for settings that the objective does not have."""
    if family != "longformer" and (settings.windows or settings.global_positions is not None):
        raise WorkbenchError(
            f"windows and global_positions are of longformer; {family} has none.",
            code="setting-invalid",
            remedy="Leave them out, or train longformer.",
        )
    if settings.static_masking and objective != "masked":
        raise WorkbenchError(
            f"static_masking works only with the objective masked; {family} uses {objective}.",
            code="setting-invalid",
            remedy="Leave static_masking out, or set objective to masked.",
        )
    if settings.mask_rate is not None and not 0 < settings.mask_rate < 1:
        raise WorkbenchError(
            f"mask_rate is {settings.mask_rate}; it must lie between 0 and 1.",
            code="setting-invalid",
            remedy="Set mask_rate to 0.15, or to another value up to 0.5.",
        )
    for name, argument in CORRUPTION.items():
        if getattr(settings, name) is not None:
            _require_taken(argument, name, objective)
    if (settings.mask_share or 0) + (settings.random_share or 0) > 1:
        raise WorkbenchError(
            f"mask_share is {settings.mask_share} and random_share {settings.random_share}; "
            "together they must be at most 1.",
            code="setting-invalid",
            remedy="Set them to 0.8 and 0.1, or to other fractions of the hidden pieces.",
        )
    if settings.generator is not None and family != "electra":
        raise WorkbenchError(
            f"{family} has no generator.",
            code="setting-invalid",
            remedy="Leave generator out, or train electra.",
        )
    if settings.mask_by:
        if settings.mask_by not in (units := get_args(Unit)):
            raise WorkbenchError(
                f"{settings.mask_by!r} is not a unit of masking.",
                code="setting-invalid",
                remedy=did_you_mean(settings.mask_by, units),
            )
        _require_taken("unit", "mask_by", objective)
    require_one_of(
        settings.rows, ROWS, f"{settings.rows!r} is not a value of rows.", code="setting-invalid"
    )
    if settings.rows == "sentences" and takes(objective, "sentences"):
        raise WorkbenchError(
            f"{family} with the objective {objective} needs several sentences in a sequence, and "
            "rows is sentences.",
            code="setting-invalid",
            remedy="Leave rows at packed, or set objective to masked.",
        )
    if not 0 <= settings.held_out_fraction < 1:
        raise WorkbenchError(
            f"held_out_fraction is {settings.held_out_fraction}; it must be at least 0 and below "
            "1.",
            code="setting-invalid",
            remedy="Set held_out_fraction to a small value, such as 0.02.",
        )


def _require_taken(parameter: str, setting: str, objective: str) -> None:
    if not takes(objective, parameter):
        raise WorkbenchError(
            f"the objective {objective} has no {setting}.",
            code="setting-invalid",
            remedy=f"Leave {setting} out, or set objective to one that has it: "
            f"{listed(name for name in known() if takes(name, parameter))}.",
        )


def key_of(family: str, settings: Settings, sources: Sources, digest: str) -> str:
    """Hash of everything the trained weights depend on; the checkpoint interval is left out."""
    plan = replace(settings.plan, checkpoint_seconds=0.0, checkpoint_steps=0)
    parts: dict[str, Any] = {"settings": asdict(replace(settings, plan=plan))}
    parts |= {"family": family, "text": digest, "format": FORMAT}
    for name, folder in vars(sources).items():
        if folder is not None:
            parts[name] = _folder_hash(folder)
    text = json.dumps(parts, sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def _folder_hash(folder: Path) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for path in sorted(folder.iterdir()):
        if path.suffix in (".safetensors", ".json", ".txt") and path.is_file():
            digest.update(path.name.encode())
            with open_regular(path) as file:
                digest.update(hashlib.file_digest(file, "blake2b").digest())
    return digest.hexdigest()
