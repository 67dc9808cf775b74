"""Tables of a run with known content: half of the neurons cut, 98 % of the score kept on test."""

from typing import Any

import pandas as pd

CODE = 'from transformers import AutoModel\n\nmodel = AutoModel.from_pretrained("FOLDER")'


def tables(
    lower: float = 0.995, upper: float = 1.01, chosen: bool = True, learned: bool = True
) -> dict[str, Any]:
    """`lower` and `upper` are the interval of the share that is kept on test."""
    kept = (lower + upper) / 2
    point = {
        "stage": "neurons", "amount": "50 %", "trained": False, "disk": 3.0, "parameters": 800,
        "metric": "f1", "value": 0.8, "kept": 0.992 if chosen else 0.9, "lower": 0.85,
        "upper": 1.02, "keeps": chosen, "chosen": chosen, "left": True,
    }  # fmt: skip
    of_split = {
        "task": "topic", "metric": "f1", "score": "macro F1", "original": 0.8,
        "value": 0.8 * kept, "kept": kept,
        "lower": lower, "upper": upper, "bound": 0.99, "learned": learned, "n": 90,
    }  # fmt: skip
    model = {"method": "smaller model", "amount": "75 % of the size"}
    score = {
        "metric": "f1", "decides": True, "lower": 0.7, "upper": 0.9, "baseline": 0.3, "n": 90,
    }  # fmt: skip
    found: dict[str, Any] = {
        "scores": [{"model": "original", "value": 0.8, **score}],
        "kept": [{"split": "test", **of_split}],
        "sizes": [{"model": "original", "disk": 4.0, "parameters": 1000, "layers": 4}],
        "stages": [{"stage": "original", "cut": "opened", "seconds": 1.0, "disk": 4.0}],
    }
    if learned:
        found["scores"].append({"model": "smaller", "value": 0.79, **score})
        found["kept"].insert(0, {"split": "dev", **of_split})
        found["sizes"].append({"model": "smaller", "disk": 3.0, "parameters": 800, "layers": 4})
        found["points"] = [point]
        found["cost"] = [
            {
                **model, "texts": 32, "original": 20.0, "compressed": 10.0, "speedup": 2.0,
                "lower": 1.5, "upper": 2.5, "p": 0.001, "memory": 50.0, "faster": True,
            }
        ]  # fmt: skip
        found["lost"] = [
            {
                **model, "kind": "class", "group": "question <b>", "n": 20, "fall": 0.2,
                "rest": 0.0, "difference": 0.2, "lower": 0.1, "upper": 0.3, "p": 0.01,
            }
        ]  # fmt: skip
        found["opening"] = [
            {"opened_by": "transformers", "code": CODE, "works": True, "difference": 1e-6,
             "error": ""}
        ]  # fmt: skip
    return {name: pd.DataFrame(rows) for name, rows in found.items()}
