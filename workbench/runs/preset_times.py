"""How long presets take that no built-in result tells: seconds on two cores, with one thread.

`preset_times.json` has them for a mini model and the primer; other sizes are scaled by `estimate`.
`python -m workbench.runs.preset_times` measures all again, or those of the named experiments.
Costs: reading a small file; measuring takes a quarter of an hour on a quiet machine.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from workbench.core.files import atomic_write, parse_json, read_regular
from workbench.experiment.definition import EXPERIMENTS, FULL, STANDARD
from workbench.models.references import MINI
from workbench.runs.builtin import alone

FILE = Path(__file__).with_name("preset_times.json")
CORPUS = ("primer",)
SENTENCES = "max_sentences"  # a setting by which times are scaled
GROWN = (STANDARD, FULL)  # presets that take as long as a question is open
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


def timed(experiment: str) -> list[Timed]:
    """Return the presets of an experiment that were measured."""
    if experiment not in MODELS:
        return []
    presets = distinct(experiment)
    return [
        Timed(presets[preset], MODELS[experiment], CORPUS, seconds)
        for preset, seconds in _stored().get(experiment, {}).items()
        if preset in presets
    ]


@cache
def _stored() -> dict[str, dict[str, float]]:
    times: dict[str, dict[str, float]] = parse_json(read_regular(FILE))
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


def measure(names: Sequence[str] = ()) -> None:
    """Measure the presets of experiments (default: all) and write them to the file."""
    from workbench.runs.api import answered
    from workbench.runs.request import make_request

    times = dict(_stored()) if FILE.exists() else {}
    for name in names or MODELS:
        times[name] = {}
        for preset, settings in distinct(name).items():
            with alone():
                run = answered(make_request(name, MODELS[name], CORPUS, settings, device="cpu"))
                times[name][preset] = round(run.status.seconds, 1)
            print(f"{name}, {preset}: {times[name][preset]} s", flush=True)
            with atomic_write(FILE) as draft:
                text = json.dumps(times, indent=1, sort_keys=True)
                draft.write_text(f"{text}\n", encoding="utf-8")


if __name__ == "__main__":
    measure(sys.argv[1:])
