"""What a run was asked, of what, with what and when, in words; and the command that asks it again.

All of it is read from the run's folder. Costs nothing but the import of the experiment, where it is
installed, for its defaults.
"""

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from workbench.errors import WorkbenchError
from workbench.experiment import EXPERIMENTS, Experiment
from workbench.report.cells import number
from workbench.runs.run import Run
from workbench.runs.spec import CorpusSpec, ModelSpec, Spec

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
    words = ["workbench", "run", asked.experiment]
    for key, items in (("model", asked.models), ("corpus", asked.corpora)):
        if key not in asked.sweep:
            words += [f"--{key}={item.ref}" for item in items]
    words += _reading(asked.corpora)
    if "split" not in asked.sweep and asked.split is not None:
        words.append(f"--split={asked.split}")
    settings = [f"{key}={_written(value)}" for key, value in _to_be_set(asked).items()]
    words += [f"--set={setting}" for setting in settings]
    swept = [f"{key}={','.join(map(_written, values))}" for key, values in asked.sweep.items()]
    words += [f"--sweep={one}" for one in swept]
    if "seed" not in asked.sweep:
        words.append(f"--seed={asked.seed}")
    if asked.models:
        words.append(f"--device={asked.device}")
        if "precision" not in asked.sweep:
            words.append(f"--precision={_precision(asked.models)}")
    if any(model.pickled for model in asked.models):
        words.append("--pickled")
    return _folded(words)


def _asked(run: Run) -> Iterator[tuple[str, str]]:
    asked, experiment = run.spec, registered(run.spec.experiment)
    fields = experiment.settings.model_fields if experiment else {}
    yield "run", run.name
    yield "experiment", f"{asked.experiment}, version {asked.version}"
    for key, value in asked.settings.items():
        if key in asked.sweep:
            continue
        usual = key in fields and fields[key].default == value
        yield key, _in_words(key, value) + (" (the default)" if usual else "")
    if "split" not in asked.sweep and asked.corpora:
        yield "split", asked.split or "all of them"
    if "seed" not in asked.sweep:
        yield "seed", str(asked.seed)
    for key, values in asked.sweep.items():
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
    return "no limit" if key == "limit" and value is None else _written(value)


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
    return {
        key: value
        for key, value in asked.settings.items()
        if key not in asked.sweep
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
    given: dict[str, Any] = {"split": asked.split, "seed": asked.seed, **asked.settings}
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
