"""Time of attributions, relative to captum by hand on the same model and text.

    python -m tests.benchmarks.attribution
    python -m tests.benchmarks.attribution --rounds 9 --words 28

Both arms compute the same scores (compared to 1e-5 first): integrated gradients with 16 steps,
gradient x input, and occlusion by word. By hand: captum with `inputs_embeds` of the transformers
model, and sums over pieces, with one batch of steps and one variant per pass in occlusion, captum's
default. Ratios are medians over rounds, in turn, with their range. Ours includes the value at the
text and at the baseline, and the convergence delta.
"""

import argparse
import json
import statistics
import time
from pathlib import Path

import numpy as np
import torch
from spacy.tokens import Doc

import workbench as wb
from tests.analyses.predictions.by_hand import FUNCTIONS
from workbench.analyses.attribution.methods import attribute_prediction
from workbench.analyses.predictions.prediction import Prediction, of_word
from workbench.analyses.predictions.target import Target
from workbench.core.files import atomic_write

MODELS = ("mini:bert", "mini:gpt", "mini:t5")
RESULTS = Path(__file__).parent / "results"


def explained(name: str, n_words: int) -> tuple[Prediction, Target]:
    """The last word but one of a text of this length."""
    model = wb.load(name, device="cpu")
    words = [token.text for doc in wb.read("primer").docs("test", limit=20) for token in doc]
    text = Doc(next(wb.read("primer").docs("test", limit=1)).vocab, words=words[:n_words])
    prediction = of_word(model, text, n_words - 2)
    with torch.no_grad():
        return prediction, Target(int(prediction.logits()[0].argmax()))


def compared(name: str, method: str, n_words: int, rounds: int) -> dict[str, object]:
    """Seconds of both arms, and their ratio."""
    prediction, target = explained(name, n_words)
    by_hand = FUNCTIONS[method]
    expected = by_hand(prediction, target)
    ours = attribute_prediction(prediction, target, method, max_steps=16)  # type: ignore[arg-type]
    np.testing.assert_allclose(ours.scores[: len(expected)], expected, atol=1e-5, rtol=1e-4)
    seconds: dict[str, list[float]] = {"ours": [], "captum": []}
    for _ in range(rounds):
        start = time.perf_counter()
        by_hand(prediction, target)
        middle = time.perf_counter()
        attribute_prediction(prediction, target, method, max_steps=16)  # type: ignore[arg-type]
        seconds["captum"].append(middle - start)
        seconds["ours"].append(time.perf_counter() - middle)
    ratios = [a / b for a, b in zip(seconds["ours"], seconds["captum"], strict=True)]
    return {
        "model": name,
        "method": method,
        "pieces": int(prediction.text.mask.sum()),
        "ours_seconds": round(statistics.median(seconds["ours"]), 4),
        "captum_seconds": round(statistics.median(seconds["captum"]), 4),
        "ratio": round(statistics.median(ratios), 2),
        "ratio_range": [round(min(ratios), 2), round(max(ratios), 2)],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7, help="rounds of both arms (default 7)")
    parser.add_argument("--words", type=int, default=30, help="words of the text (default 30)")
    chosen = parser.parse_args()
    rows = [
        compared(name, method, chosen.words, chosen.rounds)
        for name in MODELS
        for method in FUNCTIONS
    ]
    for row in rows:
        print(row, flush=True)
    with atomic_write(RESULTS / "attribution.json") as draft:
        facts = {"threads": torch.get_num_threads(), "rounds": chosen.rounds, "rows": rows}
        draft.write_text(json.dumps(facts, indent=2) + "\n", "utf-8")


if __name__ == "__main__":
    main()
