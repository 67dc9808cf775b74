"""What is asked: `spec.json`, complete, so that nothing is implied.

The fingerprint is a hash of content: of weights, tokenizers, corpora, settings, seed, precision,
split and the experiment's version. The same question has the same name under any path, and another
checkpoint under the old path is another question. Costs nothing but the hashes in it.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict

from workbench.core.errors import WorkbenchError
from workbench.core.experiment import EXPERIMENTS, Settings
from workbench.core.files import parsed_json, read_regular, reason_of, written_whole

FILE = "spec.json"
FORMAT = 2  # 2: specs have former_names
DIGITS = 16  # of the fingerprint, in a run's name
T = TypeVar("T")


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ModelSpec(_Part):
    """A model: how to open it again (None: it was handed over as an object), and what it was."""

    ref: str | None
    name: str
    hash: str
    precision: str
    pickled: bool = False


class CorpusSpec(_Part):
    """A corpus: how to read it again (None: it was handed over as an object), and what it was."""

    ref: str | None
    name: str
    hash: str
    options: dict[str, Any] = {}


class Spec(_Part):
    """One question. Of a sweep, `sweep` says what varies and `parts` are its questions."""

    format: int = FORMAT
    experiment: str
    version: int
    models: tuple[ModelSpec, ...] = ()
    corpora: tuple[CorpusSpec, ...] = ()
    split: str | None = None
    settings: dict[str, Any] = {}
    former_names: dict[str, str] = {}  # of settings: the name now, and the first name
    seed: int = 0
    device: str = "cpu"
    sweep: dict[str, list[Any]] = {}
    parts: tuple["Spec", ...] = ()

    @property
    def fingerprint(self) -> str:
        """A hash of everything that the result depends on; of settings under their first names."""
        question: dict[str, Any] = {
            "experiment": [self.experiment, self.version],
            "models": [[model.hash, model.precision] for model in self.models],
            "corpora": [corpus.hash for corpus in self.corpora],
            "split": self.split,
            "settings": self._with_first_names(self.settings),
            "seed": self.seed,
        }
        if self.sweep:
            sweep = self._with_first_names(self.sweep)
            question = {"sweep": sweep, "parts": [part.fingerprint for part in self.parts]}
        text = json.dumps(question, sort_keys=True, ensure_ascii=True)
        return hashlib.sha256(text.encode()).hexdigest()

    def _with_first_names(self, values: Mapping[str, Any]) -> dict[str, Any]:
        return {self.former_names.get(name, name): value for name, value in values.items()}

    @property
    def name(self) -> str:
        """The run's name."""
        kind = f"{self.experiment}-sweep" if self.sweep else self.experiment
        return f"{kind}-{self.fingerprint[:DIGITS]}"

    @property
    def answerable(self) -> bool:
        """Whether another process can open what it looks at."""
        refs = [*(model.ref for model in self.models), *(corpus.ref for corpus in self.corpora)]
        return None not in refs and all(part.answerable for part in self.parts)


def current_settings(spec: Spec) -> dict[str, Any]:
    """The settings under their current names, whichever version wrote the spec."""
    return _with_current_names(spec.experiment, spec.settings)


def current_sweep(spec: Spec) -> dict[str, list[Any]]:
    """The swept values under the current names of settings, whichever version wrote the spec."""
    return _with_current_names(spec.experiment, spec.sweep)


def _with_current_names(experiment: str, values: dict[str, T]) -> dict[str, T]:
    if experiment not in EXPERIMENTS:
        return values
    try:
        kind: type[Settings] = EXPERIMENTS[experiment].settings
        return kind.with_current_names(values)
    except WorkbenchError:  # a package whose experiment cannot be imported
        return values


def write(folder: Path, spec: Spec) -> None:
    """Put a spec into its run's folder."""
    with written_whole(unlinked(folder / FILE)) as draft:
        draft.write_text(json.dumps(spec.model_dump(), indent=1))


def read(folder: Path) -> Spec:
    """The spec of a run."""
    path = unlinked(folder / FILE)
    try:
        content = read_regular(path)
        found = parsed_json(content)  # raises where it is too deep to be shown
        written = found.get("format") if isinstance(found, dict) else None
        if isinstance(written, int) and written > FORMAT:
            raise LaterVersionError(path, written)
        return Spec.model_validate_json(content)
    except (OSError, ValueError) as error:
        raise WorkbenchError(
            f"the run's spec cannot be read: {reason_of(error)}.",
            where=str(path),
            remedy="Ask the same question again, or remove the run.",
        ) from None


class LaterVersionError(WorkbenchError):
    """A later version of Workbench wrote this run, whose question this one may misread."""

    def __init__(self, path: Path, written: int) -> None:
        super().__init__(
            f"a later version of Workbench made this run (its spec has format {written}, this "
            f"version reads {FORMAT}).",
            where=str(path),
            remedy="Upgrade Workbench here, or name another folder in WORKBENCH_RUNS.",
        )
        self.path, self.written = path, written

    def __reduce__(self) -> tuple[object, ...]:
        return LaterVersionError, (self.path, self.written)


def plain(settings: BaseModel) -> Mapping[str, Any]:
    """Settings as JSON has them, every one, so that equal ones are written equally."""
    found = settings.model_dump(mode="json")
    for name, value in settings:
        if isinstance(value, set | frozenset):
            found[name] = sorted(found[name], key=str)
    return found


# --- names that are safe as paths -----------------------------------------------------------------
#
# Names of runs, tables, figures and arrays, and the paths they stand for: never out of the
# folder.
#
# A name is short and plain, so that it can be no path; what it stands for must be no link. Costs
# one look at the disk.

LONGEST = 120
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


def checked(name: str, what: str) -> str:
    """The name, if it can be one."""
    if not is_name(name):
        said = f"{name!r:.60}"
        raise WorkbenchError(
            f"{said}{'…' if len(repr(name)) > len(said) else ''} can be no name of a {what}.",
            remedy=f"A name is letters, digits, '-', '_' and '.', at most {LONGEST} of them.",
        )
    return name


def is_name(name: object) -> bool:
    """Whether this can be a name."""
    if not isinstance(name, str) or len(name) > LONGEST:
        return False
    return bool(_NAME.fullmatch(name)) and ".." not in name


def inside(folder: Path, name: str, ending: str, what: str) -> Path:
    """The path of a file in a run's folder."""
    return unlinked(folder / f"{checked(name, what)}{ending}")


def unlinked(path: Path) -> Path:
    """A path in a run's folder; a link there would lead out of it, and is refused."""
    no_link(path.parent)
    return no_link(path)


def no_link(path: Path) -> Path:
    """A path, if it is no link itself."""
    if path.is_symlink():
        raise WorkbenchError(
            "this is a link, and links are not followed in runs.",
            where=str(path),
            remedy="Put what it leads to in its place.",
        )
    return path
