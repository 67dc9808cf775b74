"""Models of this project's own, by name: the mini quartet, and what a run has trained.

    mini:bert            built in; see `workbench train mini`
    train-0123456789ab   a run that made a model, or how its name begins

Both stand for a folder, which opens as any other does. Costs a look at the folder of runs.
"""

import re
from pathlib import Path

from workbench import places
from workbench.errors import WorkbenchError

MINI = tuple(f"mini:{family}" for family in ("bert", "gpt", "elmo", "t5"))
TRAINED = "model"  # where a run keeps what it trained
RANDOM = "@random"
MAKERS = ("train", "head-pruning", "finetune")  # experiments whose runs keep a model
HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")
_TOKENIZER_FILES = ("tokenizer.json", "vocab.txt", "vocab.json", "*.model", "*.tiktoken")
_RUN = re.compile(rf"(?:{'|'.join(MAKERS)})-\w*")


def located(ref: str) -> str:
    """The folder that one of our names stands for, @random kept; any other reference as it is."""
    source = ref.removesuffix(RANDOM)
    suffix = ref[len(source) :]
    if source.startswith("mini:"):
        return f"{_mini(source)}{suffix}"
    if not _RUN.fullmatch(source):
        if is_folder(source):
            places.require_allowed(Path(source).expanduser())
        return ref
    return ref if Path(source).is_dir() else f"{_trained(source)}{suffix}"


def require_model(ref: str) -> None:
    """An error where a reference can name no model, or its folder lacks a tokenizer."""
    source = located(ref).removesuffix(RANDOM)
    if source.startswith(("elmo:", "vectors:")):
        return
    if not is_folder(source):
        _require_hub_id(source)
        return
    folder = Path(source).expanduser()
    known = any(next(folder.glob(name), None) for name in _TOKENIZER_FILES)
    if (folder / "config.json").is_file() and not known:
        # transformers would make a tokenizer that knows no word, and say nothing
        raise WorkbenchError(
            "the folder has a model, but no tokenizer.",
            where=source,
            remedy="Put the tokenizer's files beside it, with tokenizer.save_pretrained(folder).",
        )


def is_folder(source: str) -> bool:
    """Whether a reference names a folder; what can be no path names none."""
    try:
        return bool(source) and Path(source).expanduser().is_dir()
    except (OSError, ValueError, RuntimeError):
        return False


def _require_hub_id(name: str) -> None:
    if not HUB_ID.fullmatch(name) or name.endswith((".safetensors", ".bin", ".pt", ".json")):
        raise WorkbenchError(
            "this is neither a folder nor a hub id.",
            where=name or "model",
            remedy="Name a folder with config.json, model.safetensors and the tokenizer's files, a "
            "run that trained a model, mini:bert, a hub id such as bert-base-uncased, "
            "elmo:OPTIONS.json,WEIGHTS.hdf5, or vectors:FILE.",
        )


def trained_by(folder: Path) -> str:
    """The name of the run whose model a folder is; "" where it is no run's."""
    run = folder.parent.name
    return run if folder.name == TRAINED and _RUN.fullmatch(run) else ""


def folder_of(ref: str) -> Path | None:
    """The folder on this machine that a model is read from; None where it is not one folder."""
    source = located(ref)
    if source.endswith(RANDOM):
        return None
    folder = Path(source.removeprefix("vectors:")).expanduser()
    return folder if folder.is_dir() else cached(source)


def cached(source: str) -> Path | None:
    """The folder of a hub id in the cache; None where it has yet to be fetched."""
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    try:
        config = try_to_load_from_cache(source, "config.json")
    except HFValidationError:
        return None
    return Path(config).parent if isinstance(config, str) else None


def _mini(name: str) -> Path:
    if name not in MINI:
        raise WorkbenchError(
            f"there is no built-in model {name!r}.", remedy=f"There are {', '.join(MINI)}."
        )
    return Path(__file__).parent / "mini" / name.removeprefix("mini:")


def _trained(name: str) -> Path:
    folder = places.runs()
    runs = folder.glob(f"{name}*") if folder.is_dir() else ()
    models = [run / TRAINED for run in runs if not run.is_symlink()]
    found = [model for model in models if model.is_dir() and not model.is_symlink()]
    if len(found) == 1:
        return found[0]
    raise WorkbenchError(
        f"{len(found) or 'no'} runs that made a model have names that start so.",
        where=name,
        remedy="See workbench runs list; train, head-pruning and finetune make such runs.",
    )
