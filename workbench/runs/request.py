"""From what a user names to a question: references and settings are checked before anything runs.

Models and corpora come as references, or as objects from `wb.load` and `wb.read`; settings as text,
as from a command line, or as values. What does not fit is said here, with the reason, not after an
hour. Costs reading the bytes of models and corpora.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from operator import index
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Any, TypeVar, Union, get_args, get_origin

from workbench.core.errors import WorkbenchError, did_you_mean
from workbench.core.experiment import EXPERIMENTS, Experiment, Settings, misfits, require_number
from workbench.core.files import user_path
from workbench.models.references import (
    RANDOM,
    is_folder,
    located,
    only_fp32,
    rounds_maps,
    trained_by,
)
from workbench.runs.model_facts import known
from workbench.runs.spec import CorpusSpec, ModelSpec, Spec, plain

if TYPE_CHECKING:
    from workbench.corpora import Corpus
    from workbench.engine.model import Model

PREFIXED = ("elmo", "vectors")  # references that name files behind a colon
PRECISIONS = ("auto", "fp32", "bf16", "fp16")
Seen = dict[Any, Any]
T = TypeVar("T")


@dataclass(frozen=True)
class Question:
    """What is asked, with the corpora open (reading starts when they are iterated)."""

    spec: Spec
    experiment: Experiment[Any]
    settings: Settings
    corpora: tuple["Corpus", ...]
    models: tuple["Model | None", ...]  # those that were handed over
    facts: tuple[Mapping[str, Any], ...]

    def misfits(self) -> list[WorkbenchError]:
        """Why this cannot be computed; empty where it can."""
        return misfits(self.experiment, self.settings, self.facts, self.corpora)


def ask(
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
    reading: Mapping[str, Any] | None = None,
    seen: Seen | None = None,
) -> Question:
    """Make a question of it; every mistake in it is an error here. `reading` is for `read`.

    Who asks many passes one `seen` to all, so that each model and corpus is read once.
    """
    kind = EXPERIMENTS[experiment]
    chosen = checked_settings(kind, settings or {})
    require_number(kind, len(models), len(corpora))
    seed = _seed(seed)
    seen = {} if seen is None else seen
    opened = [_corpus(one, reading or {}, seen) for one in corpora]
    if opened:
        split = kind.split_of(opened[0][0], split)
    elif split is not None:
        raise WorkbenchError(
            f"a split {split!r} of no corpus is asked for.", remedy="Name a corpus, or no split."
        )
    device = _device(device or _card_of(models), bool(models) or kind.trains)
    told = [_model(one, kind, seed, device, precision, pickled, seen) for one in models]
    spec = Spec(
        experiment=kind.name,
        version=kind.version,
        models=tuple(model for model, _ in told),
        corpora=tuple(corpus for _, corpus in opened),
        split=split,
        settings=dict(plain(chosen)),
        former_names=kind.settings.renamed(),
        seed=seed,
        device=device,
    )
    handed = tuple(None if isinstance(one, str | Path) else one for one in models)
    facts = tuple(facts for _, facts in told)
    return Question(spec, kind, chosen, tuple(corpus for corpus, _ in opened), handed, facts)


def fits(
    experiment: Experiment[Any], settings: Settings, models: Sequence[str], corpora: Sequence[str]
) -> list[WorkbenchError]:
    """Why these models and corpora cannot be looked at; empty where they can."""
    from workbench.corpora import read

    facts = [{**known(_absolute(ref)).facts, "name": ref} for ref in models]
    return misfits(experiment, settings, facts, [read(ref) for ref in corpora])


# --- settings -------------------------------------------------------------------------------------


def checked_settings(experiment: Experiment[Any], given: Mapping[str, Any]) -> Settings:
    """Settings from values or from text; what is wrong is said in the words of the settings."""
    known_names = list(experiment.settings.model_fields)
    given = experiment.settings.with_current_names(given)
    for name in given:
        if name not in known_names:
            raise WorkbenchError(
                f"{experiment.name} has no setting {name!r}.",
                remedy=did_you_mean(name, known_names),
            )
    values = {
        name: from_text(experiment, name, value) if isinstance(value, str) else value
        for name, value in given.items()
    }
    try:
        found: Settings = experiment.settings.model_validate(values)
    except WorkbenchError as error:
        raise WorkbenchError(
            error.what, code=error.code, where=experiment.name, remedy=error.remedy
        ) from None
    return found


def from_text(experiment: Experiment[Any], name: str, text: str) -> Any:
    """A setting as a user types it: a word, a number, true or false, several by commas, or JSON."""
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
    """The types that an annotation allows: `tuple[int, ...] | None` is a tuple, or None."""
    origin = get_origin(annotation)
    if origin in (Union, UnionType):
        return {kind for part in get_args(annotation) for kind in _kinds(part)}
    return {origin or annotation}


def named(pairs: Iterable[str], what: str) -> dict[str, str]:
    """`key=value` pairs as from the command line."""
    found = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise WorkbenchError(
                f"{pair!r:.60} is no {what}.",
                remedy=f"Write it as key=value, as in {what} max_sentences=100.",
            )
        found[key.strip().replace("-", "_")] = value
    return found


def _seed(given: Any) -> int:
    try:
        if not isinstance(given, bool) and 0 <= index(given) < 2**32:
            return index(given)
    except TypeError:
        pass
    raise WorkbenchError(f"the seed is {given!r:.40}.", remedy="Use a whole number from 0.")


# --- corpora and models ---------------------------------------------------------------------------


def corpus_spec(corpus: "Corpus") -> CorpusSpec:
    """How to read this corpus again, and what it is."""
    from workbench.corpora.content_hash import content_hash

    origin = corpus.origin
    return CorpusSpec(
        ref=_text(origin.ref) if origin else None,
        name=_text(corpus.name),
        hash=content_hash(corpus),
        options=asdict(origin.options) if origin else {},
    )


def _corpus(
    given: "str | Path | Corpus", reading: Mapping[str, Any], seen: Seen
) -> "tuple[Corpus, CorpusSpec]":
    from workbench.corpora import Corpus, read

    def found() -> "tuple[Corpus, CorpusSpec]":
        corpus = given if isinstance(given, Corpus) else read(given, **reading)
        return corpus, corpus_spec(corpus)

    return _once(seen, str(given) if isinstance(given, str | Path) else id(given), found)


def _device(asked: str | None, is_needed: bool) -> str:
    """The device by name; torch is asked only where there is a model, or will be."""
    if not is_needed:
        return "cpu"
    from workbench.models.loading import chosen_device

    return str(chosen_device(asked))


def _card_of(models: "Sequence[str | Path | Model]") -> str | None:
    """The GPU that a model which was handed over is on; None where none is on one."""
    places = [one.device for one in models if not isinstance(one, str | Path)]
    return next((str(place) for place in places if place.type == "cuda"), None)


def _model(
    given: "str | Path | Model",
    experiment: Experiment[Any],
    seed: int,
    device: str,
    precision: str,
    pickled: bool,
    seen: Seen,
) -> tuple[ModelSpec, Mapping[str, Any]]:
    if isinstance(given, str | Path):
        ref = _absolute(_text(str(given)))
        own_seed = seed if ref.endswith(RANDOM) else 0
        found = _once(seen, (ref, own_seed), lambda: known(ref, own_seed, pickled))
        chosen = _precision(precision, experiment, device, found.facts)
        source = ref.removesuffix(RANDOM)
        name = _folder_name(Path(source)) + ref[len(source) :] if is_folder(source) else str(given)
        spec = ModelSpec(ref=ref, name=name, hash=found.hash, precision=chosen, pickled=pickled)
        return spec, {**found.facts, "name": name}
    from workbench.models.references import facts

    told = _once(seen, id(given), lambda: facts(given))
    hashed, name = told["content_hash"], _text(given.name)
    return ModelSpec(ref=None, name=name, hash=hashed, precision=given.precision), told


def _once(seen: Seen, key: object, found: Callable[[], T]) -> T:
    if key not in seen:
        seen[key] = found()
    value: T = seen[key]
    return value


def _precision(
    asked: str, experiment: Experiment[Any], device: str, facts: Mapping[str, Any]
) -> str:
    """The precision asked for; `auto` is bf16 on a GPU, where experiment and model allow it."""
    if asked not in PRECISIONS:
        raise WorkbenchError(
            f"there is no precision {asked!r}.", remedy=did_you_mean(asked, PRECISIONS)
        )
    if only_fp32(facts):
        return "fp32"
    if asked != "auto":
        return asked
    if not device.startswith("cuda") or facts["parameters"] <= experiment.exact_up_to:
        return "fp32"
    import torch

    return "bf16" if torch.cuda.is_bf16_supported() and not rounds_maps(facts) else "fp32"


def _absolute(ref: str) -> str:
    """A reference that means the same from another folder."""
    prefix, _, named = ref.partition(":")
    if prefix in PREFIXED and named:
        return f"{prefix}:" + ",".join(_absolute_path(part) for part in named.split(","))
    source = ref.removesuffix(RANDOM)
    if not source.startswith("mini:"):
        ref = located(ref)
        source = ref.removesuffix(RANDOM)
    return _absolute_path(source) + ref[len(source) :] if is_folder(source) else ref


def _folder_name(folder: Path) -> str:
    return trained_by(folder) or folder.name


def _absolute_path(path: str) -> str:
    return str(user_path(path).absolute())


def _text(name: str) -> str:
    """A name that can be written down."""
    try:
        name.encode()
    except UnicodeEncodeError:
        raise WorkbenchError(
            "this name is not UTF-8.", where=ascii(name), remedy="Rename the file or folder."
        ) from None
    return name


def refs(given: Any) -> tuple[Any, ...]:
    """One or several as several: `model=` takes either."""
    if given is None:
        return ()
    if isinstance(given, list | tuple):
        return tuple(given)
    return (given,)
