"""Run an experiment at growing sizes until its findings are decided (`experiment/growth.py`).

Each step is a whole run of the experiment at larger sizes, in this process; the result is that of
the last step. It ends when nothing is open, when the data end, after the last step, or before a
step that would not end within the time limit. A step with nearly as much data as the next one,
because they end there, is left out if there is time for the next. States of a model that a step has
encoded are read by later steps with the same sentences. What is then still open is a caveat, with
what would decide it. The steps are in the provenance, and a run that the limit cut off is continued
by a request with a longer one.

The first step of a large model may itself take longer than the limit. Such a model is first run on
a sixteenth, and if that says that the first step would not end in time, on a quarter; if that says
so too, it is the result.

A step that was interrupted goes on: the steps before it are in the folder of partial results, and
are not computed again. Costs: all steps at most 1.6 times the last one; for a
large model a sixteenth of the first step more, and a third at most.
"""

import json
import math
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.core.errors import WorkbenchError
from workbench.core.files import read_json, write_atomically
from workbench.core.findings import listing
from workbench.corpora.splits import PARTS, n_split_off
from workbench.experiment.definition import Caveat, Experiment, Inputs, Progress, Result, Settings
from workbench.experiment.growth import FACTOR, LARGE, NEARLY, Growth
from workbench.experiment.sizes import GrowingSettings, SplitSettings, seconds_of

if TYPE_CHECKING:
    import pandas as pd

    from workbench.corpora import Corpus
    from workbench.runs.run import Run

UNDECIDED = "Undecided: "  # begins the caveat of what is open
MOST_NAMED = 4  # open questions that a caveat names
UNTRIED = "all findings on a sample of the usual size"  # open after less than the first step
OF_SENTENCES = {"max_sentences", *(f"max_{part}" for part in PARTS)}  # settings
BEGUN = "growth.json"  # among partial results: the step that has begun, and those before it
ENDINGS = {
    "decided": "its findings are decided",
    "data": "all data was used",
    "steps": "that was the last step",
    "time": "the time limit was reached",
}


@dataclass(frozen=True)
class Step:
    """One step: its sizes, how long it took, and what it left open."""

    sizes: Mapping[str, int | None]
    seconds: float
    still_open: tuple[str, ...]


@dataclass(frozen=True)
class Earlier:
    """The steps and the result of a run that only had less time."""

    steps: tuple[Step, ...]
    result: Result


def stored_result(run: "Run") -> Result:
    """Return the result of a finished run, without the caveat of what it left open."""
    caveats = [
        Caveat(each["text"], tuple(each["beside"]))
        for each in run.provenance["caveats"]
        if not each["text"].startswith(UNDECIDED)
    ]
    return Result(dict(run.tables), dict(run.arrays), tuple(caveats))


Continue = Callable[[], "Earlier | None"]


def grown(
    experiment: Experiment[Any],
    inputs: Inputs,
    settings: Settings,
    progress: Progress,
    earlier: Continue = lambda: None,
) -> tuple[Result, dict[str, Any]]:
    """Return the result at the size that decides, and what the provenance says of the growth."""
    growth = experiment.growth
    if growth is None or not isinstance(settings, GrowingSettings):
        return experiment.run(inputs, settings, progress), {}
    steps = growth.steps(settings)
    if len(steps) == 1:
        result = _at(experiment, inputs, settings, steps[0], progress)
        is_said = any("rough" in caveat.text for caveat in result.caveats)
        rough = settings.effort == "quick" and bool(steps[0]) and not is_said
        caveats = [_rough(steps[0])] if rough else []
        facts = {"growth": {"sizes": steps[0]}} if steps[0] else {}
        return replace(result, caveats=(*result.caveats, *caveats)), facts
    return _grown(experiment, growth, inputs, settings, steps, progress, earlier())


def _grown(
    experiment: Experiment[Any],
    growth: Growth,
    inputs: Inputs,
    settings: GrowingSettings,
    steps: list[dict[str, int | None]],
    progress: Progress,
    earlier: Earlier | None,
) -> tuple[Result, dict[str, Any]]:
    done: list[Step] = list(earlier.steps) if earlier else []
    result = earlier.result if earlier else None
    limit = seconds_of(settings.time)
    is_large = any(model.parameters >= LARGE for model in inputs.models)
    trials = growth.trials(settings) if is_large else []
    schedule = [*trials, *steps]
    at = 0 if limit else len(trials)
    if done:
        at = schedule.index(dict(done[-1].sizes)) + 1
    begun = _begun(inputs.scratch, schedule)
    if begun is not None:
        at, done = begun
    ending = "steps"
    data: _Data | None = None  # counted only if there may be a further step
    while at < len(schedule):
        if done and begun is None:
            left = limit - sum(step.seconds for step in done)
            data = data or (_Data.of(growth, inputs, settings) if left > 0 else None)
            if data is not None and data.share(done[-1].sizes, schedule[at]) == 1:
                ending = "data"
                break
            if data is None or data.predicted(done, schedule[at]) >= left:  # of 0 s, one step
                ending = "time"
                break
            if at < len(trials) and data.predicted(done, steps[0]) < left:
                at = len(trials)  # the first step itself ends in time
            while (
                len(trials) <= at < len(schedule) - 1
                and NEARLY < data.share(schedule[at], schedule[at + 1]) < 1
                and data.predicted(done, schedule[at + 1]) < left
            ):
                at += 1
        sizes, is_trial, begun = schedule[at], at < len(trials), None
        at += 1
        _begin(inputs.scratch, sizes, done)
        progress.log(f"Step {len(done) + 1}: {_counted(sizes)}.")
        began = time.monotonic()
        try:
            before, result = result, _at(experiment, inputs, settings, sizes, progress)
        except WorkbenchError as error:
            if not is_trial:
                raise
            progress.log(f"This sample is too small: {error}")
            continue
        is_open = growth.open_questions(experiment.findings_of(result.tables), result.tables)
        has_all = before is not None and _same(before.tables, result.tables)
        has_all = has_all or _has_all(inputs, settings.model_copy(update=sizes), sizes)
        if is_trial and not has_all:
            is_open = [UNTRIED, *is_open]
        done.append(Step(sizes, round(time.monotonic() - began, 3), tuple(is_open)))
        if not is_open:
            ending = "decided"
            break
        progress.log(f"Still open: {listing(is_open, MOST_NAMED)}.")
        if has_all:
            ending = "data"
            break
    if result is None:  # no step, which `steps` excludes
        raise AssertionError("an experiment has at least one step")
    progress.log(f"Sample of {_counted(done[-1].sizes)}: {ENDINGS[ending]}.")
    is_saved = inputs.keep is not None and inputs.keep.exists()
    caveats = [_undecided(done[-1], ending, is_saved)] if done[-1].still_open else []
    facts = {
        "sizes": done[-1].sizes,
        "ended": ending,
        "still_open": list(done[-1].still_open),
        "steps": [_stored(each) for each in done],
    }
    return replace(result, caveats=(*result.caveats, *caveats)), {"growth": facts}


def _begin(scratch: Path | None, sizes: Mapping[str, int | None], done: Sequence[Step]) -> None:
    """Store which step begins, for an attempt after this one."""
    if scratch is not None and done:  # the first one begins anyway
        content = {"sizes": sizes, "done": [_stored(each) for each in done]}
        write_atomically(scratch / BEGUN, json.dumps(content))


def _begun(
    scratch: Path | None, schedule: Sequence[Mapping[str, int | None]]
) -> tuple[int, list[Step]] | None:
    """The place of the step at which an earlier attempt was interrupted, and the steps before."""
    if scratch is None:
        return None
    try:
        stored = read_json(scratch / BEGUN)
        done = [step_of(each) for each in stored["done"]]
        return schedule.index(stored["sizes"]), done
    except (OSError, ValueError, LookupError, TypeError):  # none, or of another version
        return None


def _stored(step: Step) -> dict[str, Any]:
    """A step as provenance has it."""
    return {"sizes": step.sizes, "seconds": step.seconds, "still_open": list(step.still_open)}


def step_of(stored: Mapping[str, Any]) -> Step:
    """A step as provenance has it."""
    return Step(stored["sizes"], stored["seconds"], tuple(stored["still_open"]))


def _at(
    experiment: Experiment[Any],
    inputs: Inputs,
    settings: Settings,
    sizes: Mapping[str, int | None],
    progress: Progress,
) -> Result:
    """Run one step. Its partial results are its own: those of another size must not be taken."""
    at = settings.model_copy(update=sizes)
    limit = at.max_sentences if "max_sentences" in sizes else inputs.limit
    if inputs.scratch is None:
        return experiment.run(replace(inputs, limit=limit), at, progress)
    name = "-".join(f"{key}-{value or 'all'}" for key, value in sizes.items())
    scratch = inputs.scratch / f"step-{name}" if sizes else inputs.scratch
    scratch.mkdir(exist_ok=True)
    for store in inputs.scratch.glob("step-*/activations-*"):  # named by the hash of their inputs
        store.rename(scratch / store.name)
    if inputs.keep is not None and inputs.keep.is_dir():
        shutil.rmtree(inputs.keep)  # the model of a smaller step
    return experiment.run(replace(inputs, limit=limit, scratch=scratch), at, progress)


@dataclass(frozen=True)
class _Data:
    """How much data there is: sentences of each split, and the most of other settings that grow."""

    inputs: Inputs
    settings: GrowingSettings
    sentences: Mapping[str | None, int]
    most: Mapping[str, int]

    @classmethod
    def of(cls, growth: Growth, inputs: Inputs, settings: GrowingSettings) -> "_Data":
        grow, sentences = growth.growing(settings), {}
        if inputs.corpora and not OF_SENTENCES.isdisjoint(grow):
            splits = [split for split, _ in _limits(inputs.corpus, inputs.split, settings)]
            sentences = {each: sum(1 for _ in inputs.corpus.docs(each)) for each in splits}
        return cls(inputs, settings, sentences, growth.all_there_is(inputs, settings))

    def amounts(self, sizes: Mapping[str, int | None]) -> dict[str, float]:
        """What a step really has of what grows: at most all data."""
        found = {
            name: min(math.inf if size is None else size, self.most.get(name, math.inf))
            for name, size in sizes.items()
            if name not in OF_SENTENCES or not self.sentences
        }
        if len(found) < len(sizes):
            at = self.settings.model_copy(update=dict(sizes))
            limits = dict(_limits(self.inputs.corpus, self.inputs.split, at))
            found["sentences"] = sum(
                each if (limit := limits[split]) is None else min(each, limit)
                for split, each in self.sentences.items()
            )
        return found

    def share(self, before: Mapping[str, int | None], after: Mapping[str, int | None]) -> float:
        """The share of a step's data that an earlier one has, of what grows least; 1: all."""
        return max(self._shares(before, after), default=1.0)

    def predicted(self, done: list[Step], sizes: Mapping[str, int | None]) -> float:
        """How long a step takes: by the growth of the last two, else as much as its data.

        Of one step, it is not known how much of its time grows with what: a mean.
        """
        last = done[-1]
        times = self._times(last.sizes, sizes)
        if len(done) == 1:
            return math.sqrt(min(times) * max(times)) * last.seconds
        before = done[-2]
        grown = 1 - 1 / max(*self._times(before.sizes, last.sizes), FACTOR / 2)
        more = max(last.seconds - before.seconds, 0.0)
        return last.seconds + (max(times) - 1) / grown * more

    def _times(
        self, before: Mapping[str, int | None], after: Mapping[str, int | None]
    ) -> list[float]:
        """How many times as much a step has of each of its data."""
        shares = self._shares(before, after)
        return [1 / share if share else FACTOR for share in shares] or [1.0]  # 0: no end of data

    def _shares(
        self, before: Mapping[str, int | None], after: Mapping[str, int | None]
    ) -> list[float]:
        few, many = self.amounts(before), self.amounts(after)
        return [few[name] / n for name, n in many.items() if few[name] < n]


def _same(before: "Mapping[str, pd.DataFrame]", after: "Mapping[str, pd.DataFrame]") -> bool:
    """Whether a larger size gave the same tables: there was no more data."""
    return before.keys() == after.keys() and all(
        table.equals(after[name]) for name, table in before.items()
    )


def _has_all(inputs: Inputs, at: Settings, sizes: Mapping[str, int | None]) -> bool:
    """Whether the step has read all of its corpus, where only sentences and words grow."""
    if not inputs.corpora or not set(sizes) <= {*OF_SENTENCES, "max_words"}:
        return False
    limits = dict(_limits(inputs.corpus, inputs.split, at))
    grow = not OF_SENTENCES.isdisjoint(sizes)
    if grow and any(_is_longer(inputs.corpus, split, limit) for split, limit in limits.items()):
        return False
    most = sizes.get("max_words")
    docs = (doc for split, limit in limits.items() for doc in inputs.corpus.docs(split, limit))
    return most is None or sum(len(doc) for doc in docs) <= most


def _limits(
    corpus: "Corpus", split: str | None, at: Settings
) -> Iterator[tuple[str | None, int | None]]:
    """The maximum number of sentences of each split that a step reads."""
    if not isinstance(at, SplitSettings):
        yield split, at.max_sentences
        return
    each = (at.split_sizes.train, at.split_sizes.dev, at.split_sizes.test)
    if len(corpus.splits) < 2:
        read = None if None in each else sum(size or 0 for size in each)
        n = sum(1 for _ in corpus.docs(None, read))
        yield None, _of_random_parts(n, each)
        return
    sizes = dict(zip(PARTS, each, strict=True))
    for name in corpus.splits:
        yield name, sizes.get(name, at.split_sizes.train)


def _of_random_parts(n: int, limits: Sequence[int | None]) -> int:
    """How many of `n` sentences are used if they are split at random in train, dev and test."""
    test = n_split_off(n)
    dev = n_split_off(n - test)
    parts = zip((n - test - dev, dev, test), limits, strict=True)
    return sum(part if limit is None else min(part, limit) for part, limit in parts)


def _is_longer(corpus: "Corpus", split: str | None, most: int | None) -> bool:
    return most is not None and sum(1 for _ in corpus.docs(split, most + 1)) > most


def _in_words(sizes: Mapping[str, int | None]) -> str:
    return listing([f"{name} {'all' if n is None else f'{n:,}'}" for name, n in sizes.items()], 9)


def _counted(sizes: Mapping[str, int | None]) -> str:
    """The sizes of a step in words: `up to 300 train sentences`."""
    parts = {f"max_{part}": f"{part} sentences" for part in PARTS}
    return listing(
        [
            f"{'all' if n is None else f'up to {n:,}'} "
            f"{parts.get(name, name.removeprefix('max_').replace('_', ' '))}"
            for name, n in sizes.items()
        ],
        9,
    )


def _rough(sizes: Mapping[str, int | None]) -> Caveat:
    return Caveat(
        f"Effort quick used one small sample ({_in_words(sizes)}), so the numbers are rough. "
        "effort=standard lets it grow until the findings are decided."
    )


def _undecided(last: Step, ending: str, is_saved: bool = False) -> Caveat:
    """What the last step left open, and what would decide it; `is_saved`: the run has a model."""
    then = (
        "that run begins with its first step, as this one saved a model"
        if is_saved
        else ("the run continues from here")
    )
    remedy = {
        "data": "A larger corpus may decide it, or what the finding names.",
        "steps": "effort=full uses all data.",
        "time": f"A longer time could decide it, such as time=1h; {then}.",
    }[ending]
    return Caveat(
        f"{UNDECIDED}{listing(last.still_open, MOST_NAMED)}. The sample had "
        f"{_in_words(last.sizes)} when {ENDINGS[ending]}. {remedy}"
    )
