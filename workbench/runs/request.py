"""Makes a request from user input: references and settings are checked before anything runs.

Models and corpora are references, or objects from `wb.load` and `wb.read`; settings are text, as on
a command line, or values. Every error in them is reported here, before the run starts. Costs:
reading the bytes of models and corpora.
"""

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from operator import index
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Union, get_args, get_origin
from weakref import WeakValueDictionary

from workbench.core.errors import WorkbenchError, require_one_of
from workbench.core.files import user_path
from workbench.core.machine import has_no_gpu
from workbench.core.objectives import facts_for, index_of, name_of
from workbench.experiment.definition import (
    EXPERIMENTS,
    Experiment,
    Settings,
    require_input_counts,
    unmet_requirements,
)
from workbench.models.references import (
    PREFIXED,
    has_rounded_maps,
    is_built_in,
    is_local,
    located,
    name_of_model,
    only_fp32,
    split_ref,
    with_edit,
    without_local_names,
)
from workbench.runs.model_facts import known
from workbench.runs.processes.forked_call import forked_call
from workbench.runs.spec import CorpusSpec, ModelSpec, Spec, plain

if TYPE_CHECKING:
    from workbench.corpora import Corpus
    from workbench.engine.model import Model

PRECISIONS = ("auto", "fp32", "bf16", "fp16")
_PLURALS = {"models": "model", "corpora": "corpus"}  # arguments that take one or several
Seen = dict[Any, Any]
T = TypeVar("T")
# by kind and content hash, the models and corpora of this process that were in a request
_OBJECTS: "WeakValueDictionary[tuple[str, str], Any]" = WeakValueDictionary()


@dataclass(frozen=True)
class Request:
    """A request with its corpora open (they are read when they are iterated)."""

    spec: Spec
    experiment: Experiment[Any]
    settings: Settings
    corpora: tuple["Corpus", ...]
    models: tuple["Model | None", ...]  # those that were passed as objects
    facts: tuple[Mapping[str, Any], ...]

    @property
    def runs_here(self) -> bool:
        """Return whether only this process can compute it, which has its objects or its code."""
        return runs_here(self.spec)

    def unmet_requirements(self) -> list[WorkbenchError]:
        """Return why this cannot be computed; empty if it can."""
        if not self.corpora or self.runs_here:
            return unmet_requirements(self.experiment, self.settings, self.facts, self.corpora)
        unmet = unmet_requirements(self.experiment, self.settings, self.facts)
        suited = [] if unmet or self.experiment.suits is None else [*self.facts]
        parts = {"experiment", "version", "settings", "corpora"}  # not the models: see `suited`
        spec = self.spec.model_dump(mode="json", include=parts)
        return unmet + [
            WorkbenchError(what, code=code, where=where, remedy=remedy)
            for what, code, where, remedy in _unmet_by_corpora(json.dumps([spec, suited]))
        ]


def make_request(
    experiment: str,
    models: Sequence["str | Path | Model"] = (),
    corpora: Sequence["str | Path | Corpus"] = (),
    settings: Mapping[str, Any] | None = None,
    *,
    split: str | None = None,
    seed: int = 0,
    device: str | None = None,
    precision: str = "auto",
    pickled: bool = False,
    objective: str = "",
    reading: Mapping[str, Any] | None = None,
    seen: Seen | None = None,
) -> Request:
    """Make and check a request. `reading` has the options of `read`.

    `objective` is what is measured of the models, of what they predict (default: what each was
    made for).

    Pass the same `seen` to several calls, so that each model and corpus is read once.
    """
    kind = EXPERIMENTS[experiment]
    if objective and not kind.measures and "objective" in kind.settings.model_fields:
        settings, objective = {**(settings or {}), "objective": objective}, ""  # that of a training
    checked = checked_settings(kind, settings or {})
    require_input_counts(kind, len(models), len(corpora))
    seed = _seed(seed)
    seen = {} if seen is None else seen
    opened = [_corpus(corpus, reading or {}, seen) for corpus in corpora]
    if opened:
        split = kind.split_of(opened[0][0], split)
    elif split is not None:
        raise WorkbenchError(
            f"the split {split!r} needs a corpus, and no corpus is named.",
            code="corpus-count",
            remedy="Name a corpus with --corpus, or remove --split.",
        )
    for model in models:
        _require_weights(model)
    device = _device(device or _device_of(models), bool(models) or kind.trains)
    if objective and not kind.measures:
        raise WorkbenchError(
            f"{kind.name} does not measure what a model predicts, so there is no objective to "
            "choose.",
            code="option-conflict",
            remedy="Leave out --objective.",
        )
    described = [
        _for_objective(*_model(model, kind, seed, device, precision, pickled, seen), objective)
        for model in models
    ]
    spec = Spec(
        experiment=kind.name,
        version=kind.version,
        models=tuple(model for model, _ in described),
        corpora=tuple(corpus for _, corpus in opened),
        split=split,
        settings=dict(plain(checked)),
        seed=seed,
        device=device,
    )
    objects = tuple(None if isinstance(named, str | Path) else named for named in models)
    facts = tuple(facts for _, facts in described)
    return Request(spec, kind, checked, tuple(corpus for corpus, _ in opened), objects, facts)


def runs_here(spec: Spec) -> bool:
    """Return whether only this process can compute a request."""
    return not spec.answerable or spec.experiment in EXPERIMENTS.added


def object_of(kind: Literal["model", "corpus"], content_hash: str) -> Any:
    """Return the model or corpus of this process with this content; None if there is none."""
    found = _OBJECTS.get((kind, content_hash))
    if found is not None and kind == "model" and found.content_hash != content_hash:
        found = None  # its weights have changed
    if found is None and kind == "model" and "torch" in sys.modules:
        from workbench.models.live_net import of_hash

        found = of_hash(content_hash)
    return found


@lru_cache(maxsize=128)
def _unmet_by_corpora(content: str) -> list[tuple[str, str, str, str]]:
    """`unmet_by_corpora`, once for the same content, whichever models are compared."""
    return forked_call(unmet_by_corpora, *json.loads(content))


def unmet_by_corpora(
    spec: Mapping[str, Any], facts: Sequence[Mapping[str, Any]]
) -> list[tuple[str, str, str, str]]:
    """Return why the corpora of a spec cannot be used, as the fields of errors.

    `facts` are of the models that the corpora have to suit.
    """
    from workbench.corpora import read

    request = Spec.model_validate(spec)
    kind = EXPERIMENTS[request.experiment]
    corpora = [read(corpus.ref, **corpus.options) for corpus in request.corpora if corpus.ref]
    errors = unmet_requirements(kind, checked_settings(kind, request.settings), facts, corpora)
    return [(error.what, error.code, error.where, error.remedy) for error in errors]


def fits(
    experiment: Experiment[Any], settings: Settings, models: Sequence[str], corpora: Sequence[str]
) -> list[WorkbenchError]:
    """Return why these models and corpora cannot be used; empty if they can."""
    from workbench.corpora import read

    facts = [{**known(absolute(ref)).facts, "name": ref} for ref in models]
    return unmet_requirements(experiment, settings, facts, [read(ref) for ref in corpora])


# --- settings -------------------------------------------------------------------------------------


def checked_settings(experiment: Experiment[Any], values: Mapping[str, Any]) -> Settings:
    """Return checked settings from values or from text; errors quote the help of the setting."""
    known_names = list(experiment.settings.model_fields)
    for name in values:
        if name in _PLURALS and name not in known_names:
            one = _PLURALS[name]
            raise WorkbenchError(
                f"{experiment.name} has no setting {name!r}.",
                code="setting-unknown",
                remedy=f"Name several with {one}=[REF, …] in Python, with --{one} REF --{one} REF "
                "on the command line.",
            )
        require_one_of(
            name, known_names, f"{experiment.name} has no setting {name!r}.", code="setting-unknown"
        )
    values = {
        name: from_text(experiment, name, value) if isinstance(value, str) else value
        for name, value in values.items()
    }
    try:
        settings: Settings = experiment.settings.model_validate(values)
    except WorkbenchError as error:
        raise WorkbenchError(
            error.what, code=error.code, where=experiment.name, remedy=error.remedy
        ) from None
    return settings


def from_text(experiment: Experiment[Any], name: str, text: str) -> Any:
    """Parse a setting as typed: a word, number, true or false, comma-separated list, or JSON."""
    text = without_local_names(text)
    kinds = _kinds(experiment.settings.model_fields[name].annotation)
    if text.lower() in ("none", "null", "") and type(None) in kinds:
        return None
    if text.startswith(("[", "{")) and str not in kinds:
        try:
            return json.loads(text)
        except ValueError:
            pass
    if kinds & {tuple, list, set, frozenset}:
        return [part.strip() for part in text.split(",") if part.strip()]
    return text


def _kinds(annotation: Any) -> set[Any]:
    """Return the types that an annotation allows: `tuple[int, ...] | None` is a tuple, or None."""
    origin = get_origin(annotation)
    if origin in (Union, UnionType):
        return {kind for part in get_args(annotation) for kind in _kinds(part)}
    return {origin or annotation}


def named(pairs: Iterable[str], what: str) -> dict[str, str]:
    """Return the `key=value` pairs of a command line as a dictionary."""
    values = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise WorkbenchError(
                f"{pair!r:.60} has no value." if key else f"{pair!r:.60} has no name.",
                code="setting-invalid",
                remedy=f"Write each {what} as name=value, such as max_sentences=100.",
            )
        values[key.strip().replace("-", "_")] = value
    return values


def _seed(value: Any) -> int:
    try:
        if not isinstance(value, bool) and 0 <= index(value) < 2**32:
            return index(value)
    except TypeError:
        pass
    raise WorkbenchError(
        f"the seed is {value!r:.40}.",
        code="seed-invalid",
        remedy="Use a whole number from 0 to 4294967295.",
    )


# --- corpora and models ---------------------------------------------------------------------------


def corpus_spec(corpus: "Corpus") -> CorpusSpec:
    """Return the reference, name, hash and options of a corpus."""
    from workbench.corpora.content_hash import content_hash

    origin = corpus.origin
    return CorpusSpec(
        ref=_text(origin.ref) if origin else None,
        name=_text(corpus.name),
        hash=content_hash(corpus),
        options=asdict(origin.options) if origin else {},
    )


def _corpus(
    source: "str | Path | Corpus", reading: Mapping[str, Any], seen: Seen
) -> "tuple[Corpus, CorpusSpec]":
    """Open a corpus; if this process has not imported spaCy, another one will read it."""
    from workbench.corpora import Corpus, located, read

    def opened() -> "tuple[Corpus, CorpusSpec]":
        if isinstance(source, Corpus):
            corpus = source
        else:
            corpus = (read if "spacy" in sys.modules else located)(source, **reading)
        spec = corpus_spec(corpus)
        if spec.ref is None:
            _OBJECTS["corpus", spec.hash] = corpus
        return corpus, spec

    return _once(seen, str(source) if isinstance(source, str | Path) else id(source), opened)


def _device(name: str | None, is_needed: bool) -> str:
    """Return the name of the device; torch is used only if there may be a GPU."""
    if not is_needed or name == "cpu":
        return "cpu"
    if name is None and "torch" not in sys.modules and has_no_gpu():
        return "cpu"
    return forked_call(device_name, name)


def device_name(requested: str | None) -> str:
    """Return torch's name of the requested device (default: a GPU if available)."""
    from workbench.models.loading import resolve_device

    return str(resolve_device(requested))


def _device_of(models: "Sequence[str | Path | Model]") -> str | None:
    """Return the device of the models that were passed as objects, a GPU if one is on a GPU."""
    devices = [named.device for named in models if not isinstance(named, str | Path)]
    return next((str(each) for each in sorted(devices, key=lambda d: d.type != "cuda")), None)


def _require_weights(named: "str | Path | Model") -> None:
    if not isinstance(named, str | Path) and named.device.type == "meta":
        raise WorkbenchError(
            "the net is on the device meta: it has no weights to compute with.",
            code="no-weights",
            where=named.name,
            remedy="Open it with weights; wb.load of a net on meta has facts only.",
        )


def _model(
    source: "str | Path | Model",
    experiment: Experiment[Any],
    seed: int,
    device: str,
    precision: str,
    pickled: bool,
    seen: Seen,
) -> tuple[ModelSpec, Mapping[str, Any]]:
    if isinstance(source, str | Path):
        ref = absolute(_text(str(source)))
        weights_seed = seed if split_ref(ref).is_random else 0
        model = _once(seen, (ref, weights_seed), lambda: known(ref, weights_seed, pickled))
        precision = _precision(precision, experiment, device, model.facts)
        name = name_of_model(ref)
        spec = ModelSpec(ref=ref, name=name, hash=model.hash, precision=precision, pickled=pickled)
        return spec, {**model.facts, "name": name}
    from workbench.models.references import facts as facts_of
    from workbench.models.references import require_announced

    def facts_of_object() -> Mapping[str, Any]:
        with source.unchanging(of_any_size=True):
            require_announced(source)
            return facts_of(source)

    facts = _once(seen, id(source), facts_of_object)
    content_hash, name = facts["content_hash"], _text(source.name)
    folder, mark, change = name.partition(" (")
    if Path(name).is_absolute() or is_local(split_ref(folder).source):  # that it was opened from
        name = f"{name_of_model(absolute(folder))}{mark}{change}"
    _OBJECTS["model", content_hash] = source
    spec = ModelSpec(ref=None, name=name, hash=content_hash, precision=source.precision)
    return spec, {**facts, "name": name}


def _for_objective(
    model: ModelSpec, facts: Mapping[str, Any], objective: str
) -> tuple[ModelSpec, Mapping[str, Any]]:
    """A model as it is used for an objective; without a name, for what it was made for."""
    if not objective:
        return model, facts
    index = index_of(objective, facts["objectives"], model.name)
    chosen = facts["objectives"][index]
    name = name_of(chosen) if index else ""  # the same request as without a name
    return model.model_copy(update={"objective": name}), facts_for(facts, chosen)


def _once(seen: Seen, key: object, compute: Callable[[], T]) -> T:
    if key not in seen:
        seen[key] = compute()
    value: T = seen[key]
    return value


def _precision(
    precision: str, experiment: Experiment[Any], device: str, facts: Mapping[str, Any]
) -> str:
    """Return the precision to use; `auto` is bf16 on a GPU if the experiment and model allow it."""
    require_one_of(
        precision, PRECISIONS, f"there is no precision {precision!r}.", code="precision-unknown"
    )
    if only_fp32(facts):
        return "fp32"
    if precision != "auto":
        return precision
    if not device.startswith("cuda") or facts["parameters"] <= experiment.exact_up_to:
        return "fp32"
    return forked_call(precision_on_gpu, facts["family"])


def precision_on_gpu(family: str) -> str:
    """Return the default precision of a family of models on this machine's GPU."""
    import torch

    is_exact = torch.cuda.is_bf16_supported() and not has_rounded_maps({"family": family})
    return "bf16" if is_exact else "fp32"


def absolute(ref: str) -> str:
    """Return a reference with absolute paths, valid from any folder."""
    source, suffix, *_ = split_ref(with_edit(without_local_names(ref), ""))
    prefix, _, paths = source.partition(":")
    if prefix in PREFIXED and paths:
        absolute_paths = ",".join(_absolute_path(path) for path in paths.split(","))
        return f"{prefix}:{absolute_paths}{suffix}"
    if not is_built_in(source):
        source = located(source)
    return f"{_absolute_path(source) if is_local(source) else source}{suffix}"


def _absolute_path(path: str) -> str:
    return str(user_path(path).absolute())


def _text(name: str) -> str:
    """Return a name, or raise an error if it cannot be written as UTF-8."""
    try:
        name.encode()
    except UnicodeEncodeError:
        raise WorkbenchError(
            "this name is not UTF-8.",
            code="path-invalid",
            where=ascii(name),
            remedy="Rename the file or folder.",
        ) from None
    return name


# --- what Python passes ---------------------------------------------------------------------------


def models_of(value: Any) -> "tuple[str | Path | Model, ...]":
    """Return one or several models, or nets in memory, each alone or as (net, tokenizer)."""
    if _is_net(value) or (isinstance(value, tuple) and len(value) == 2 and _is_pair(value)):
        value = [value]
    return tuple(_opened_net(each) for each in refs(value))


def _opened_net(value: Any) -> "str | Path | Model":
    if isinstance(value, str | Path) or hasattr(type(value), "encode"):
        return value  # type: ignore[no-any-return]
    if not (_is_net(value) or _is_pair(value)):
        raise WorkbenchError(
            f"this is no model: {value!r:.40} ({type(value).__name__}).",
            code="wrong-type",
            where="model",
            remedy="Pass a reference, such as mini:bert, a model of wb.load, or a net of "
            "transformers with its tokenizer: model=(net, tokenizer).",
        )
    from workbench.models.loading import load

    net, tokenizer = value if isinstance(value, tuple) else (value, None)
    return load(net, tokenizer)


def _is_net(value: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.nn.Module)


def _is_pair(value: Any) -> bool:
    """Whether this is a net with its tokenizer."""
    return isinstance(value, tuple) and _is_net(value[0]) and hasattr(value[-1], "is_fast")


def corpora_of(value: Any) -> "tuple[Any, ...]":
    """Return one or several corpora: references as they are, and what `wb.read` reads."""
    from workbench.corpora import Corpus, is_reference, read

    def one(each: Any) -> Any:
        return each if is_reference(each) or isinstance(each, Corpus) else read(each)

    several = isinstance(value, list | tuple) and all(
        is_reference(each) or isinstance(each, Corpus) or hasattr(each, "columns") for each in value
    )
    return () if value is None else tuple(map(one, value if several and value else [value]))


def is_list(value: Any) -> bool:
    """Whether these are several values: a list, a range, an array."""
    one_dimension = getattr(value, "ndim", 0) == 1
    return isinstance(value, list | tuple | range | set | frozenset) or one_dimension


def is_several(experiment: Experiment[Any], name: str, value: Any) -> bool:
    """Whether these are several values of a setting, and not one value that is a list."""
    field = experiment.settings.model_fields.get(name)
    kinds = set() if field is None else _kinds(field.annotation)
    return all(map(is_list, value)) if kinds & {tuple, list, set, frozenset} else True


def refs(value: Any) -> tuple[Any, ...]:
    """Return one or several values as a tuple; `model=` takes either."""
    if value is None:
        return ()
    if isinstance(value, list | tuple):
        return tuple(value)
    return (value,)
