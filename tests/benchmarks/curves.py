"""Curves of probes at the default size, beside the same probes on all targets, on real treebanks.

    WORKBENCH_DATA=FOLDER python -m tests.benchmarks.curves        a random BERT, an hour

The model is a BERT with random weights, six blocks of 768, that has a piece for every word. Parts
of speech and dependencies are those of 2,000 sentences of EWT, phrases those of 2,000 of GUM, each
with all sentences of dev and test. Linear probes of each layer (or others: `--probe edge`): at
the default size (ten minutes, or until decided), once more in another folder of runs, at the size
of its last step alone, and on all targets. A default curve must be within a point of all targets at
every layer, or said to be undecided; two runs of a request must have the same bytes; all steps must
cost at most 1.6 times the last one alone.
"""

import argparse
import hashlib
import json
import os
import resource
import time
from pathlib import Path
from typing import Any

import pandas as pd

import workbench as wb
from tests.models.real_shapes import encoder
from workbench.models.huggingface import HuggingFace

RESULTS = Path(__file__).parent / "results" / "curves.json"
TRAIN = 2000  # sentences
CORPORA = {"ewt": ("pos", "dependencies"), "constituents": ("constituents",)}
SETTINGS: dict[str, Any] = {
    "modes": ("lexical", "layer"),
    "control_tasks": False,
    "random_baseline": False,
}
ALL = 10_000_000  # more than any corpus has
MOST = 1.6  # times the last step


def corpus(name: str, data: Path, folder: Path) -> Path:
    """The corpus with the first sentences of train, and all of dev and test."""
    folder.mkdir(parents=True, exist_ok=True)
    for split in ("train", "dev", "test"):
        if name == "ewt":
            parts = (data / "ewt" / f"{split}.conllu").read_text("utf-8").split("\n\n")
            kept, end, ending = parts, "\n\n", "conllu"
        else:
            lines = (data / "edges" / f"constituents-gum.{split}.jsonl").read_text("utf-8")
            kept, end, ending = lines.splitlines(), "\n", "jsonl"
        if split == "train":
            kept = kept[:TRAIN]
        (folder / f"{split}.{ending}").write_text(end.join(kept).strip() + end, "utf-8")
    return folder


def model(corpora: list[Path], folder: Path) -> Path:
    """Write the random BERT that reads the words of the first corpus."""
    if not folder.exists():
        made: HuggingFace = encoder(wb.read(corpora[0]), layers=6, outlier=1.0)
        made.net.save_pretrained(folder)
        made.tokenizer.save_pretrained(folder)
    return folder


def digest(run: Any) -> str:
    """The hash of the bytes of all tables of a run."""
    found = hashlib.sha256()
    for path in sorted((Path(run.path) / "tables").iterdir()):
        found.update(path.name.encode() + path.read_bytes())
    return found.hexdigest()


def curves(run: Any) -> pd.DataFrame:
    """F1 of each task by layer, in points."""
    means = run.tables["means"]
    kept = means[(means["encoder"] == "model") & (means["mode"] == "layer")]
    return 100 * kept.pivot(index="task", columns="layer", values="mean")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="where runs, corpora and the model are written")
    parser.add_argument("--only", choices=CORPORA, nargs="*", default=list(CORPORA))
    parser.add_argument("--arms", nargs="*", default=["default", "again", "alone", "all"])
    parser.add_argument("--probe", default="linear")
    parser.add_argument("--time", default="10m")
    given = parser.parse_args()
    folder = given.folder.resolve()
    data = Path(os.environ["WORKBENCH_DATA"])
    corpora = {name: corpus(name, data, folder / name) for name in CORPORA}
    reads = model(list(corpora.values()), folder / "bert")
    found: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for name in given.only:
        for arm in given.arms:
            os.environ["WORKBENCH_RUNS"] = str(folder / f"runs-{arm}")
            key = name if given.probe == "linear" else f"{name}, {given.probe}"
            sizes = {"max_sentences": ALL, "max_targets": ALL} if arm == "all" else {}
            if arm == "alone":
                sizes = found[key]["default"]["growth"]["sizes"]
            began, spent = time.monotonic(), _processor()
            run = wb.run(
                "edge-probing", model=str(reads), corpus=str(corpora[name]),
                tasks=CORPORA[name], time=given.time, probes=(given.probe,), **SETTINGS, **sizes,
            )  # fmt: skip
            growth = run.provenance.get("growth", {})
            steps = [step["seconds"] for step in growth.get("steps", [])]
            made = found.setdefault(key, {})[arm] = {
                "seconds": round(time.monotonic() - began, 1),
                "processor_seconds": round(_processor() - spent, 1),
                "growth": growth,
                "all_steps_to_last": round(sum(steps) / steps[-1], 2) if steps else None,
                "tables": digest(run),
                "curves": json.loads(curves(run).round(2).to_json(orient="index")),
                "targets": json.loads(run.tables["tasks"].to_json(orient="records")),
                "findings": [each.claim for each in run.findings][:6],
                "caveats": [each["text"] for each in run.provenance["caveats"]],
            }
            print(name, arm, json.dumps(made, indent=1), flush=True)
            RESULTS.write_text(json.dumps(found, indent=1) + "\n")


def _processor() -> float:
    return sum(
        used.ru_utime + used.ru_stime
        for used in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    )


if __name__ == "__main__":
    main()
