"""Estimates that the app shows before a run, beside how long the run takes.

    python -m tests.benchmarks.estimates FOLDER        the runs are kept there; half an hour

Runs of the four minis and of two random models of real shape, as a user would start them one after
the other: each estimate knows the runs before it. An estimate is right within a factor of 2; one of
a range ("20 s to 10 min") if the time lies within a factor of 2 of the range. Where both are below
five seconds, the app says "a few seconds" and is right.
"""

import argparse
import json
import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results" / "estimates.json"
CORPUS = "primer"
ALL = ("profile", "neighbours", "tokenization", "geometry", "edge-probing", "finetune", "lens")
ATTENTION = ("heads", "head-importance", "head-ablation", "attention-averages", "structural-probe")
REAL = ("profile", "heads", "head-importance", "head-ablation", "lens", "geometry", "edge-probing")
FACTOR = 2.0


def planned(real: list[str]) -> Iterator[tuple[str, str, str]]:
    """The model, experiment and preset of each run."""
    minis = [f"mini:{name}" for name in ("bert", "gpt", "t5", "elmo")]
    for model in minis:
        for experiment in (*ALL, *(() if model == "mini:elmo" else ATTENTION)):
            yield model, experiment, "Quick"
    for model in real:
        for experiment in REAL:
            yield model, experiment, "Quick"
    for model in (*minis[:2], *real):  # what is known of the models by now
        for experiment in ("heads", "lens", "profile"):
            yield model, experiment, "Standard"


def measured(model: str, name: str, preset: str) -> dict[str, Any] | None:
    """The estimate and the time of a run; None if the experiment refuses the model."""
    import workbench as wb
    from workbench.app.runs.new_run import estimated
    from workbench.experiment.definition import EXPERIMENTS

    experiment = EXPERIMENTS[name]
    changes = experiment.settings_of_presets().get(preset, {})
    before = estimated(experiment, changes, (model,), (CORPUS,))
    try:
        run = wb.run(name, model=model, corpus=CORPUS, device="cpu", **changes)
    except wb.WorkbenchError as error:
        print(f"{name} of {model}: {error}")
        return None
    seconds = run.status.seconds
    low = high = 0.0
    if before is not None:
        low, high = (before.first or before.seconds), before.seconds
    few = before is not None and high < 5 and seconds < 5
    return {
        "model": Path(model).name, "experiment": name, "preset": preset,
        "said": before.in_words if before is not None else "", "seconds": round(seconds, 1),
        "right": few or low / FACTOR <= seconds <= high * FACTOR,
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="for models and runs; new")
    folder = parser.parse_args().folder.absolute()
    os.environ |= {
        "WORKBENCH_RUNS": str(folder / "runs"),
        "WORKBENCH_HOME": str(folder / "home"),
        "OMP_NUM_THREADS": "1",
    }
    logging.disable(logging.WARNING)
    import workbench as wb
    from tests.models import real_shapes

    real_shapes.decoder(folder / "decoder", layers=12, dtype=real_shapes.torch.float32)
    net = real_shapes.encoder(wb.read(CORPUS), layers=6)
    net.save(folder / "encoder")
    runs = []
    for each in planned([str(folder / "encoder"), str(folder / "decoder")]):
        if (row := measured(*each)) is not None:
            runs.append(row)
            print(f"{row['experiment']:20} {row['model']:10} {row['preset']:9} "
                  f"{row['said']:24} {row['seconds']:8} {row['right']}", flush=True)  # fmt: skip
            found = counted(runs)
            RESULTS.write_text(json.dumps({**found, "runs": runs}, indent=1) + "\n")
    print(f"{found['right']} of {found['estimated']} are right; {found['unknown']} runs had none")


def counted(runs: list[dict[str, Any]]) -> dict[str, int]:
    """How many runs had an estimate, and how many of those were right."""
    known = [row for row in runs if row["said"]]
    right = sum(row["right"] for row in known)
    return {"estimated": len(known), "right": right, "unknown": len(runs) - len(known)}


if __name__ == "__main__":
    main()
