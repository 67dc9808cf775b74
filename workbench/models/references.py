"""Names of this project's own models: the built-in models, and models trained by runs.

    mini:bert            built in; see `workbench train mini`
    novels:gpt           built in; see `workbench train novels`
    train-0123456789ab   a run that trained a model, or the beginning of its name

Both stand for a folder, which opens like any other. Suffixes follow any source, in this order:
`@random` for random weights, `@edit:…` for an edit (`models.edit_terms`). Costs: a listing of the
folder of runs.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from workbench.core import machine, names
from workbench.core.errors import WorkbenchError, did_you_mean
from workbench.core.files import read_json
from workbench.engine.task import as_data
from workbench.models.edit_terms import written

if TYPE_CHECKING:
    from workbench.engine.model import Model

MINI = tuple(f"mini:{family}" for family in ("bert", "gpt", "elmo", "t5"))
MORE = tuple(f"mini:{family}" for family in ("xlnet", "unilm", "modernbert", "llama"))
NOVELS = ("novels:bert", "novels:gpt")
BUILT_IN_MODELS = {  # the folder of each, next to this module
    **{name: f"mini/{name.removeprefix('mini:')}" for name in MINI},
    **{name: f"mini-more/{name.removeprefix('mini:')}" for name in MORE},
    **{name: name.replace(":", "/") for name in NOVELS},
}
_READ = {  # what each set was trained on
    "mini": "80,000 generated sentences like those of primer, which have 1,700 different words",
    "novels": "189 English novels, 24 million words",
}
TRAINED = "model"  # the subfolder of a run with the model that it trained
MINI_CORPUS = "primer:size=80000"  # that they were trained on
RANDOM, EDIT = "@random", "@edit:"
_SUFFIX = re.compile(rf"(?P<random>{RANDOM})?(?:{EDIT}(?P<edit>[^@/]*))?\Z")
PREFIXED = ("elmo", "vectors")  # references with files after a colon
# what pseudo-likelihood hides: `lm_losses.hidden_with`, or of XLNet `lm_losses.permuted_losses`
Pseudo = Literal["within-word", "original", "permuted"]
TRAINING_EXPERIMENTS = (  # experiments whose runs save a model
    "train", "head-pruning", "finetune", "distil", "compress", "smaller-model", "retrieve",
)  # fmt: skip
HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")
# parts of the folder of a model: see `task_checkpoint`
BODY, LANGUAGE = "body", "language-model"
TASK, HEAD = "task/task.json", "task/head.safetensors"
PARTS = (BODY, "task", LANGUAGE, "adapter")  # subfolders of one
GGUF = ".gguf"
ADAPTER = "adapter_config.json"  # of an adapter of peft
# names of the numbers of layers and heads in a configuration of transformers
_LAYERS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "encoder_layers")
_HEADS = ("num_attention_heads", "n_head", "n_heads", "num_heads", "encoder_attention_heads")
_TOKENIZER_FILES = ("tokenizer.json", "vocab.txt", "vocab.json", "*.model", "*.tiktoken")
_WEIGHTS = (".safetensors", ".bin", ".pt", ".json")  # endings of files that are no models
_WHO_TRAINS = f"The experiments {', '.join(TRAINING_EXPERIMENTS)} train models."
_ANY_RUN = re.compile(r"[a-z][a-z-]{0,60}-[0-9a-f]{6,64}")
_RUN = re.compile(rf"(?:{'|'.join(TRAINING_EXPERIMENTS)})-\w*")


class Reference(NamedTuple):
    """A reference in its parts."""

    source: str  # a folder, a hub id, a built-in name, …
    suffix: str = ""  # @random, @edit:… or both
    is_random: bool = False
    edit: str = ""

    @property
    def unedited(self) -> str:
        """The model that is edited."""
        return f"{self.source}{RANDOM * self.is_random}"


def split_ref(ref: str) -> Reference:
    """A reference in its parts, as it is written.

    >>> split_ref("mini:bert@random@edit:3.7=0")[2:]
    (True, '3.7=0')
    """
    found = _SUFFIX.search(ref)
    assert found is not None, "it also fits no suffix"
    source, suffix = ref[: found.start()], ref[found.start() :]
    return Reference(source, suffix, bool(found["random"]), found["edit"] or "")


def with_edit(ref: str, edit: str) -> str:
    """The reference of a model with an edit, beside any that it has, as an edit is written.

    >>> with_edit("mini:bert@edit:3.7=0.0", "2.1=2")
    'mini:bert@edit:2.1=2,3.7=0'
    """
    parts = split_ref(ref)
    whole = written(f"{parts.edit},{edit}")
    return f"{parts.unedited}{EDIT}{whole}" if whole else parts.unedited


def as_random(ref: str) -> str:
    """The reference, or name, of the same model with random weights; an edit stays."""
    source, suffix, is_random, _ = split_ref(ref)
    return ref if is_random else f"{source}{RANDOM}{suffix}"


def located(ref: str) -> str:
    """The folder of a built-in or trained model, with suffixes kept; other references unchanged."""
    ref = without_local_names(ref)
    source, suffix, *_ = split_ref(ref)
    if is_built_in(source):
        return f"{_built_in(source)}{suffix}"
    if not _RUN.fullmatch(source):
        if is_local(source):
            machine.require_allowed(Path(source).expanduser())
            if file := gguf_of(source):  # a link in an allowed folder may lead out of it
                machine.require_allowed(file)
        elif _ANY_RUN.fullmatch(source) and (machine.runs() / source).is_dir():
            raise WorkbenchError(
                f"the run {source} has no model.",
                code="model-not-found",
                where=source,
                remedy=f"{_WHO_TRAINS} Name a run of theirs, or the model that this run is about.",
            )
        elif source in TRAINING_EXPERIMENTS:
            raise WorkbenchError(
                "this is the name of an experiment, not of a run.",
                code="model-not-found",
                where=source,
                remedy=f"Name a run of it, or its beginning, such as {source}-01. List the runs "
                "with: workbench runs list.",
            )
        return ref
    return ref if Path(source).is_dir() else f"{_trained(source)}{suffix}"


def is_built_in(source: str) -> bool:
    """Whether a reference is the name of a built-in model, or a mistyped one."""
    return source.startswith(("mini:", "novels:"))


def has_read(ref: str) -> str:
    """What a built-in model was trained on, in words; "" for others, and for random weights."""
    unedited = split_ref(ref).unedited
    return _READ.get(ref.partition(":")[0], "") if unedited in BUILT_IN_MODELS else ""


def without_local_names(ref: str) -> str:
    """A reference with the paths that each `local:NAME` in it stands for."""
    if names.LOCAL not in ref:
        return ref
    source, suffix, *_ = split_ref(ref)
    prefix, paths = _prefix(source)
    found = ",".join(names.path_of("models", path) for path in paths.split(","))
    return f"{prefix}{found}{suffix}"


def with_local_names(ref: str) -> str:
    """A reference without folders, which this machine can open: `local:NAME` for each path.

    A model that a run here trained is named by the run.
    """
    source, suffix, *_ = split_ref(ref)
    prefix, paths = _prefix(source)
    if not prefix and not source.startswith("/"):
        return ref
    run = trained_by(Path(source))
    if run and Path(source).parent == machine.runs() / run:
        return f"{run}{suffix}"
    found = [
        names.local("models", path) if path.startswith("/") else path for path in paths.split(",")
    ]
    return f"{prefix}{','.join(found)}{suffix}"


def _prefix(source: str) -> tuple[str, str]:
    """The prefix of a reference with files after a colon, and its files."""
    kind, colon, paths = source.partition(":")
    return (f"{kind}:", paths) if colon and kind in PREFIXED else ("", source)


def require_model(ref: str) -> None:
    """Raise if a reference cannot name a model, or its folder has no tokenizer."""
    source = split_ref(located(ref)).source
    if source.startswith(("elmo:", "vectors:")) or gguf_of(source) is not None:
        return
    if not is_folder(source):
        _require_hub_id(source)
        return
    folder = Path(source).expanduser()
    folder = net_folder(folder)
    has_tokenizer = any(next(folder.glob(name), None) for name in _TOKENIZER_FILES)
    if (folder / "config.json").is_file() and not has_tokenizer:
        # transformers would silently create a tokenizer with an empty vocabulary
        raise WorkbenchError(
            "the folder has a model but no tokenizer.",
            code="file-not-found",
            where=source,
            remedy="Add the tokenizer files with tokenizer.save_pretrained(folder).",
        )


def is_folder(source: str) -> bool:
    """Whether a reference names an existing folder."""
    try:
        return bool(source) and Path(source).expanduser().is_dir()
    except (OSError, ValueError, RuntimeError):
        return False


def is_local(source: str) -> bool:
    """Whether a reference names an existing folder or GGUF file."""
    return is_folder(source) or gguf_of(source) is not None


def gguf_of(source: str) -> Path | None:
    """The GGUF file that a reference names: itself, or the only one in a folder without config."""
    try:
        path = Path(source).expanduser()
        if source.endswith(GGUF) and not path.is_dir():
            return path if path.is_file() else None
        if not is_folder(source) or (path / "config.json").exists():
            return None
        found = sorted(path.glob(f"*{GGUF}"))
    except (OSError, ValueError, RuntimeError):
        return None
    if len(found) > 1:
        raise WorkbenchError(
            f"the folder has {len(found)} GGUF files.",
            code="model-not-found",
            where=source,
            remedy=f"Name one of them, such as {found[0]}.",
        )
    return found[0] if found else None


def _require_hub_id(name: str) -> None:
    if not HUB_ID.fullmatch(name) or name.endswith((*_WEIGHTS, GGUF)):
        raise WorkbenchError(
            "this is neither a folder nor a hub id.",
            code="model-not-found",
            where=name or "model",
            remedy="Name a folder with config.json, model.safetensors and the tokenizer files, a "
            "run that trained a model, mini:bert, a hub id such as bert-base-uncased, a file.gguf, "
            "elmo:OPTIONS.json,WEIGHTS.hdf5, or vectors:FILE.",
        )


def name_of_model(ref: str) -> str:
    """The name of a model by its reference: as a user gave it, else without folders."""
    source, suffix, *_ = split_ref(ref)
    if given := names.given("models", source):
        return f"{given}{suffix}"
    if is_local(source):
        path = Path(source).expanduser()
        return f"{folder_name(path) if path.is_dir() else path.name}{suffix}"
    prefix, paths = _prefix(source)
    if not prefix:
        return ref
    return f"{prefix}{','.join(Path(path).name for path in paths.split(','))}{suffix}"


def folder_name(folder: Path) -> str:
    """The name of the model in a folder: of its run, of its upload, or of the folder.

    A folder whose name says nothing, such as `model`, is named with the one that it is in.
    """
    name = trained_by(folder) or names.without_hash(folder.name)
    return f"{folder.parent.name}/{name}" if names.SAYS_NOTHING.fullmatch(name) else name


def trained_by(folder: Path) -> str:
    """The name of the run that trained the model in a folder; "" if none did."""
    run = folder.parent.name
    return run if folder.name == TRAINED and _RUN.fullmatch(run) else ""


def has_adapter(folder: Path) -> bool:
    """Whether a folder holds an adapter of peft alone, without a model."""
    return (folder / ADAPTER).is_file() and not (folder / "config.json").is_file()


def known_elsewhere(folder: Path | None, name: str) -> str:
    """The reference of a model for other libraries: its hub id, or the absolute path of its net."""
    if folder is None:
        return name
    cache = next((part for part in folder.parts if part.startswith("models--")), "")
    if cache and "snapshots" in folder.parts:
        return cache.removeprefix("models--").replace("--", "/")
    return str(net_folder(folder).absolute())


def net_folder(folder: Path) -> Path:
    """The folder of the net of a model: its own, or a part of it."""
    return folder / BODY if (folder / BODY / "config.json").is_file() else folder


def folder_of(ref: str) -> Path | None:
    """The local folder that a model is read from; None if there is no single folder."""
    source, _, is_random, _ = split_ref(located(ref))
    if is_random:
        return None
    folder = source.removeprefix("vectors:")
    return Path(folder).expanduser() if is_folder(folder) else cached(source)


def shape_of(ref: str) -> tuple[int, int] | None:
    """The number of layers, and of heads in each, by the model's `config.json`; None if unknown."""
    with suppress(WorkbenchError, OSError, ValueError, RuntimeError):
        folder = folder_of(split_ref(ref).source)
        config = read_json(net_folder(folder) / "config.json") if folder else {}
        counts = (next(filter(None, map(config.get, keys)), None) for keys in (_LAYERS, _HEADS))
        layers, heads = counts
        if isinstance(layers, int) and isinstance(heads, int):
            return layers, heads
    return None


def cached(source: str) -> Path | None:
    """The folder of a hub id in the cache; None if it is not downloaded yet."""
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    try:
        config = try_to_load_from_cache(source, "config.json")
    except HFValidationError:
        return None
    return Path(config).parent if isinstance(config, str) else None


def _built_in(name: str) -> Path:
    if name not in BUILT_IN_MODELS:
        raise WorkbenchError(
            f"there is no built-in model {name!r}.",
            code="model-not-found",
            remedy=did_you_mean(name, BUILT_IN_MODELS, ordered=True),
        )
    return Path(__file__).parent / BUILT_IN_MODELS[name]


def _trained(name: str) -> Path:
    folder = machine.runs()
    runs = folder.glob(f"{name}*") if folder.is_dir() else ()
    models = [run / TRAINED for run in runs if not run.is_symlink()]
    folders = [model for model in models if model.is_dir() and not model.is_symlink()]
    if len(folders) == 1:
        return folders[0]
    raise WorkbenchError(
        f"{len(folders) or 'no'} runs that trained a model have a name that begins with {name}.",
        code="model-not-found",
        where=name,
        remedy=f"List the runs with: workbench runs list. {_WHO_TRAINS} For a run of "
        "another machine, copy the folder of the run into the folder of runs here.",
    )


# --- which models can be opened, with their limitations; facts of an open model -------------------
#
# The facts of files are those of the model opened in fp32. Half-precision files are opened as they
# are, which keeps the weights memory-mapped on disk. Costs: one tensor in fp32.


@dataclass(frozen=True)
class Family:
    """One kind of model, by transformers' `model_type` or our own name."""

    name: str
    stacks: str
    about: str
    limits: str = ""  # what the engine does not support for it


_NO_VALUES = "value vectors are not shown to taps"
FAMILIES = (
    Family("bert", "encoder", "BERT and models of its architecture: SpanBERT, SciBERT, LEGAL-BERT"),
    Family("roberta", "encoder", "RoBERTa"),
    Family("distilbert", "encoder", "DistilBERT"),
    Family("electra", "encoder", "ELECTRA"),
    Family("albert", "encoder", "ALBERT; its layers share weights and are separate sites"),
    Family("modernbert", "encoder", "ModernBERT, with local and global attention"),
    Family("deberta-v2", "encoder", "DeBERTa v2 and v3", _NO_VALUES),
    Family(
        "xlnet",
        "encoder",
        "XLNet, bidirectional; pieces are hidden by the prediction order",
        _NO_VALUES,
    ),
    Family(
        "longformer",
        "encoder",
        "Longformer, local attention",
        f"maps in eval mode only, global attention of first pieces only, {_NO_VALUES}",
    ),
    Family("openai-gpt", "decoder", "the first GPT", _NO_VALUES),
    Family("gpt2", "decoder", "GPT-2"),
    Family("bloom", "decoder", "BLOOM", _NO_VALUES),
    Family("gpt_neox", "decoder", "GPT-NeoX, Pythia"),
    Family("llama", "decoder", "Llama, with grouped-query attention"),
    Family("t5", "encoder, decoder", "T5, T5 1.1"),
    Family("mt5", "encoder, decoder", "mT5"),
    Family("bart", "encoder, decoder", "BART"),
    Family(
        "elmo",
        "encoder",
        "ELMo; with its softmax if trained with Workbench",
        "no attention; fp32 only",
    ),
    Family("vectors", "encoder", "static word vectors", "no attention; fp32 only"),
)
REFERENCES = {
    ", ".join(MINI): "built-in models with a million parameters each, trained on primer",
    ", ".join(MORE): "more of them, with 0.7 million parameters each",
    ", ".join(NOVELS): "built-in models with three million parameters each, trained on 189 English "
    "novels: they read sentences of your own",
    "RUN": "a run that trained a model, such as train-0123456789ab, or the beginning of its name",
    "FOLDER": "a folder with config.json, model.safetensors and the tokenizer files, or an ELMo or "
    "vectors saved by training; nothing is downloaded",
    "FILE.gguf": "a model of llama.cpp, or a folder with one; its weights are dequantised. Needs "
    "the extra gguf",
    "HUB-ID": "a model on the Hugging Face hub, such as bert-base-uncased; from the cache, else "
    "downloaded",
    "elmo:OPTIONS.json,WEIGHTS.hdf5": "the original ELMo's files, which have no softmax",
    "vectors:FILE": "word2vec or GloVe vectors, or a folder saved by Workbench",
    "local:NAME": "what has this name on this machine: given by you, or in the command of a report",
    "REF@random": "any of these with random weights",
    "REF@edit:3.7=0": "any of these without head 7 of layer 3; see the how-to about edits",
    "REF@edit:5.RUN=2": "any of these with a direction that a run of steering stored for layer 5",
}


def catalogue() -> dict[str, Any]:
    """All references and families that can be opened, as plain data."""
    return {"references": REFERENCES, "families": [asdict(family) for family in FAMILIES]}


def facts(model: "Model", *, hashed: bool = True) -> dict[str, Any]:
    """The basic facts of an open model, as plain data; with its hash, which takes longest."""
    return {
        "name": model.name,
        "family": model.family,
        "width": model.width,
        "parameters": model.parameters,
        "longest_input": model.max_pieces,
        "device": str(model.device),
        "precision": model.precision,
        "stacks": [asdict(stack) for stack in model.stacks],
        "sites": len(model.sites),
        "predicts": as_data(model.predicts),
        "objectives": [as_data(task) for task in model.objectives],
        "objective": model.objective,
        "classes": list(model.classes),
        "task": model.task_head.task.kind if model.task_head is not None else "",
        "mixes_layers": getattr(model.task_head, "mix", None) is not None,
        "added": "" if getattr(model, "added", None) is None else model.added.kind,  # type: ignore[attr-defined]
        "removed_heads": model.n_removed_heads,
        "edit": model.edit,
        **({"content_hash": model.content_hash} if hashed else {}),
        "limits": "; ".join(filter(None, _limits(model))),
    }


def require_announced(model: "Model") -> None:
    """Raise if a model of one's own lacks what tells it from others."""
    for part in ("name", "family", "width", "stacks", "content_hash"):
        value = getattr(model, part, None)
        is_text = part not in ("width", "stacks")
        if value is None or (is_text and not isinstance(value, str)):
            raise WorkbenchError(
                f"its {part} is {value!r:.40}" + (", not a string." if is_text else "."),
                code="wrong-type",
                where=type(model).__name__,
                remedy=f"Set {part} in its class, as help(wb.Model) says.",
            )


def only_fp32(facts: Mapping[str, Any]) -> bool:
    """Whether a model of these facts always computes in fp32."""
    return facts["family"] in ("elmo", "vectors")


def has_rounded_maps(facts: Mapping[str, Any]) -> bool:
    """Whether its attention probabilities are rounded to its precision by its own code."""
    from workbench.models.attention_hooks import is_special

    return is_special(facts["family"])


def _limits(model: "Model") -> Iterator[str]:
    yield next((family.limits for family in FAMILIES if family.name == model.family), "")
    yield model.stored_as
    if removed := model.n_removed_heads:
        left = sum(site.heads for site in model.sites)
        yield f"{left} of {left + removed} heads remain, with new indices"
