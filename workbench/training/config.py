"""What can be set of a training, what it starts from, and the key that all of it makes.

Two calls with one key would give the same weights; a checkpoint or a finished folder is known by
it. Costs reading the weights of folders that a training starts from.
"""

import hashlib
import json
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, get_args

from workbench.core.errors import WorkbenchError, did_you_mean
from workbench.core.files import open_regular
from workbench.training.objectives import BY_SENTENCE, takes
from workbench.training.objectives.masked import Unit
from workbench.training.task import Plan

FORMAT = "workbench-training-1"
HELD_OUT = 0.02  # of the text
ROWS = ("packed", "sentences")


@dataclass(frozen=True)
class Settings:
    """What can be set of a training; sizes that are None are those of `size`."""

    size: str = "mini"
    layers: int | None = None
    width: int | None = None
    heads: int | None = None
    vocabulary: int | None = None
    length: int | None = None
    dropout: float | None = None
    objective: str = ""  # another than the family's own
    mask_by: str = ""  # what is masked, where not the family's own: piece, word or span
    hidden: float | None = None  # share of pieces, where not the objective's own
    static: bool = False  # the same masks whenever a sequence comes, in ten copies
    lowercase: bool = False
    rows: str = "packed"  # or "sentences", one a row
    held_out: float = HELD_OUT  # share of the text that is not trained on, at its end
    plan: Plan = field(default_factory=Plan)


@dataclass(frozen=True)
class Sources:
    """Folders that a training starts from, beside its text."""

    tokenizer: Path | None = None
    model: Path | None = None  # to go on with
    teacher: Path | None = None


def require_sound(family: str, sources: Sources, settings: Settings, objective: str) -> None:
    """Refuse what cannot be trained, before anything is made."""
    if family == "distilbert" and sources.teacher is None:
        raise WorkbenchError(
            "distilbert learns from a teacher, and none was named.",
            remedy="Name the folder of a masked model, such as one that train bert wrote.",
        )
    if family != "distilbert" and sources.teacher is not None:
        raise WorkbenchError(f"{family} has no teacher.", remedy="Leave it out, or use distilbert.")
    require_known(family, settings, objective)
    for folder in (sources.tokenizer, sources.model, sources.teacher):
        if folder is not None and not folder.is_dir():
            raise WorkbenchError(
                "there is no such folder.", where=str(folder), remedy="Check the path."
            )


def require_known(family: str, settings: Settings, objective: str) -> None:
    """Refuse settings that an objective does not have."""
    if settings.static and objective != "masked":
        raise WorkbenchError(
            f"masks can be static where pieces are masked and nothing else; {family} learns by "
            f"{objective}.",
            remedy="Leave static out, or set the objective to masked.",
        )
    if settings.hidden is not None:
        if not 0 < settings.hidden < 1:
            raise WorkbenchError(
                f"hidden is {settings.hidden}.", remedy="It is a share: give 0.15, or up to 0.5."
            )
        _require_taken("rate", "a share of pieces", "hidden", objective)
    if settings.mask_by:
        if settings.mask_by not in (units := get_args(Unit)):
            raise WorkbenchError(
                f"nothing is masked by {settings.mask_by!r}.",
                remedy=did_you_mean(settings.mask_by, units),
            )
        _require_taken("unit", "pieces, words or spans by choice", "mask_by", objective)
    if settings.rows not in ROWS:
        raise WorkbenchError(
            f"there are no rows {settings.rows!r}.", remedy=did_you_mean(settings.rows, ROWS)
        )
    if settings.rows == "sentences" and objective in BY_SENTENCE:
        raise WorkbenchError(
            f"rows of one sentence hold no order of sentences, and {family} learns by {objective}.",
            remedy="Leave rows at packed, or set the objective to masked.",
        )
    if not 0 <= settings.held_out < 1:
        raise WorkbenchError(
            f"held_out is {settings.held_out}.", remedy="It is a share: give 0 to 0.5."
        )


def _require_taken(parameter: str, what: str, setting: str, objective: str) -> None:
    if not takes(objective, parameter):
        raise WorkbenchError(
            f"{objective} does not hide {what}.",
            remedy=f"Leave {setting} out, or learn by masked.",
        )


def key_of(family: str, settings: Settings, sources: Sources, digest: str) -> str:
    """What the trained weights depend on; when checkpoints are written is no part of it."""
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
