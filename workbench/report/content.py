"""The content of a report in any format, read only from the folders of the runs.

Every format has the same content, in the order of a short paper: findings, the main figure, key
numbers, method, limits, further figures, tables, and what reproduces the run. Costs: reading the
tables.
"""

import inspect
import json
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import pandas as pd

from workbench.core.errors import WorkbenchError
from workbench.core.findings import Finding, span, with_unit
from workbench.core.groups import grouped
from workbench.core.names import local
from workbench.drawing.sanitize import harmless
from workbench.drawing.shared import on_shared_scales
from workbench.experiment.definition import EXPERIMENTS, Caveat
from workbench.models.references import with_local_names
from workbench.report.format import FEWER, MOST, NONE, Column, Grid, grid, number
from workbench.report.prose import (
    Limit,
    Paper,
    limits,
    material,
    method,
    papers,
    papers_used,
    registered,
    title_of,
    title_of_several,
)
from workbench.runs.compare import LETTERS, compared, what_changed
from workbench.runs.run import PROVENANCE, Run, damaged, drawings_of
from workbench.runs.spec import (
    DIGITS,
    CorpusSpec,
    ModelSpec,
    Spec,
    is_name,
)

# --- the request of a run -------------------------------------------------------------------------
#
# Request, inputs, environment and time of a run as text; and the command that reproduces it.
#
# All of it is read from the folder of the run. Costs: the import of the experiment, if it is
# installed, for its defaults.

Rows = tuple[tuple[str, str], ...]
Input = TypeVar("Input", ModelSpec, CorpusSpec)
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
WIDE = 88  # maximum number of characters of a command in one line


def facts(run: Run, spec: Spec | None = None) -> Mapping[str, Rows]:
    """Return the request, inputs, environment and time of a run, in groups.

    `spec` is its request in other words, such as without folders.
    """
    spec = run.spec if spec is None else spec
    models, corpora = _specs(spec)
    return {
        "Request": tuple(_request(run, spec)),
        "Inputs": (
            *(row for model in models for row in _model(model, run)),
            *(row for corpus in corpora for row in _corpus(corpus, run)),
        ),
        "Environment": tuple(_environment(run)),
        "Time": tuple(_times(run)),
    }


def command(spec: Spec) -> str:
    """Return the command that reproduces a run; Python code if an object was passed to it.

    It runs as it is on this machine. Comments name the run that it makes and the content hashes of
    its inputs, which must be the same on another machine.
    """
    name = spec.name
    spec = without_folders(Spec.model_validate_json(spec.model_dump_json()))  # lists, as on disk
    is_command = spec.answerable and spec.experiment not in EXPERIMENTS.added
    code = _on_command_line(spec) if is_command else _in_python(spec)
    inputs = [item for each in _specs(spec) for item in each]
    hashes = [f"# content hash of {_last_parts(x.name)}: {x.hash[:DIGITS]}" for x in inputs]
    return "\n".join([code, *dict.fromkeys(hashes), f"# run: {name}"])


def _on_command_line(spec: Spec) -> str:
    words, sweep = ["workbench", "run", spec.experiment], spec.sweep
    for key, items in (("model", spec.models), ("corpus", spec.corpora)):
        if key not in sweep:
            words += [f"--{key}={item.ref}" for item in items]
    words += _reading(spec.corpora)
    if "split" not in sweep and spec.split is not None:
        words.append(f"--split={spec.split}")
    settings = [f"{key}={_as_text(value)}" for key, value in _settings_to_write(spec).items()]
    words += [f"--set={setting}" for setting in settings]
    swept = [
        f"{key}={','.join(_refs_of_parts(spec, key) or map(_as_text, values))}"
        for key, values in sweep.items()
    ]
    words += [f"--sweep={pair}" for pair in swept]
    if "seed" not in sweep:
        words.append(f"--seed={spec.seed}")
    if spec.models:
        words.append(f"--device={spec.device}")
        if "precision" not in sweep:
            words.append(f"--precision={_precision(spec.models)}")
    if any(model.pickled for model in spec.models):
        words.append("--pickled")
    if "objective" not in sweep:
        objectives = [model.objective for model in spec.models if model.objective]
        words += [f"--objective={name}" for name in objectives[:1]]
    return _folded(words)


def _refs_of_parts(spec: Spec, swept: str) -> list[str]:
    """Return the references of swept models or corpora, in order; none for another swept value."""
    items = {"model": "models", "corpus": "corpora"}.get(swept)
    return list(
        dict.fromkeys(
            str(item.ref) for part in spec.parts for item in (getattr(part, items) if items else ())
        )
    )


def _request(run: Run, spec: Spec) -> Iterator[tuple[str, str]]:
    experiment, sweep = registered(spec.experiment), spec.sweep
    fields = experiment.settings.model_fields if experiment else {}
    yield "run", run.name
    yield "experiment", f"{spec.experiment}, version {spec.version}"
    grown = run.provenance.get("growth", {}).get("sizes", {})
    for key, value in run.settings.items():
        if key in sweep:
            continue
        is_default = key in fields and fields[key].default == value
        said = " (by effort)" if key in grown else " (default)" if is_default else ""
        yield key, _shown_setting(key, grown.get(key, value)) + said
    if "split" not in sweep and spec.corpora:
        yield "split", spec.split or "all"
    if "seed" not in sweep:
        yield "seed", str(spec.seed)
    for key, values in sweep.items():
        yield f"{key} (swept)", ", ".join(map(_as_text, values))


def _model(model: ModelSpec, run: Run) -> Iterator[tuple[str, str]]:
    facts = _stored_facts(run, "models", "content_hash", model.hash)
    yield "model", model.name + _origin(model.ref, model.name)
    yield "content hash", model.hash
    if family := facts.get("family"):
        size = facts.get("parameters")
        parameters = f", {number(size)} parameters" if isinstance(size, int) else ""
        yield "family", f"{family}{parameters}"
    stacks = facts.get("stacks")
    if isinstance(stacks, list) and stacks:
        yield "stacks", "; ".join(_stack(stack) for stack in stacks if isinstance(stack, dict))
    yield "precision", model.precision
    if limits := facts.get("limits"):
        yield "limits", str(limits)


def _corpus(corpus: CorpusSpec, run: Run) -> Iterator[tuple[str, str]]:
    yield "corpus", corpus.name + _origin(corpus.ref, corpus.name)
    yield "content hash", corpus.hash
    given = {key: corpus.options.get(key) for key in READING if key in corpus.options}
    options = [f"{key} {_as_text(v)}" for key, v in given.items() if v != READING[key][0]]
    if options:
        yield "read with", ", ".join(options)
    notes = _stored_facts(run, "corpora", "hash", corpus.hash).get("notes")
    for note in notes if isinstance(notes, list) else ():
        yield "note", str(note)


def _environment(run: Run) -> Iterator[tuple[str, str]]:
    provenance = run.provenance
    yield "Workbench", str(provenance.get("workbench", "unknown"))
    yield "Python", str(provenance.get("python", "unknown"))
    packages = provenance.get("packages")
    if isinstance(packages, dict):
        yield "packages", ", ".join(f"{name} {version}" for name, version in packages.items())
    yield "device", str(provenance.get("device", run.spec.device))
    yield "threads", str(provenance.get("threads", "unknown"))
    yield "platform", str(provenance.get("platform", "unknown"))


def _times(run: Run) -> Iterator[tuple[str, str]]:
    provenance = run.provenance
    for name in ("started", "ended"):
        if isinstance(moment := provenance.get(name), str):
            yield name, f"{moment[:19].replace('T', ' ')} UTC"
    if isinstance(seconds := provenance.get("seconds"), int | float):
        yield "duration", duration(seconds)
    peak = provenance.get("peak_memory_bytes")
    for device, size in peak.items() if isinstance(peak, dict) else ():
        if isinstance(size, int | float):
            yield f"peak memory, {device}", f"{size / 2**20:,.0f} MiB"


def duration(seconds: float) -> str:
    """Return seconds as text, such as `1 min 5 s`."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def _specs(spec: Spec) -> tuple[Sequence[ModelSpec], Sequence[CorpusSpec]]:
    """Return the models and corpora of a request, or of the parts of a sweep, each once."""
    specs = spec.parts or (spec,)
    models = {(model.hash, model.precision): model for spec in specs for model in spec.models}
    corpora = {corpus.hash: corpus for spec in specs for corpus in spec.corpora}
    return list(models.values()), list(corpora.values())


def _stored_facts(run: Run, what: str, key: str, value: str) -> Mapping[str, Any]:
    """Return the facts of a model or corpus in the provenance of the run."""
    items = run.provenance.get(what)
    for item in items if isinstance(items, list) else ():
        if isinstance(item, dict) and item.get(key) == value:
            return item
    return {}


def _stack(stack: Mapping[str, Any]) -> str:
    heads = f" of {stack.get('heads')} heads" if stack.get("heads") else ", no heads"
    return f"{stack.get('name')}: {stack.get('layers')} layers{heads}"


def _origin(ref: str | None, name: str) -> str:
    if ref is None:
        return " (passed as an object)"
    return "" if ref == name else f" ({ref})"


def _shown_setting(key: str, value: object) -> str:
    return "all" if key == "max_sentences" and value is None else _as_text(value)


def _as_text(value: object) -> str:
    """Return a setting as the command accepts it."""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(item, str | int | float) for item in value):
        texts = [str(item) for item in value]
        if texts and not any("," in text or not text or text[0] in "[{" for text in texts):
            return ",".join(texts)
    return "none" if value is None else json.dumps(value, ensure_ascii=False)


def _settings_to_write(spec: Spec) -> Mapping[str, Any]:
    """Return the settings for the command: all except those whose default is None."""
    experiment = registered(spec.experiment)
    fields = experiment.settings.model_fields if experiment else {}
    sweep = spec.sweep
    return {
        key: value
        for key, value in spec.settings.items()
        if key not in sweep
        and not (value is None and (key not in fields or fields[key].default is None))
    }


def _reading(corpora: Sequence[CorpusSpec]) -> Iterator[str]:
    for key, value in _read_by(corpora[0]).items() if corpora else ():
        flag = READING[key][1]
        yield from (f"{flag}={v}" for v in (value if isinstance(value, list) else [value]))


def _read_by(item: ModelSpec | CorpusSpec) -> dict[str, Any]:
    """Return the options of `wb.read` that a corpus was read with, but for defaults."""
    given = item.options if isinstance(item, CorpusSpec) else {}
    return {
        key: given[key]
        for key, (default, _) in READING.items()
        if given.get(key, default) != default
    }


def _precision(models: Sequence[ModelSpec]) -> str:
    """Return the precision of the request; static word vectors always use fp32."""
    return next((model.precision for model in models if model.precision != "fp32"), "fp32")


def _folded(words: Sequence[str]) -> str:
    quoted = [shlex.quote(word) for word in words]
    if len(line := " ".join(quoted)) <= WIDE:
        return line
    return " \\\n  ".join([" ".join(quoted[:3]), *quoted[3:]])


def _in_python(spec: Spec) -> str:
    options: dict[str, Any] = {"split": spec.split, "seed": spec.seed, **spec.settings}
    arguments: list[str] = []
    models, corpora = _specs(spec) if spec.sweep else (spec.models, spec.corpora)
    passed: dict[str, Sequence[ModelSpec | CorpusSpec]] = {"model": models, "corpus": corpora}
    for key, items in passed.items():
        texts = [_passed(item, key) for item in items]
        if texts:
            several = f"[{', '.join(texts)}]"
            arguments.append(f"{key}={texts[0] if len(texts) == 1 else several}")
    options |= {key: values for key, values in spec.sweep.items() if key not in ("model", "corpus")}
    arguments += [f"{key}={value!r}" for key, value in options.items() if value is not None]
    objects = [item.name for items in passed.values() for item in items if item.ref is None]
    comment = (
        f"# in capitals: live objects ({', '.join(objects)}); pass them again,\n"
        "# or save them (model.save, wb.write), and name the folder or file"
    )
    comment = comment if objects else "# an experiment of a session: define it again first"
    function = "wb.sweep" if spec.sweep else "wb.run"
    return f"{comment}\n{function}({spec.experiment!r}, {', '.join(arguments)})"


def _passed(item: ModelSpec | CorpusSpec, key: str) -> str:
    if item.ref is None:
        return key.upper()
    options = [f"{name}={value!r}" for name, value in _read_by(item).items()]
    return f"wb.read({item.ref!r}, {', '.join(options)})" if options else repr(item.ref)


# --- private paths --------------------------------------------------------------------------------
#
# A report is read by others: it names models, corpora and files without their folders.

_FOLDERS = re.compile(r"(?:^|(?<=[\s'\"(=:,]))(?:~|/[^/\s'\",]+)(?:/[^/\s'\",]+)*/(?=[^/\s'\",])")


def without_folders(spec: Spec) -> Spec:
    """Return a request without folders, whose references this machine can open."""
    return spec.model_copy(
        update={
            "models": tuple(_named(each, with_local_names) for each in spec.models),
            "corpora": tuple(_named(each, _corpus_without_folders) for each in spec.corpora),
            "settings": _values_without_folders(spec.settings),
            "parts": tuple(map(without_folders, spec.parts)),
        }
    )


def _named(item: Input, short: Callable[[str], str]) -> Input:
    ref, name = item.ref and short(item.ref), _last_parts(item.name)
    changed: dict[str, Any] = {"ref": ref, "name": name}
    if isinstance(item, CorpusSpec):
        changed["options"] = _values_without_folders(item.options)
    return item.model_copy(update=changed)


def _corpus_without_folders(ref: str) -> str:
    return local("corpora", ref) if ref.startswith("/") else ref


def _values_without_folders(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings in which a path is `local:NAME`, as that of a pipeline or of vectors."""
    return {
        key: local("models", value) if isinstance(value, str) and value.startswith("/") else value
        for key, value in values.items()
    }


def public_text(run: Run) -> Callable[[str], str]:
    """Return a function that removes private folders from texts about this run."""
    specs = (run.spec, *run.spec.parts)
    refs = [model.ref or "" for spec in specs for model in spec.models]
    refs += [corpus.ref or "" for spec in specs for corpus in spec.corpora]
    paths = [path for ref in refs for path in re.split("[:,]", ref) if path.startswith("/")]
    folders = {str(Path(path).parent) for path in [*paths, str(run.path.absolute())]} - {"/"}
    home = str(Path.home())
    known = "|".join(map(re.escape, sorted(folders | {home}, key=len, reverse=True)))
    within = re.compile(f"(?:{known})/(?=.)")
    return lambda text: _FOLDERS.sub("", within.sub("", text)).replace(home, "~")


def _last_parts(ref: str) -> str:
    """Return a reference with the last part of each absolute path in it."""
    prefix, colon, paths = ref.rpartition(":") if re.match(r"[a-z]+:[/~]", ref) else ("", "", ref)
    names = [
        path.rstrip("/").rpartition("/")[2] if path.startswith(("/", "~")) else path
        for path in paths.split(",")
    ]
    return f"{prefix}{colon}{','.join(names)}"


# --- figures with their captions ------------------------------------------------------------------
#
# The figures of a run: drawn again from its tables, or as the run stored them.
#
# If the installed experiment has the version of the run, its figures are drawn again with the
# current style; otherwise the stored JSON is used. Both are sanitised, because anyone may have
# written the run. Costs: milliseconds per figure.

USUAL_HEIGHT = 420  # default height in pixels


@dataclass(frozen=True)
class Drawing:
    """A figure as plain data without a template, and its words.

    The title is the finding that the figure shows, if the data supports it ("": none).
    The subtitle is what is measured, in which unit; `reading` says how to read the figure.
    """

    name: str
    title: str
    subtitle: str
    reading: str
    plain: Mapping[str, Any]  # data and layout

    @property
    def about(self) -> str:
        """Return the caption: what is measured, and how to read it."""
        return " ".join(filter(None, (self.subtitle, self.reading)))

    @property
    def height(self) -> int:
        height = self.plain["layout"].get("height", USUAL_HEIGHT)
        return round(height) if isinstance(height, int | float) else USUAL_HEIGHT


def drawings(run: Run) -> Mapping[str, Drawing]:
    """Return all figures of a run, by name."""
    draws, stored, titles = _draws(run), run.figures, titles_of(run)
    figures = {}
    for name in [*draws, *(other for other in stored if other not in draws)]:
        try:
            plain = harmless(draws[name](run.tables))
        except Exception:  # any experiment: a missing table, or a bug
            if name not in stored:
                continue
            plain = harmless(stored[name])
        figures[name] = Drawing(name, titles.get(name, ""), *words_of(draws.get(name)), plain)
    return figures


def titles_of(run: Run) -> Mapping[str, str]:
    """Return the title of each figure: the first claim that names it and that the data support."""
    supported = [each for each in run.findings if each.verdict == "supported"]
    return {each.figure: each.claim for each in reversed(supported)}


def _draws(run: Run) -> Mapping[str, Callable[..., Any]]:
    """Return the functions that draw the figures of a run."""
    experiment = registered(run.spec.experiment)
    if experiment is None or experiment.version != run.spec.version:
        return {}
    try:
        return {name: draw for name, draw in drawings_of(run.spec).items() if is_name(name)}
    except Exception:  # the module of the figures may be missing
        return {}


def words_of(draw: Callable[..., Any] | None) -> tuple[str, str]:
    """Return the subtitle of a figure and how to read it, from the function's docstring.

    The first paragraph is what is measured, with its unit; the second is how to read the figure.
    """
    text = inspect.getdoc(draw) if inspect.isfunction(draw) else None
    paragraphs = [" ".join(part.split()) for part in (text or "").split("\n\n")]
    return paragraphs[0], paragraphs[1] if len(paragraphs) > 1 else ""


# --- comparison of runs ---------------------------------------------------------------------------
#
# Runs of one experiment side by side: differences of the requests, and tables aligned by keys.
#
# The first run is A; a difference is the value of a later run minus that of A. Costs: a join per
# table.

ABREAST = 4  # maximum number of runs whose figures are side by side
_PER_RUN = ("Time", "Environment")  # facts that differ between any two runs, shown with each


@dataclass(frozen=True)
class Comparison:
    """The differences between two or more runs of one experiment."""

    experiment: str
    runs: Mapping[str, Run]  # by letter
    findings: tuple[Finding, ...]  # what changed from the first run
    requests: Grid  # differences of the requests
    tables: tuple[Grid, ...]
    notes: tuple[str, ...]  # why a table is missing
    figures: Mapping[str, Mapping[str, Drawing]] = field(default_factory=dict)  # by letter

    @property
    def title(self) -> str:
        return f"Comparison of {len(self.runs)} runs of {self.experiment}"

    @cached_property
    def key_numbers(self) -> Grid:
        return key_numbers(self.findings)


def comparisons(
    runs: Sequence[Run], figures: Mapping[Path, Mapping[str, Drawing]] | None = None
) -> tuple[Comparison, ...]:
    """Return a comparison for each experiment with several runs.

    It has figures side by side if the `figures` of each run are given, by its path.
    """
    by_experiment = grouped((run.spec.experiment, run) for run in runs if not run.spec.sweep)
    return tuple(
        _comparison(experiment, group, figures or {})
        for experiment, group in by_experiment.items()
        if len(group) > 1
    )


def _comparison(
    experiment: str, runs: Sequence[Run], figures: Mapping[Path, Mapping[str, Drawing]]
) -> Comparison:
    lettered = dict(zip(LETTERS, runs, strict=False))
    tables, notes = [], []
    names = list(dict.fromkeys(name for run in runs for name in run.tables))
    if len(runs) > len(LETTERS):
        names = []
        notes.append(
            f"{len(runs)} runs are too many for a comparison: the maximum is {len(LETTERS)}."
        )
    for name in names:
        if lacking := [letter for letter, run in lettered.items() if name not in run.tables]:
            notes.append(f"{name}: run {', '.join(lacking)} has no such table.")
            continue
        try:
            aligned = _aligned(name, runs)
        except (WorkbenchError, ValueError, KeyError, TypeError) as error:
            why = (
                error.what
                if isinstance(error, WorkbenchError)
                else "its keys do not identify its rows."
            )
            notes.append(f"{name}: {why}")
            continue
        if aligned.columns:
            tables.append(aligned)
    changed = what_changed(runs) if len(runs) <= len(LETTERS) else ()
    requests = _differing(lettered)
    drawn = {letter: figures.get(run.path, {}) for letter, run in lettered.items()}
    pairs = _side_by_side(drawn) if len(runs) <= ABREAST else {}
    return Comparison(experiment, lettered, changed, requests, tuple(tables), tuple(notes), pairs)


def _side_by_side(
    by_letter: Mapping[str, Mapping[str, Drawing]],
) -> Mapping[str, Mapping[str, Drawing]]:
    """Return the figures that all runs have, on shared scales, by name and letter."""
    first, *others = by_letter.values()
    pairs: dict[str, Mapping[str, Drawing]] = {}
    for name in first:
        if all(name in other for other in others):
            every = [each[name] for each in by_letter.values()]
            try:
                shared = on_shared_scales([each.plain for each in every])
            except Exception:  # any figure: of another package, or of a stored run
                continue
            pairs[name] = {
                letter: replace(each, plain=plain, title=f"{letter}: {each.title or name}")
                for letter, each, plain in zip(by_letter, every, shared, strict=True)
            }
    return pairs


def _aligned(name: str, runs: Sequence[Run]) -> Grid:
    about, keys = (
        runs[0].tables[name].attrs.get("about", ""),
        runs[0].tables[name].attrs.get("keys"),
    )
    ((_, table),) = compared([{name: run.tables[name]} for run in runs])
    table.attrs = {"about": about}
    return grid(name, table, keys or (), FEWER)


def _differing(runs: Mapping[str, Run]) -> Grid:
    """Return a table with one row for each difference between the requests."""
    by_letter = {letter: _flat(run) for letter, run in runs.items()}
    names = dict.fromkeys(name for values in by_letter.values() for name in values)
    rows = [
        (name, *(values.get(name) for values in by_letter.values()))
        for name in names
        if len({values.get(name) for values in by_letter.values()}) > 1
    ]
    table = pd.DataFrame(rows, columns=["", *runs])
    table.attrs = {"about": "Differences between the requests."}
    return grid("requests", table, [""])


def _flat(run: Run) -> Mapping[str, str]:
    """Return facts by name; facts with one name, as of two models, are joined."""
    flat: dict[str, str] = {}
    subject = ""
    for group, rows in facts(run, without_folders(run.spec)).items():
        if group in _PER_RUN:
            continue
        for name, value in rows:
            subject = name if name in ("model", "corpus") else subject
            label = f"{name} of the {subject}" if name == "content hash" else name
            flat[label] = f"{flat[label]}; {value}" if label in flat else value
    return flat


# --- the report -----------------------------------------------------------------------------------

LONGEST_TITLE, LONGEST_NOTES = 300, 20_000  # characters


@dataclass(frozen=True)
class Part:
    """The content of a report about one run, without private paths."""

    number: int
    run: Run
    spec: Spec
    about: str
    facts: Mapping[str, Rows]
    command: str
    findings: tuple[Finding, ...]
    method: tuple[str, ...]  # paragraphs
    papers: tuple[Paper, ...]
    limits: tuple[Limit, ...]
    swept: tuple[str, ...]  # the names of the runs of a sweep
    drawings: Mapping[str, Drawing]
    rows: int  # maximum number of rows of a table

    @property
    def title(self) -> str:
        """Return the experiment, its models and its corpora in words."""
        return title_of(self.spec)

    @property
    def main(self) -> Drawing | None:
        """Return the figure of the first finding that has one; else the first figure."""
        named = [each.figure for each in self.findings if each.figure in self.drawings]
        return next((self.drawings[name] for name in [*named, *self.drawings]), None)

    @property
    def further(self) -> tuple[Drawing, ...]:
        """Return the other figures."""
        return tuple(each for each in self.drawings.values() if each is not self.main)

    @cached_property
    def key_numbers(self) -> Grid:
        return key_numbers(self.findings)

    @cached_property
    def tables(self) -> tuple[Grid, ...]:
        tables = self.run.tables
        return tuple(grid(name, tables[name], most=self.rows) for name in tables)

    def export(self, name: str, ending: str) -> str:
        """Return the command that exports one of its tables or figures."""
        return f"workbench export {self.run.name} {name} --out {name}{ending}"


@dataclass(frozen=True)
class Content:
    """The content of a whole report."""

    title: str
    notes: tuple[str, ...]  # the user's own, in paragraphs
    parts: tuple[Part, ...]
    comparisons: tuple[Comparison, ...]

    @property
    def is_single(self) -> bool:
        return len(self.parts) == 1

    def heading(self, part: Part) -> str:
        """Return the title of the section of a run, different from all others."""
        titles = [other.title for other in self.parts]
        if titles.count(part.title) == 1:
            return part.title
        return f"{part.title} ({part.spec.fingerprint[:8]})"

    def part_of(self, run: Run) -> Part:
        """Return the section of a compared run."""
        return next(part for part in self.parts if part.run.path == run.path)

    def further(self, part: Part) -> tuple[Drawing, ...]:
        """Return the figures of a run besides its main one, and those in a comparison."""
        compared = {
            name
            for comparison in self.comparisons
            if part.run in comparison.runs.values()
            for name in comparison.figures
        }
        return tuple(each for each in part.further if each.name not in compared)

    @property
    def papers(self) -> tuple[Paper, ...]:
        """Return the papers of all runs."""
        return papers([paper.key for part in self.parts for paper in part.papers])

    @property
    def has_drawings(self) -> bool:
        return any(part.drawings for part in self.parts)


def content(runs: Sequence[Run], title: str = "", notes: str = "", most: int = MOST) -> Content:
    """Read the content of a report; an error if a run has no results, or the notes are too long.

    `most` is the maximum number of rows of a table; there are fewer in a report of several runs.
    """
    unique = list({run.path.resolve(): run for run in runs}.values())
    rows = most if len(unique) == 1 else min(most, FEWER)
    parts = tuple(_part(number, run, rows) for number, run in enumerate(unique, start=1))
    specs = [part.spec for part in parts]
    given = " ".join(_short_enough("title", title, LONGEST_TITLE).split())
    own = _short_enough("notes", notes, LONGEST_NOTES).strip()
    return Content(
        given or (title_of(specs[0]) if len(specs) == 1 else title_of_several(specs)),
        tuple(part.strip() for part in re.split(r"\n\s*\n", own.replace("\r\n", "\n")) if own),
        parts,
        comparisons(unique, {part.run.path: part.drawings for part in parts}),
    )


def key_numbers(findings: Sequence[Finding]) -> Grid:
    """Return the numbers of findings that the data supports: interval, what they rest on, null."""
    measured = [each for each in findings if each.number]
    rows = [
        (
            f"{each.measure[:1].upper()}{each.measure[1:]}",
            each.number,
            span(*each.interval, each.unit) if each.interval else NONE,
            each.n or NONE,
            NONE if each.null is None else with_unit(each.null, each.unit),
        )
        for each in measured
    ]
    names = ("measure", "value", "95 % interval", "n", "null")
    columns = tuple(
        Column(
            name, name == "measure", name not in ("measure", "n"), tuple(row[index] for row in rows)
        )
        for index, name in enumerate(names)
    )
    return Grid("key numbers", "", columns, len(rows))


def _short_enough(what: str, text: str, most: int) -> str:
    if len(text) > most:
        raise WorkbenchError(
            f"the {what} of the report has {len(text):,} characters."
            if what == "title"
            else f"the notes of the report have {len(text):,} characters.",
            code=f"{what}-too-long",
            remedy=f"Write {most:,} characters or fewer.",
        )
    return text


def _part(number: int, run: Run, rows: int) -> Part:
    provenance = run.provenance  # raises if the run is not done
    try:
        public = public_text(run)
        experiment, spec = registered(run.spec.experiment), without_folders(run.spec)
        models, corpora = _specs(spec)
        sizes = provenance.get("growth", {}).get("sizes", {})  # of a sample that grew
        settings = {**run.settings, **sizes}
        used = spec.model_copy(update={"settings": {**spec.settings, **sizes}})
        known = [
            (model, _stored_facts(run, "models", "content_hash", model.hash)) for model in models
        ]
        device = str(provenance.get("device", spec.device))
        names = {*run.tables, *run.figures, *(experiment.drawings() if experiment else ())}
        own = [
            limit if len(known) == 1 else f"{model.name}: {limit}"
            for model, facts in known
            if (limit := str(facts.get("limits") or ""))
        ]
        return Part(
            number,
            run,
            spec,
            str(provenance.get("about", "")),
            {
                group: tuple((name, public(value)) for name, value in rows)
                for group, rows in facts(run, spec).items()
            },
            public(command(run.spec)),
            run.findings,
            tuple(
                filter(None, (method(experiment, settings), material(known, corpora, used, device)))
            ),
            papers(papers_used(experiment, settings)),
            limits(
                [Caveat(public(each.text), each.applies_to) for each in run.caveats],
                [public(text) for text in run.warnings],
                [public(text) for text in own],
                names,
            ),
            tuple(map(str, provenance.get("runs", ()) if run.spec.sweep else ())),
            drawings(run),
            rows,
        )
    except WorkbenchError:
        raise
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise damaged(run.path / PROVENANCE, error) from error
