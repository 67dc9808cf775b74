"""Hashes of all tables of small runs of every experiment, to compare two versions.

    python -m tests.oracle --out before.json                 on one version
    python -m tests.oracle --against before.json             on the other; lists what differs

Every experiment is run in this process on the built-in models and corpora, with one thread. Columns
of time and memory are left out, since they differ each time, and of the name of a run only its
experiment counts, since the rest is a hash of its request, not of its result. All else is hashed to
the bit. Hashes are valid on one machine with one set of packages. Costs: about four minutes of one
core.
"""

import argparse
import hashlib
import json
import os
import re
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

MEASURED = {
    "seconds", "memory", "peak_memory", "speedup", "lowest", "highest", "whole", "smaller",
    "whole_memory", "smaller_memory", "size", "tokens_per_second", "pieces_per_second", "time",
}  # fmt: skip
RUN = re.compile(r"'([a-z-]+)-[0-9a-f]{16}'")  # the name of a run, as `repr` shows it
ENCODERS = ("mini:bert", "mini:t5", "mini:elmo", "mini:gpt")
RUNS: tuple[tuple[str, dict[str, Any], str | tuple[str, ...], tuple[str, ...]], ...] = (
    ("describe", {}, "primer:size=120", ()),
    ("trigram", {}, "primer:size=120", ENCODERS[3:]),
    ("tuned-lens", {"steps": 25}, "primer:size=80", ENCODERS),
    ("profile", {}, "primer:size=80", ENCODERS),
    ("minimal-pairs", {}, "primer/acceptability:size=60", ENCODERS),
    ("retrieve", {"questions": 8, "steps": 3, "k": 2, "attributed": 2},
     "primer:size=300", ENCODERS),
    ("cloze", {"choices": 4}, "primer:size=80", ENCODERS),
    ("text-to-text", {"decoding": ("greedy", "beams", "sampling"), "max_pieces": 8,
     "attributed": 2}, "primer/rewrites:size=60", ENCODERS[1::2]),
    ("few-shot", {"shots": (1,), "seeds": (0,), "label_words": ("negative=sad; positive=happy",),
     "attributed": 2}, "primer/sentiment:size=100", ENCODERS),
    ("geometry", {"random_models": 2, "min_contexts": 3}, "primer:size=80", ENCODERS),
    ("tokenization", {}, "primer:size=120", ENCODERS),
    ("word-vectors", {"n_shuffles": 20}, "primer:size=300", ENCODERS),
    ("lens", {"max_predictions": 60, "random_models": 2}, "primer:size=80", ENCODERS),
    ("patching", {"max_pairs": 12}, "primer/counterfactuals:size=200", ENCODERS),
    ("steering", {"max_words": 1, "max_texts": 24, "random_directions": 20},
     "primer/counterfactuals", ENCODERS[:2]),
    ("erasure", {"max_words": 120, "max_predictions": 20, "random_directions": 20},
     "primer:size=200", ENCODERS[:2]),
    ("neighbours", {"max_queries": 60, "random_models": 1, "n_permutations": 19, "min_count": 4},
     "primer:size=80", ENCODERS),
    ("heads", {}, "primer:size=80", ENCODERS),
    ("attention-averages", {}, "primer:size=80", ENCODERS),
    ("attribution", {"max_predictions": 6, "random_models": 1}, "primer:size=60", ENCODERS),
    ("contributions", {}, "primer:size=40", ENCODERS),
    ("attention-probe", {"seeds": (0,)}, "primer:size=60", ENCODERS[:2]),
    ("edge-probing", {"tasks": ["pos", "relations"], "effort": "quick"}, "primer:size=80",
     ENCODERS),
    ("edge-probing", {"tasks": ["pos"], "probes": "linear", "effort": "quick"}, "primer:size=80",
     ENCODERS[:1]),
    ("description-length", {"tasks": ["pos"]}, "primer:size=40", ENCODERS[:1]),
    ("structural-probe", {}, "primer:size=80", ENCODERS),
    ("similarity", {}, "primer:size=80", ENCODERS),
    ("drift", {}, "primer:size=80", ENCODERS),
    ("family", {"parts": ("text", "pairs")}, "primer:size=80", ENCODERS),
    ("head-importance", {}, "primer:size=80", ENCODERS),
    ("head-ablation", {"replacement": "mean"}, "primer:size=60", ENCODERS),
    ("head-gates", {"steps": 40}, "primer:size=60", ENCODERS[:1]),
    ("head-pruning", {"steps": 2, "random_orders": 1}, "primer:size=40", ENCODERS[:1]),
    ("compress", {"methods": ["weights", "neurons", "layers", "vocabulary"], "amounts": [0.5],
                  "random_orders": 1, "rounds": 0, "max_pairs": 20}, "primer:size=60",
     ENCODERS[:1]),
    ("errors", {}, "primer:size=60", ENCODERS[:1]),
    ("smaller-model", {"methods": ["neurons", "vocabulary"], "amounts": [0.5],
                       "recovery_epochs": 1, "rounds": 0}, "primer/sentiment:size=200",
     ENCODERS[:1]),
    ("finetune", {"task": "sentiment"}, "primer/sentiment:size=60", ENCODERS[:1]),
    ("finetune", {"task": "pos"}, "primer:size=60", ENCODERS[2:3]),
    ("frozen-vs-finetuned", {"tasks": ["sentiment"], "seeds": (0,), "max_epochs": 1},
     "primer/sentiment:size=60", ENCODERS[:1]),
    ("architectures", {"steps": 3, "n_layers": 2, "width": 16, "n_heads": 2, "batch_size": 4,
                       "sequence_length": 16, "vocabulary_size": 300, "seeds": (0, 1)},
     "primer:size=300", ()),
    ("recurrence", {"steps": 3, "n_layers": 2, "width": 16, "n_heads": 2, "batch_size": 4,
                    "segments": (4, 8), "memories": (0, 6), "vocabulary_size": 300,
                    "seeds": (0, 1)},
     "primer:size=300", ()),
    ("scaling", {"widths": (16, 32, 64), "data": (3, 6, 12), "seeds": (0, 1), "batch_size": 4,
                 "vocabulary_size": 300},
     "primer:size=300", ()),
    ("text-length", {"steps": 3, "n_layers": 1, "width": 16, "n_heads": 2, "lengths": (64, 128),
                     "window": 4, "trained_lengths": (16,), "pieces_per_step": 64,
                     "vocabulary_size": 300, "seeds": (0, 1)},
     "primer:size=300", ()),
    ("pretraining", {"tasks": ["sentiment"], "seeds": (0,), "max_epochs": 1,
                     "pretraining_steps": 10, "arms": ["mlm", "ltr"], "sizes": "tiny"},
     "primer/sentiment:size=60", ()),
    ("domain", {"size": "tiny", "general_steps": 5, "steps": 5, "seeds": (0, 1), "batch_size": 4,
                "sequence_length": 32, "vocabulary_size": 300, "max_test": 40},
     ("primer:size=300", "primer/entailment:size=200"), ()),
    ("distil", {"steps": 5, "seeds": (0, 1), "batch_size": 4, "max_test": 40}, "primer:size=120",
     ("mini:bert", "mini:t5", "mini:gpt")),
    ("train", {"family": "gpt", "steps": 20, "size": "tiny"}, "primer:size=400", ()),
    ("train", {"family": "bert", "steps": 20, "size": "tiny"}, "primer:size=400", ()),
    ("train", {"family": "elmo", "steps": 10, "size": "tiny"}, "primer:size=400", ()),
)  # fmt: skip


def digest(table: pd.DataFrame) -> str:
    """The hash of a table, without the columns and rows that measure this machine."""
    kept = table.drop(columns=[each for each in table.columns if each in MEASURED])
    for name in kept.columns:
        measured = [isinstance(each, str) and each in MEASURED for each in kept[name]]
        kept = kept.loc[~np.array(measured, dtype=bool)]
    digest_ = hashlib.sha256()
    for name in kept.columns:
        digest_.update(f"{name} {kept[name].dtype} ".encode())
        digest_.update(pd.util.hash_pandas_object(kept[name].map(_shown), index=False).to_numpy())
    return digest_.hexdigest()[:16]


def _shown(value: object) -> str:
    """A cell as text, without the hash in the name of a run."""
    return RUN.sub(r"'\1'", repr(value))


def hashes(only: str) -> dict[str, str]:
    """The hash of each table of one or all experiments; the error of a run that is refused."""
    import torch

    import workbench as wb

    torch.set_num_threads(1)
    found: dict[str, str] = {}
    for experiment, settings, corpus, models in RUNS:
        if only not in ("", experiment):
            continue
        for model in models or (None,):
            options = ",".join(f"{key}={value}" for key, value in settings.items())
            name = f"{experiment} {options} {model or ''} {corpus}"
            both = [model, f"{model}@random"] if experiment in ("drift", "family") else model
            print(name, file=sys.stderr, flush=True)
            try:
                run = wb.run(experiment, model=both, corpus=corpus, device="cpu", **settings)  # type: ignore[arg-type]
            except wb.WorkbenchError as error:
                found[name] = f"refused: {error.what}"
                continue
            for table, values in run.tables.items():
                found[f"{name}: {table}"] = digest(values)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--against", type=Path)
    parser.add_argument("--only", default="", help="one experiment's name")
    given = parser.parse_args()
    out, against = (path and path.resolve() for path in (given.out, given.against))
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        os.environ.update(WORKBENCH_HOME=f"{folder}/home", WORKBENCH_RUNS=f"{folder}/runs")
        os.environ.setdefault("OMP_NUM_THREADS", "1")
        found = hashes(given.only)
    if out is not None:
        out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(f"{len(found)} tables")
    if against is None:
        return 0
    before = json.loads(against.read_text(encoding="utf-8"))
    before = {name: each for name, each in before.items() if name.startswith(given.only)}
    differing = [name for name in {**before, **found} if before.get(name) != found.get(name)]
    for name in differing:
        print(f"{name}: {before.get(name, 'missing')} -> {found.get(name, 'missing')}")
    print(f"{len(differing)} differ")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
