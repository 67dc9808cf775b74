"""The request of a run as a file: `spec.json`, complete, with every setting.

The fingerprint is a hash of content: of weights, tokenizers, corpora, settings, seed, precision,
split and the experiment's version. The same request has the same name under any path, and a changed
checkpoint under the old path is a different request. Costs: nothing except its hashes.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict

from workbench.core import names
from workbench.core.errors import WorkbenchError
from workbench.core.files import parse_json, read_regular, reason_of, write_atomically
from workbench.core.names import Kind
from workbench.models.references import split_ref

FILE = "spec.json"
FORMAT = 1
DIGITS = 16  # of the fingerprint, in a run's name
Input = TypeVar("Input", "ModelSpec", "CorpusSpec")


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ModelSpec(_Part):
    """A model: its reference (None: it was passed as an object), name, hash and precision."""

    ref: str | None
    name: str
    hash: str
    precision: str
    pickled: bool = False
    objective: str = ""  # "": what it was made for


class CorpusSpec(_Part):
    """A corpus: its reference (None: it was passed as an object), name, hash and options."""

    ref: str | None
    name: str
    hash: str
    options: dict[str, Any] = {}


class Spec(_Part):
    """One request. In a sweep, `sweep` has the swept values and `parts` a request for each run."""

    format: int = FORMAT
    experiment: str
    version: int
    models: tuple[ModelSpec, ...] = ()
    corpora: tuple[CorpusSpec, ...] = ()
    split: str | None = None
    settings: dict[str, Any] = {}
    seed: int = 0
    device: str = "cpu"
    sweep: dict[str, list[Any]] = {}
    parts: tuple["Spec", ...] = ()

    @property
    def fingerprint(self) -> str:
        """Return a hash of all the result depends on."""
        content: dict[str, Any] = {
            "experiment": [self.experiment, self.version],
            "models": [[model.hash, model.precision, model.objective] for model in self.models],
            "corpora": [corpus.hash for corpus in self.corpora],
            "split": self.split,
            "settings": self.settings,
            "seed": self.seed,
        }
        if self.sweep:
            sweep = dict[str, Any](self.sweep)
            for name in ("model", "corpus") & sweep.keys():  # the parts have their content
                sweep[name] = len(sweep[name])
            content = {"sweep": sweep, "parts": [part.fingerprint for part in self.parts]}
        text = json.dumps(content, sort_keys=True, ensure_ascii=True)
        return hashlib.sha256(text.encode()).hexdigest()

    @property
    def name(self) -> str:
        """Return the name of the run."""
        kind = f"{self.experiment}-sweep" if self.sweep else self.experiment
        return f"{kind}-{self.fingerprint[:DIGITS]}"

    @property
    def answerable(self) -> bool:
        """Return whether another process can open the models and corpora."""
        return not any(True for _ in self.objects())

    def objects(self) -> "Iterator[ModelSpec | CorpusSpec]":
        """Yield the models and corpora that were passed as objects."""
        for part in self.parts or (self,):
            yield from (model for model in part.models if model.ref is None)
            yield from (corpus for corpus in part.corpora if corpus.ref is None)


def cannot_reopen(item: ModelSpec | CorpusSpec) -> WorkbenchError:
    """Return the error for a model or corpus that was passed as an object, which is gone."""
    if isinstance(item, CorpusSpec):
        what, saved = "corpus", "write it to a file with wb.write, and name the file"
    else:
        what, saved = "model", "save it with model.save(FOLDER), and name the folder"
    return WorkbenchError(
        f"the {what} was a live object with the content hash {item.hash[:DIGITS]}, which this "
        "process does not have.",
        code="reference-needed",
        where=item.name,
        remedy=f"Call wb.run again with the same object; or {saved}, for a run that a command "
        "repeats.",
    )


def with_given_names(spec: Spec) -> Spec:
    """Return the spec with the names that users gave to its models and corpora since."""

    def renamed(kind: Kind, items: tuple[Input, ...]) -> tuple[Input, ...]:
        return tuple(
            item.model_copy(update={"name": _given(kind, item.ref or "") or item.name})
            for item in items
        )

    return spec.model_copy(
        update={
            "models": renamed("models", spec.models),
            "corpora": renamed("corpora", spec.corpora),
            "parts": tuple(map(with_given_names, spec.parts)),
        }
    )


def names_in(specs: Iterable[Spec]) -> tuple[list[str], list[str]]:
    """Return the names of all models and corpora, each once."""
    parts = [part for spec in specs for part in (spec.parts or (spec,))]
    return (
        list(dict.fromkeys(model.name for part in parts for model in part.models)),
        list(dict.fromkeys(corpus.name for part in parts for corpus in part.corpora)),
    )


def _given(kind: Kind, ref: str) -> str:
    source, suffix, *_ = split_ref(ref)
    given = names.given(kind, source)
    return f"{given}{suffix}" if given else ""


def write(folder: Path, spec: Spec) -> None:
    """Write a spec into the folder of its run."""
    write_atomically(unlinked(folder / FILE), json.dumps(spec.model_dump(), indent=1))


def read(folder: Path) -> Spec:
    """Read the spec of a run."""
    path = unlinked(folder / FILE)
    try:
        content = read_regular(path)
        data = parse_json(content)  # raises if it is nested too deeply to be shown
        written_format = data.get("format") if isinstance(data, dict) else None
        if isinstance(written_format, int) and written_format != FORMAT:
            raise OtherFormatError(path, written_format)
        return Spec.model_validate_json(content)
    except (OSError, ValueError) as error:
        raise WorkbenchError(
            f"the spec of the run cannot be read: {reason_of(error)}.",
            code="run-damaged",
            where=str(path),
            remedy="Start the same run again, or remove it with workbench runs rm.",
        ) from None


class OtherFormatError(WorkbenchError):
    """Another version of Workbench wrote this run, and this version could misread it."""

    def __init__(self, path: Path, written_format: int) -> None:
        super().__init__(
            "another version of Workbench made this run (its spec has format "
            f"{written_format}, this version reads {FORMAT}).",
            code="run-format",
            where=str(path),
            remedy="Use the version that made it, or name another folder in WORKBENCH_RUNS.",
        )
        self.path, self.written_format = path, written_format

    def __reduce__(self) -> tuple[object, ...]:
        return OtherFormatError, (self.path, self.written_format)


def plain(settings: BaseModel) -> Mapping[str, Any]:
    """Return all settings as JSON values; equal settings give equal JSON."""
    values = settings.model_dump(mode="json")
    for name, value in settings:
        if isinstance(value, set | frozenset):
            values[name] = sorted(values[name], key=str)
    return values


# --- names that are safe as paths -----------------------------------------------------------------
#
# Names of runs, tables, figures and arrays become paths that never leave the folder of runs.
#
# A name is short and has no separators, so it cannot be a path; the file must not be a link. Costs:
# one system call.

LONGEST = 120
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


def checked(name: str, what: str) -> str:
    """Return the name, or raise an error if it is not a valid name."""
    if not is_name(name):
        shown = f"{name!r:.60}"
        raise WorkbenchError(
            f"{shown}{'…' if len(repr(name)) > len(shown) else ''} cannot be the name of a {what}.",
            code="name-invalid",
            remedy="A name has letters, digits, '-', '_' and '.', and a maximum of "
            f"{LONGEST} characters.",
        )
    return name


def is_name(name: object) -> bool:
    """Return whether this is a valid name."""
    if not isinstance(name, str) or len(name) > LONGEST:
        return False
    return bool(_NAME.fullmatch(name)) and ".." not in name


def inside(folder: Path, name: str, ending: str, what: str) -> Path:
    """Return the path of a file in the folder of a run."""
    return unlinked(folder / f"{checked(name, what)}{ending}")


def unlinked(path: Path) -> Path:
    """Return a path in the folder of a run; an error for a link, which could lead out of it."""
    no_link(path.parent)
    return no_link(path)


def no_link(path: Path) -> Path:
    """Return a path, or raise an error if it is a link."""
    if path.is_symlink():
        raise WorkbenchError(
            "this is a link, and links are not followed in the folder of runs.",
            code="unsafe-path",
            where=str(path),
            remedy="Replace the link by the file or folder it points to.",
        )
    return path
