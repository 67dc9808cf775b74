"""The code that opens a saved model, run in a new process as the model card shows it.

Plain transformers reads the folder and predicts a few texts; the logits are compared with those of
the model here. Costs: importing transformers, and opening the model.
"""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from workbench.core.files import parse_json
from workbench.corpora import read
from workbench.corpora.encode import encode
from workbench.models.huggingface import HuggingFace
from workbench.runs.model_card import is_plain, opening_code

if TYPE_CHECKING:
    from spacy.tokens import Doc

TEXTS = 3  # the shortest ones, which no tokenizer has to cut
CLOSE = 1e-4  # of logits
SECONDS = 600
PREDICTED = """
import json, sys, torch
model.eval()
with torch.no_grad():
    texts = [tokenizer(text, return_tensors="pt") for text in json.load(sys.stdin)]
    print(json.dumps([model(**text).logits[0].flatten().tolist() for text in texts]))
"""


def opened(folder: Path, model: HuggingFace, docs: "Sequence[Doc]") -> dict[str, Any]:
    """Open a model by the code of its card, and compare its predictions."""
    texts = sorted({doc.text for doc in docs if doc.text.strip()}, key=len)[:TEXTS]
    plain = is_plain(folder)
    code = opening_code(folder)
    row = {"opened_by": "transformers" if plain else "workbench", "code": code}
    program = code.replace('"FOLDER"', json.dumps(str(folder))) + (PREDICTED if plain else "")
    process = subprocess.run(
        [sys.executable, "-P", "-c", program],
        input=json.dumps(texts), capture_output=True, text=True, timeout=SECONDS, check=False,
        env={**os.environ, "HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error"},
    )  # fmt: skip
    lines = (process.stdout if process.returncode == 0 else process.stderr).strip().splitlines()
    if process.returncode:
        why = lines[-1] if lines else f"exit code {process.returncode}"
        return {**row, "works": False, "difference": np.nan, "error": why}
    difference = _difference(model, texts, parse_json(lines[-1])) if plain else 0.0
    return {**row, "works": difference <= CLOSE, "difference": difference, "error": ""}


@torch.no_grad()
def _difference(model: HuggingFace, texts: Sequence[str], logits: "list[list[float]]") -> float:
    """The largest difference of logits."""
    largest = 0.0
    for text, theirs in zip(texts, logits, strict=True):
        pieces = model.encode(encode(list(read([text]).docs()))).to(model.device)
        own = model.forward(pieces, hidden=False, logits=True).logits
        assert own is not None, "a model with a head has logits"
        gap = np.abs(own[0].float().flatten().cpu().numpy() - np.array(theirs)).max()
        largest = max(largest, float(gap))
    return largest
