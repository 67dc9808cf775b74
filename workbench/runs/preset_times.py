"""How long presets take that no built-in result tells: seconds on two cores, with one thread.

`preset_times.json` has them for a mini model and the primer, and for a larger model, so that
`estimate` knows how they grow. `python -m workbench.runs.preset_times` measures all again, or those
of the named experiments; with `--model FOLDER` those of the larger model, whose weights may be
random. Costs: reading a small file; measuring takes half an hour on a quiet machine.
"""

import argparse
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from workbench.core.errors import WorkbenchError
from workbench.core.files import atomic_write, read_json
from workbench.experiment.definition import EXPERIMENTS, FULL, QUICK, STANDARD
from workbench.models.references import MINI
from workbench.runs import model_facts
from workbench.runs.builtin import alone, builtin_runs

FILE = Path(__file__).with_name("preset_times.json")
CORPUS = ("primer",)
SENTENCES = "max_sentences"  # a setting by which times are scaled
GROWN = (STANDARD, FULL)  # presets that take as long as a question is open
LARGER = "a larger model"  # in place of a reference
OF_MODELS = "0"  # in place of a number of parameters
MODELS: Mapping[str, tuple[str, ...]] = {  # of the experiments that are measured
    "attention-averages": MINI[:1],
    "attention-probe": MINI[:1],
    "edge-probing": MINI[:1],
    "finetune": MINI[:1],
    "head-gates": MINI[:1],
    "pretraining": (),
}


@dataclass(frozen=True)
class Timed:
    """A preset with its settings, its inputs, and how many seconds it took."""

    settings: Mapping[str, Any]
    models: tuple[str, ...]
    corpora: tuple[str, ...]
    seconds: float
    parameters: int = 0  # of a model that has no reference


def timed(experiment: str) -> list[Timed]:
    """Return the presets of an experiment that were measured."""
    presets = EXPERIMENTS[experiment].settings_of_presets()
    found = []
    for size, times in _stored().items():
        models = MODELS.get(experiment, ()) if size == OF_MODELS else (LARGER,)
        for preset, seconds in times.get(experiment, {}).items():
            if preset in presets:
                found.append(Timed(presets[preset], models, CORPUS, seconds, int(size)))
    return found


@cache
def _stored() -> dict[str, dict[str, dict[str, float]]]:
    """Seconds by number of parameters (0: of `MODELS`), experiment and preset."""
    times: dict[str, dict[str, dict[str, float]]] = read_json(FILE)
    return times


def distinct(experiment: str) -> dict[str, Mapping[str, Any]]:
    """Return the presets to measure: of those that differ in the number of sentences only, one.

    An experiment whose sample grows takes as long as its question is open: only its first presets
    are measured.
    """
    presets = EXPERIMENTS[experiment].settings_of_presets()
    if EXPERIMENTS[experiment].growth is not None:
        presets = {name: each for name, each in presets.items() if name not in GROWN}
    chosen: dict[str, str] = {}
    for preset in sorted(presets, key=STANDARD.__eq__):
        settings = {name: each for name, each in presets[preset].items() if name != SENTENCES}
        chosen[json.dumps(settings, sort_keys=True)] = preset
    return {
        preset: presets[preset]
        for preset in chosen.values()
        if None not in presets[preset].values()
    }


def measure(names: Sequence[str] = (), model: str = "") -> None:
    """Measure the presets of experiments (default: all) and write them to the file."""
    from workbench.runs.api import answered
    from workbench.runs.request import make_request

    times = dict(_stored())
    size = str(model_facts.known(model).facts["parameters"]) if model else OF_MODELS
    measured = times.setdefault(size, {})
    for name in names or (MODELS if not model else _of_a_model()):
        measured[name] = {}
        presets = distinct(name) if not model else _first_steps(name)
        for preset, settings in presets.items():
            models = (model,) if model else MODELS[name]
            with alone(), suppress(WorkbenchError):  # a model without what it needs
                run = answered(make_request(name, models, CORPUS, settings, device="cpu"))
                measured[name][preset] = round(run.status.seconds, 1)
            print(f"{name}, {preset}: {measured[name].get(preset)} s", flush=True)
            with atomic_write(FILE) as draft:
                text = json.dumps(times, indent=1, sort_keys=True)
                draft.write_text(f"{text}\n", encoding="utf-8")


def _of_a_model() -> list[str]:
    """The experiments on a model, whose times on a mini model are known."""
    known = {run.spec.experiment for run in builtin_runs()} | set(MODELS)
    return [name for name in sorted(known) if EXPERIMENTS[name].models[0] == 1]


def _first_steps(name: str) -> dict[str, Mapping[str, Any]]:
    """The presets of an experiment but the last, each without growth."""
    experiment = EXPERIMENTS[name]
    grows = {"time": "0s"} if experiment.growth is not None else {}
    presets = experiment.settings_of_presets()
    return {name: {**presets[name], **grows} for name in presets if name in (QUICK, STANDARD)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--model", default="", help="folder of the larger model")
    given = parser.parse_args()
    measure(given.names, given.model)


if __name__ == "__main__":
    main()
