"""How thoroughly a run was computed, and where two runs of one question disagree.

Of several runs with the same experiment, models and corpora, the most thorough one answers the
question: not a rough one before a full one, the settings of the experiment before narrower ones,
then the larger sample, more seeds, one of the user's own, and the later date. Costs: reading the
request and the provenance of each run.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from workbench.core.errors import WorkbenchError
from workbench.core.findings import Finding, plural, span, whole, with_unit
from workbench.experiment.definition import EXPERIMENTS, PRESETS, QUICK, Experiment
from workbench.runs.run import Run

ALL = 1e9  # the size of a sample without a maximum
NOT_SIZES = ("effort", "time", "seeds")
OWN = "other settings"


@dataclass(frozen=True, order=True)
class Thoroughness:
    """Runs are compared by these, in this order."""

    is_done: bool
    finer: int  # 0 for the roughest preset; the same for Standard and all that is finer
    is_whole_question: bool  # all settings but sizes are at their defaults
    size: float  # log of the sizes of the sample
    seeds: int
    is_own: bool  # not shipped with Workbench
    created: str
    level: str  # quick, standard, full, a preset such as preview, the size, or "other settings"

    def __str__(self) -> str:
        """In words: `full, 3 seeds`."""
        parts = [self.level] if self.level else []
        if self.seeds:
            parts.append(plural(self.seeds, "seed"))
        if not self.is_whole_question and self.level != OWN:
            parts.append("other settings")
        return ", ".join(parts)


def thoroughness(run: Run) -> Thoroughness:
    """Return how thoroughly a run was computed."""
    now, settings = run.status, dict(run.settings)
    try:
        experiment = EXPERIMENTS[run.spec.experiment]
    except (WorkbenchError, KeyError):  # of a package that is not installed
        return Thoroughness(now.state == "done", 0, True, 0.0, 0, True, now.created, "")
    sizes = _sizes(experiment, settings)
    if now.state == "done":
        sizes |= run.provenance.get("growth", {}).get("sizes", {})
    level = _level(experiment, settings)
    presets = experiment.settings_of_presets()
    of_level = next((presets[name] for name in presets if name.lower() == level), {})
    defaults = _defaults(experiment) | of_level
    is_whole = all(
        name in NOT_SIZES or _is_limit(name, sizes) or _same(value, defaults.get(name, value))
        for name, value in settings.items()
    )
    return Thoroughness(
        now.state == "done",
        _finer(experiment, level),
        is_whole,
        sum(math.log(ALL if size is None else max(1, size)) for size in sizes.values()),
        len(_seeds(experiment, settings)) * len(run.spec.sweep.get("seed", (run.spec.seed,))),
        not run.is_builtin,
        now.created,
        level,
    )


def disagreements(run: Run, others: Sequence[Run]) -> list[str]:
    """Return a sentence for each measure whose intervals in two runs do not overlap.

    Where neither run supports its claim, both say that there is nothing, and the numbers may be
    those of different heads or layers. What is undecided claims nothing: it may have an interval
    of a few texts, which is too narrow.
    """
    found = {}
    for other in others:
        by_measure = {each.measure: each for each in other.findings}
        for ours in run.findings:
            theirs = by_measure.get(ours.measure)
            if theirs is not None and ours.measure not in found and _apart(ours, theirs):
                words = str(thoroughness(other))
                which = "The built-in result" if other.is_builtin else "Another run"
                found[ours.measure] = (
                    f"{which} ({words + ', ' if words else ''}{other.status.created[:10]}) "
                    f"disagrees on {ours.measure}: {_number(theirs)} there, {_number(ours)} here."
                )
    return list(found.values())


def _apart(one: Finding, other: Finding) -> bool:
    if one.interval is None or other.interval is None or one.unit != other.unit:
        return False
    verdicts = (one.verdict, other.verdict)
    if "supported" not in verdicts or "undecided" in verdicts:
        return False
    return one.interval[1] < other.interval[0] or other.interval[1] < one.interval[0]


def _number(finding: Finding) -> str:
    low, high = finding.interval or (0.0, 0.0)
    return f"{with_unit(finding.value, finding.unit)} ({span(low, high, finding.unit)})"


def _sizes(experiment: Experiment[Any], settings: Mapping[str, Any]) -> dict[str, int | None]:
    """Return the sizes of the sample by setting: those of presets, and those that grow."""
    defaults = _defaults(experiment)
    sizes = {
        name: settings.get(name)
        for name in sorted(_of_presets(experiment) - {*NOT_SIZES})
        if defaults[name] is None or type(defaults[name]) is int
    }
    if experiment.growth is not None:
        first = experiment.growth.steps(experiment.settings(**settings))[0]
        sizes |= {name: settings.get(name) for name in experiment.growth.start} | first
    return sizes


def _is_limit(name: str, sizes: Mapping[str, int | None]) -> bool:
    return name in sizes or name.startswith("max_")


def _same(value: object, default: object) -> bool:
    return value == (list(default) if isinstance(default, tuple) else default)


def _level(experiment: Experiment[Any], settings: Mapping[str, Any]) -> str:
    """Return the effort, or the preset whose settings these are; a preview is one at any effort."""
    keys, presets = _of_presets(experiment), experiment.settings_of_presets()
    if experiment.growth is not None:
        own = (name for name in presets if name not in PRESETS)
        effort = str(settings.get("effort", ""))
        return next((name.lower() for name in own if _has(settings, presets[name])), effort)
    for name, changes in presets.items():
        values = _defaults(experiment) | changes
        if all(_same(settings.get(key), values[key]) for key in keys):
            return name.lower() if len(presets) > 1 else ""
    sizes = {key: settings.get(key) for key in sorted(keys) if _is_limit(key, {})}
    changed = {key: size for key, size in sizes.items() if size != _defaults(experiment)[key]}
    return ", ".join(_in_words(key, size) for key, size in changed.items()) or OWN


def _in_words(size_of: str, size: object) -> str:
    """Return a limit of a sample: `100 sentences`, `all pairs`."""
    return f"{'all' if size is None else whole(size)} {size_of.removeprefix('max_')}"


def _has(settings: Mapping[str, Any], changes: Mapping[str, Any]) -> bool:
    return all(_same(settings.get(key), value) for key, value in changes.items())


def _finer(experiment: Experiment[Any], level: str) -> int:
    """Return how many presets are rougher; those above Quick count as one."""
    names = [name.lower() for name in experiment.settings_of_presets()]
    rough = names[: names.index(QUICK.lower()) + 1] if QUICK.lower() in names else []
    return rough.index(level) if level in rough else len(rough)


def _of_presets(experiment: Experiment[Any]) -> set[str]:
    """Return the settings that presets change."""
    return {key for changes in experiment.settings_of_presets().values() for key in changes}


def _defaults(experiment: Experiment[Any]) -> dict[str, Any]:
    return {name: each.default for name, each in experiment.settings.model_fields.items()}


def _seeds(experiment: Experiment[Any], settings: Mapping[str, Any]) -> Sequence[int]:
    """Return the seeds of a run; those of its effort where none were set."""
    seeds = settings.get("seeds")
    if not isinstance(seeds, list | tuple):
        return ()
    if not seeds:
        budget = getattr(experiment.settings(**settings), "budget", None)
        seeds = getattr(budget, "seeds", ())
    return tuple(seeds or ())
