"""Scores of three local files by `lm-eval`, beside ours, item by item, for `novels:gpt`.

    pip install -e ".[bench]"
    OMP_NUM_THREADS=1 python -m tests.benchmarks.lm_eval_scores

The files are made here from the primer: last words (LAMBADA), choices of ten (the Children's Book
Test) and minimal pairs (BLiMP). `lm-eval` puts a start token before a text without a context, so
the pairs are scored after it here too; words after a context are scored without one. Each
log-probability must be equal to 1e-3 nats, and each choice the same. Costs: a minute.
"""

import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from lm_eval import simple_evaluate
from lm_eval.models.huggingface import HFLM

import workbench as wb
from workbench.core.files import atomic_write
from workbench.corpora.cloze import Cloze, cloze_items, with_options
from workbench.corpora.encode import encode
from workbench.corpora.readers.tables import minimal_pairs
from workbench.models.references import folder_of
from workbench.models.scoring.gap_scores import gap_scores
from workbench.models.scoring.lm_scoring import score

RESULTS = Path(__file__).parent / "results" / "lm_eval_scores.json"
ITEMS = 100
NATS = 1e-3
Rows = list[dict[str, Any]]


def by_lm_eval(lm: Any, rows: Rows, folder: Path, kind: str, **fields: str) -> list[list[float]]:
    """The log-probability of each continuation of each row."""
    path = folder / f"{kind}.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    task = {
        "task": kind, "dataset_path": "json", "test_split": "test",
        "dataset_kwargs": {"data_files": {"test": str(path)}}, "target_delimiter": "",
        "metric_list": [{"metric": "acc"}], **fields,
    }  # fmt: skip
    found = simple_evaluate(model=lm, tasks=[task], log_samples=True)["samples"][kind]
    found.sort(key=lambda sample: sample["doc_id"])
    return [[float(each[0][0]) for each in sample["resps"]] for sample in found]


def ours(model: Any, items: list[Cloze], parts: str) -> list[float]:
    """Log-probabilities of the words in a gap, and of what follows them."""
    found = gap_scores(model, encode([item.doc for item in items]), [item.gap for item in items])
    nats = found.gap if parts == "gap" else found.gap + found.after
    return (-nats).tolist()


def before(item: Cloze) -> str:
    """The text before a gap, without the space in front of it."""
    return item.doc[: item.gap[0]].text


def main() -> None:
    model = wb.load("novels:gpt")
    folder_of_model = str(folder_of("novels:gpt"))
    lm = HFLM(folder_of_model, device="cpu", batch_size=8, dtype="float32")
    docs = list(wb.read("primer").docs("test", 3 * ITEMS))
    last = [item for item in cloze_items(docs) if item.gap[0] > 1][:ITEMS]
    choices = with_options(last, 10, 0)
    pairs = list(minimal_pairs(wb.read("primer/acceptability").docs("test", ITEMS)))

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        one = {
            "output_type": "loglikelihood",
            "doc_to_text": "{{before}}",
            "doc_to_target": "{{answer}}",
        }
        words = [{"before": before(item), "answer": " " + item.answer} for item in last]
        theirs = {"last word": by_lm_eval(lm, words, folder, "lambada", **one)}
        many = {
            "output_type": "multiple_choice", "doc_to_text": "{{before}}",
            "doc_to_choice": "{{options}}", "doc_to_target": "{{right}}",
        }  # fmt: skip
        filled = [
            {
                "before": before(item), "right": item.options.index(item.answer),
                "options": [" " + item.filled(own).doc[item.gap[0] :].text for own in item.options],
            }
            for item in choices
        ]  # fmt: skip
        theirs["choice of ten"] = by_lm_eval(lm, filled, folder, "cbt", **many)
        sides = [
            {"before": "", "options": [pair.good.text, pair.bad.text], "right": 0} for pair in pairs
        ]
        theirs["minimal pair"] = by_lm_eval(lm, sides, folder, "blimp", **many)

    own = {
        "last word": [[each] for each in ours(model, last, "gap")],
        "choice of ten": [
            ours(model, [item.filled(word) for word in item.options], "gap and after")
            for item in choices
        ],
        "minimal pair": np.stack(
            [
                -score(
                    model, encode([getattr(p, side) for p in pairs]), start_token=lm.prefix_token_id
                ).nats
                for side in ("good", "bad")
            ],
            axis=1,
        ).tolist(),
    }
    found = {}
    for kind, rows in theirs.items():
        gaps = [abs(np.array(a) - np.array(b)).max() for a, b in zip(rows, own[kind], strict=True)]
        same = [int(np.argmax(a) == np.argmax(b)) for a, b in zip(rows, own[kind], strict=True)]
        found[kind] = {
            "items": len(rows), "largest difference in nats": float(np.max(gaps)),
            "same choice": sum(same),
        }  # fmt: skip
        print(kind, found[kind])
        assert max(gaps) < NATS and all(same)
    with atomic_write(RESULTS) as draft:
        draft.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
