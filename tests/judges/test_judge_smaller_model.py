"""A judge of `smaller-model`: plain transformers and plain loops on the folder that it left.

Of two families with heads and neurons of odd number, and of labels that are the model's own.
"""

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from tests.analyses.smaller_model.test_recipe import CLASSES, SMALL, classifier, corpus_of
from tests.judges.odd import Quiet
from workbench.analyses.smaller_model import recipe
from workbench.analyses.smaller_model.experiments import SMALLER_MODEL, SmallerModel
from workbench.experiment import Inputs

pytestmark = pytest.mark.slow  # by day tests/analyses/smaller_model defines shares

KINDS = {"gpt2": "GPT2ForSequenceClassification", "llama": "LlamaForSequenceClassification"}


@pytest.mark.parametrize("family", KINDS)
def test_the_share_that_is_kept(
    family: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = {"opened_by": "transformers", "code": "", "works": True, "difference": 0.0, "error": ""}
    monkeypatch.setattr(recipe, "opened", lambda *_: row)
    model = classifier(family, KINDS[family])
    corpus = corpus_of(model, tmp_path / "texts.jsonl")
    settings = SmallerModel(**{**SMALL, "keep": 0.6, "amounts": (0.37,)})
    folder = tmp_path / "model"
    inputs = Inputs((model,), (corpus,), keep=folder)
    tables = SMALLER_MODEL.import_code()(inputs, settings, Quiet()).tables
    net: Any = AutoModelForSequenceClassification.from_pretrained(folder)
    words = AutoTokenizer.from_pretrained(folder)
    task = recipe.task_of(corpus, "", "")
    docs = recipe.labelled_parts(corpus, task, None, 0, settings.sizes).test
    right = {"original": 0, "smaller": 0}
    for doc in docs:
        gold = CLASSES.index(doc._.labels["says"])
        for name, each in (("original", model.net), ("smaller", net)):
            with torch.no_grad():
                logits = each(**words(doc.text, return_tensors="pt")).logits[0]
            right[name] += int(int(logits.argmax()) == gold)
    scores = tables["scores"].set_index(["model", "metric"])["value"]
    for name, count in right.items():
        assert scores[name, "accuracy"] == pytest.approx(count / len(docs), abs=1e-5)
    test = tables["kept"].iloc[-1]
    assert test["kept"] == pytest.approx(right["smaller"] / right["original"], abs=1e-5)
    assert right["original"] == len(docs) and test["n"] == len(docs)
    size = sum(file.stat().st_size for file in folder.rglob("*.safetensors")) / 2**20
    assert tables["sizes"]["disk"].tolist()[-1] == pytest.approx(size)
    assert tables["sizes"]["parameters"].tolist()[-1] == net.num_parameters()
