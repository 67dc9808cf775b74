"""What a report says, whatever its form: read from the runs' folders, and nothing but from there.

Every form shows the same: what was asked, of what, with what and when; caveats beside what they
touch; figures and tables; how to make it again. Costs reading the tables.
"""

import inspect
import json
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pandas as pd

from workbench.core.errors import WorkbenchError
from workbench.core.experiment import EXPERIMENTS, Caveat, Experiment
from workbench.figures.sanitize import harmless
from workbench.report.format import Grid, grid, number
from workbench.runs.compare import LETTERS, compared
from workbench.runs.run import PROVENANCE, Run, damaged
from workbench.runs.spec import (
    CorpusSpec,
    ModelSpec,
    Spec,
    current_settings,
    current_sweep,
    is_name,
)

# --- comparison of runs ---------------------------------------------------------------------------
#
# Runs of one experiment side by side: what was asked differently, and tables aligned by keys.
#
# The first run is A; differences are a later run's value less A's, with their sign. Costs a join
# a table.

_OWN = ("When", "With what")  # differ in any two runs; said with each


@dataclass(frozen=True)
class Comparison:
    """What two or more runs of one experiment have in common and not."""

    experiment: str
    runs: Mapping[str, Run]  # by letter
    asked: Grid  # what differs in the questions
    tables: tuple[Grid, ...]
    notes: tuple[str, ...]  # why a table is not there

    @property
    def title(self) -> str:
        return f"{len(self.runs)} runs of {self.experiment} compared"


def comparisons(runs: Sequence[Run]) -> tuple[Comparison, ...]:
    """One for each experiment of which there are several runs."""
    by_experiment: dict[str, list[Run]] = {}
    for run in runs:
        if not run.spec.sweep:
            by_experiment.setdefault(run.spec.experiment, []).append(run)
    return tuple(
        _comparison(experiment, found)
        for experiment, found in by_experiment.items()
        if len(found) > 1
    )


def _comparison(experiment: str, runs: Sequence[Run]) -> Comparison:
    lettered = dict(zip(LETTERS, runs, strict=False))
    tables, notes = [], []
    names = list(dict.fromkeys(name for run in runs for name in run.tables))
    if len(runs) > len(LETTERS):
        names = []
        notes.append(f"{len(runs)} runs are too many to lay side by side: {len(LETTERS)} at most.")
    for name in names:
        if lacking := [letter for letter, run in lettered.items() if name not in run.tables]:
            notes.append(f"{name}: there is none of {', '.join(lacking)}.")
            continue
        try:
            aligned = _aligned(name, runs)
        except (WorkbenchError, ValueError, KeyError, TypeError) as error:
            why = (
                error.what
                if isinstance(error, WorkbenchError)
                else "its keys do not tell rows apart."
            )
            notes.append(f"{name}: {why}")
            continue
        if aligned.columns:
            tables.append(aligned)
    return Comparison(experiment, lettered, _differing(lettered), tuple(tables), tuple(notes))


def _aligned(name: str, runs: Sequence[Run]) -> Grid:
    about, keys = (
        runs[0].tables[name].attrs.get("about", ""),
        runs[0].tables[name].attrs.get("keys"),
    )
    ((_, table),) = compared([{name: run.tables[name]} for run in runs])
    table.attrs = {"about": about}
    return grid(name, table, keys or ())


def _differing(runs: Mapping[str, Run]) -> Grid:
    """One row for everything in which the questions differ."""
    asked = {letter: _flat(run) for letter, run in runs.items()}
    names = dict.fromkeys(name for rows in asked.values() for name in rows)
    rows = [
        (name, *(own.get(name) for own in asked.values()))
        for name in names
        if len({own.get(name) for own in asked.values()}) > 1
    ]
    table = pd.DataFrame(rows, columns=["", *runs])
    table.attrs = {"about": "What differs between the questions."}
    return grid("asked", table, [""])


def _flat(run: Run) -> Mapping[str, str]:
    """Facts by name; of several of one name, as of two models, all in one."""
    found: dict[str, str] = {}
    subject = ""
    for group, rows in facts(run).items():
        if group in _OWN:
            continue
        for name, value in rows:
            subject = name if name in ("model", "corpus") else subject
            label = f"{name} of the {subject}" if name == "content hash" else name
            found[label] = f"{found[label]}; {value}" if label in found else value
    return found


# --- the request of a run -------------------------------------------------------------------------
#
# What a run was asked, of what, with what and when, in words; and the command that asks it again.
#
# All of it is read from the run's folder. Costs nothing but the import of the experiment, where
# it is installed, for its defaults.

Rows = tuple[tuple[str, str], ...]
READING: Mapping[
    str, tuple[Any, str]
] = {  # how a corpus is read: the default, and the option of the command
    "unit": ("sentence", "--unit"),
    "pipeline": (None, "--pipeline"),
    "language": ("en", "--language"),
    "text": ([], "--text"),
    "labels": ([], "--label"),
    "layer": (None, "--edge-layer"),
}
WIDE = 88  # characters of a command in one line


def registered(name: str) -> Experiment[Any] | None:
    """The experiment, where it is installed and can be imported."""
    try:
        return EXPERIMENTS[name]
    except WorkbenchError:
        return None


def facts(run: Run) -> Mapping[str, Rows]:
    """Everything there is to know of how an answer came about, in groups."""
    models, corpora = _specs(run.spec)
    return {
        "What was asked": tuple(_asked(run)),
        "Of what": (
            *(row for model in models for row in _model(model, run)),
            *(row for corpus in corpora for row in _corpus(corpus, run)),
        ),
        "With what": tuple(_tools(run)),
        "When": tuple(_times(run)),
    }


def command(asked: Spec) -> str:
    """The command that asks the same; in Python where something was handed over as an object."""
    asked = Spec.model_validate_json(asked.model_dump_json())  # lists for tuples, as on disk
    if not asked.answerable:
        return _in_python(asked)
    words, sweep = ["workbench", "run", asked.experiment], current_sweep(asked)
    for key, items in (("model", asked.models), ("corpus", asked.corpora)):
        if key not in sweep:
            words += [f"--{key}={item.ref}" for item in items]
    words += _reading(asked.corpora)
    if "split" not in sweep and asked.split is not None:
        words.append(f"--split={asked.split}")
    settings = [f"{key}={_written(value)}" for key, value in _to_be_set(asked).items()]
    words += [f"--set={setting}" for setting in settings]
    swept = [f"{key}={','.join(map(_written, values))}" for key, values in sweep.items()]
    words += [f"--sweep={one}" for one in swept]
    if "seed" not in sweep:
        words.append(f"--seed={asked.seed}")
    if asked.models:
        words.append(f"--device={asked.device}")
        if "precision" not in sweep:
            words.append(f"--precision={_precision(asked.models)}")
    if any(model.pickled for model in asked.models):
        words.append("--pickled")
    return _folded(words)


def _asked(run: Run) -> Iterator[tuple[str, str]]:
    asked, experiment = run.spec, registered(run.spec.experiment)
    fields, sweep = experiment.settings.model_fields if experiment else {}, run.sweep
    yield "run", run.name
    yield "experiment", f"{asked.experiment}, version {asked.version}"
    for key, value in run.settings.items():
        if key in sweep:
            continue
        usual = key in fields and fields[key].default == value
        yield key, _in_words(key, value) + (" (the default)" if usual else "")
    if "split" not in sweep and asked.corpora:
        yield "split", asked.split or "all of them"
    if "seed" not in sweep:
        yield "seed", str(asked.seed)
    for key, values in sweep.items():
        yield f"{key}, swept", ", ".join(map(_written, values))


def _model(model: ModelSpec, run: Run) -> Iterator[tuple[str, str]]:
    told = _told(run, "models", "content_hash", model.hash)
    yield "model", model.name + _origin(model.ref, model.name)
    yield "content hash", model.hash
    if family := told.get("family"):
        size = told.get("parameters")
        many = f", {number(size)} parameters" if isinstance(size, int) else ""
        yield "kind", f"{family}{many}"
    stacks = told.get("stacks")
    if isinstance(stacks, list) and stacks:
        yield "stacks", "; ".join(_stack(stack) for stack in stacks if isinstance(stack, dict))
    yield "precision", model.precision
    if limits := told.get("limits"):
        yield "limits", str(limits)


def _corpus(corpus: CorpusSpec, run: Run) -> Iterator[tuple[str, str]]:
    yield "corpus", corpus.name + _origin(corpus.ref, corpus.name)
    yield "content hash", corpus.hash
    chosen = {key: corpus.options.get(key) for key in READING if key in corpus.options}
    read = [f"{key} {_written(value)}" for key, value in chosen.items() if value != READING[key][0]]
    if read:
        yield "read with", ", ".join(read)
    notes = _told(run, "corpora", "hash", corpus.hash).get("notes")
    for note in notes if isinstance(notes, list) else ():
        yield "note", str(note)


def _tools(run: Run) -> Iterator[tuple[str, str]]:
    told = run.provenance
    yield "Workbench", str(told.get("workbench", "unknown"))
    yield "Python", str(told.get("python", "unknown"))
    packages = told.get("packages")
    if isinstance(packages, dict):
        yield "packages", ", ".join(f"{name} {version}" for name, version in packages.items())
    yield "device", str(told.get("device", run.spec.device))
    yield "threads", str(told.get("threads", "unknown"))
    yield "platform", str(told.get("platform", "unknown"))


def _times(run: Run) -> Iterator[tuple[str, str]]:
    told = run.provenance
    for name in ("started", "ended"):
        if isinstance(moment := told.get(name), str):
            yield name, f"{moment[:19].replace('T', ' ')} UTC"
    if isinstance(seconds := told.get("seconds"), int | float):
        yield "took", duration(seconds)
    peak = told.get("peak_memory_bytes")
    for device, size in peak.items() if isinstance(peak, dict) else ():
        if isinstance(size, int | float):
            yield f"peak memory, {device}", f"{size / 2**20:,.0f} MiB"


def duration(seconds: float) -> str:
    """Seconds in words."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def _specs(asked: Spec) -> tuple[Sequence[ModelSpec], Sequence[CorpusSpec]]:
    """The models and corpora of a question, and of a sweep's parts, each once."""
    questions = asked.parts or (asked,)
    models = {(m.hash, m.precision): m for question in questions for m in question.models}
    corpora = {corpus.hash: corpus for question in questions for corpus in question.corpora}
    return list(models.values()), list(corpora.values())


def _told(run: Run, what: str, key: str, value: str) -> Mapping[str, Any]:
    """What the run wrote down of one of its models or corpora."""
    found = run.provenance.get(what)
    for item in found if isinstance(found, list) else ():
        if isinstance(item, dict) and item.get(key) == value:
            return item
    return {}


def _stack(stack: Mapping[str, Any]) -> str:
    heads = f" of {stack.get('heads')} heads" if stack.get("heads") else ", no heads"
    return f"{stack.get('name')}: {stack.get('layers')} layers{heads}"


def _origin(ref: str | None, name: str) -> str:
    if ref is None:
        return " (handed over as an object)"
    return "" if ref == name else f" ({ref})"


def _in_words(key: str, value: object) -> str:
    return "no limit" if key == "max_sentences" and value is None else _written(value)


def _written(value: object) -> str:
    """A setting as the command takes it."""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(item, str | int | float) for item in value):
        texts = [str(item) for item in value]
        if texts and not any("," in text or not text or text[0] in "[{" for text in texts):
            return ",".join(texts)
    return "none" if value is None else json.dumps(value, ensure_ascii=False)


def _to_be_set(asked: Spec) -> Mapping[str, Any]:
    """The settings to write down: all of them, but for those that are none by themselves."""
    experiment = registered(asked.experiment)
    fields = experiment.settings.model_fields if experiment else {}
    sweep = current_sweep(asked)
    return {
        key: value
        for key, value in current_settings(asked).items()
        if key not in sweep
        and not (value is None and (key not in fields or fields[key].default is None))
    }


def _reading(corpora: Sequence[CorpusSpec]) -> Iterator[str]:
    options = corpora[0].options if corpora else {}
    for key, (usual, flag) in READING.items():
        value = options.get(key, usual)
        if value != usual:
            yield from (f"{flag}={one}" for one in (value if isinstance(value, list) else [value]))


def _precision(models: Sequence[ModelSpec]) -> str:
    """The precision to ask for: models of words compute in fp32 whatever is asked."""
    return next((model.precision for model in models if model.precision != "fp32"), "fp32")


def _folded(words: Sequence[str]) -> str:
    quoted = [shlex.quote(word) for word in words]
    if len(line := " ".join(quoted)) <= WIDE:
        return line
    return " \\\n  ".join([" ".join(quoted[:3]), *quoted[3:]])


def _in_python(asked: Spec) -> str:
    given: dict[str, Any] = {"split": asked.split, "seed": asked.seed, **current_settings(asked)}
    named: list[str] = []
    for key, items in (("model", asked.models), ("corpus", asked.corpora)):
        texts = [repr(item.ref) if item.ref is not None else key.upper() for item in items]
        if texts:
            several = f"[{', '.join(texts)}]"
            named.append(f"{key}={texts[0] if len(texts) == 1 else several}")
    named += [f"{key}={value!r}" for key, value in given.items() if value is not None]
    objects = [model.name for model in asked.models if model.ref is None]
    objects += [corpus.name for corpus in asked.corpora if corpus.ref is None]
    comment = f"# in capitals, what was handed over as an object: {', '.join(objects)}"
    return f"{comment}\nwb.run({asked.experiment!r}, {', '.join(named)})"


# --- figures with their captions ------------------------------------------------------------------
#
# A run's figures, ready to be drawn anywhere: made anew of its tables, else as the run left them.
#
# Where the experiment is installed in the version that ran, its figures are made again, so that
# an old run gets the looks of today; otherwise the run's own JSON does. Either way they are made
# harmless, for a run may come from anyone. Costs milliseconds a figure.

USUAL_HEIGHT = 420  # pixels, where a figure does not say


@dataclass(frozen=True)
class Drawing:
    """A figure as plain data, without a template, and what it shows in words."""

    name: str
    about: str
    plain: Mapping[str, Any]  # data and layout

    @property
    def height(self) -> int:
        height = self.plain["layout"].get("height", USUAL_HEIGHT)
        return round(height) if isinstance(height, int | float) else USUAL_HEIGHT


def drawings(run: Run) -> Mapping[str, Drawing]:
    """Every figure there is to a run, by name."""
    draws, stored = _draws(run), run.figures
    found = {}
    for name in [*draws, *(own for own in stored if own not in draws)]:
        try:
            plain = harmless(draws[name](run.tables))
        except Exception:  # of an experiment that may be anyone's: a table it lacks, or a fault
            if name not in stored:
                continue
            plain = harmless(stored[name])
        found[name] = Drawing(name, _about(draws.get(name)), plain)
    return found


def _draws(run: Run) -> Mapping[str, Callable[..., Any]]:
    """The functions that draw; none for a sweep, whose tables hold several runs'."""
    experiment = None if run.spec.sweep else registered(run.spec.experiment)
    if experiment is None or experiment.version != run.spec.version:
        return {}
    try:
        return {name: draw for name, draw in experiment.drawings().items() if is_name(name)}
    except Exception:  # the home of the figures may be gone
        return {}


def _about(draw: Callable[..., Any] | None) -> str:
    """The first paragraph of what the function says of itself."""
    text = inspect.getdoc(draw) if inspect.isfunction(draw) else None
    return " ".join((text or "").split("\n\n")[0].split())


# --- the report -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Part:
    """All that is said of one run."""

    number: int
    run: Run
    about: str
    facts: Mapping[str, Rows]
    command: str
    caveats: tuple[Caveat, ...]
    warnings: tuple[str, ...]
    swept: tuple[str, ...]  # the runs that a sweep is made of
    drawings: Mapping[str, Drawing]

    @property
    def title(self) -> str:
        """The experiment, and what it looked at."""
        asked = self.run.spec
        questions = asked.parts or (asked,)
        models = dict.fromkeys(model.name for one in questions for model in one.models)
        corpora = dict.fromkeys(corpus.name for one in questions for corpus in one.corpora)
        kind = f"{asked.experiment}, a sweep" if asked.sweep else asked.experiment
        seen = ", ".join([*models, *corpora])
        return f"{kind}: {seen}" if seen else kind

    @cached_property
    def tables(self) -> tuple[Grid, ...]:
        return tuple(grid(name, self.run.tables[name]) for name in self.run.tables)

    def beside(self, name: str) -> tuple[str, ...]:
        """The caveats that touch this figure or table."""
        return tuple(caveat.text for caveat in self.caveats if name in caveat.beside)

    @property
    def of_all(self) -> tuple[str, ...]:
        """The caveats that touch everything, or nothing that is there."""
        there = {*self.drawings, *self.run.tables}
        return tuple(c.text for c in self.caveats if not there.intersection(c.beside))

    def export(self, name: str, ending: str) -> str:
        """The command that exports one of its tables or figures."""
        return f"workbench export {self.run.name} {name} --out {name}{ending}"


@dataclass(frozen=True)
class Content:
    """One report."""

    parts: tuple[Part, ...]
    comparisons: tuple[Comparison, ...]

    @property
    def title(self) -> str:
        if len(self.parts) == 1:
            return self.parts[0].title
        kinds = dict.fromkeys(part.run.spec.experiment for part in self.parts)
        return f"{len(self.parts)} runs: {', '.join(kinds)}"

    def heading(self, part: Part) -> str:
        """The title of a run's section: not that of another."""
        titles = [other.title for other in self.parts]
        if len(titles) == 1:
            return f"The run {part.run.name}"
        if titles.count(part.title) == 1:
            return part.title
        return f"{part.title} ({part.run.spec.fingerprint[:8]})"

    def part_of(self, run: Run) -> Part:
        """The section of a run that is compared."""
        return next(part for part in self.parts if part.run.path == run.path)

    @property
    def has_drawings(self) -> bool:
        return any(part.drawings for part in self.parts)


def content(runs: Sequence[Run]) -> Content:
    """Read all that there is to say; an error where a run has no results."""
    apart = list({run.path.resolve(): run for run in runs}.values())
    parts = tuple(_part(number, run) for number, run in enumerate(apart, start=1))
    return Content(parts, comparisons(apart))


def _part(number: int, run: Run) -> Part:
    provenance = run.provenance  # raises where the run is not done
    try:
        swept = provenance.get("runs", ()) if run.spec.sweep else ()
        return Part(
            number,
            run,
            str(provenance.get("about", "")),
            facts(run),
            command(run.spec),
            run.caveats,
            tuple(dict.fromkeys(run.warnings)),
            tuple(map(str, swept)),
            drawings(run),
        )
    except WorkbenchError:
        raise
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise damaged(run.path / PROVENANCE, error) from error
