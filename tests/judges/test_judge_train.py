"""`train` against transformers' own forward: the model it leaves is opened by transformers alone.

The held-out loss is recomputed from the text's last lines, each with its line break, a line at a
time; parameters are counted, and steps read from the curve.
"""

import math
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

import workbench as wb
from tests.judges.odd import Quiet
from workbench import experiments
from workbench.experiment import Inputs

SHARE = 0.1


@pytest.mark.parametrize("family", ["gpt"])
def test_the_held_out_loss_parameters_and_steps(
    family: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge(family, tmp_path, monkeypatch, steps=12, lines=120)


@pytest.mark.slow
def test_those_of_a_longer_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    judge("gpt", tmp_path, monkeypatch, steps=150, lines=800)


def judge(
    family: str, folder: Path, monkeypatch: pytest.MonkeyPatch, steps: int, lines: int
) -> None:
    monkeypatch.setenv("WORKBENCH_HOME", str(folder / "home"))
    docs = wb.read(f"primer:size={lines}").docs("train", lines)
    text = [" ".join(doc.text.split()) for doc in docs]
    (folder / "text.txt").write_text("\n".join(text) + "\n")
    kind = experiments()["train"]
    settings = kind.settings(
        family=family,
        size="tiny",
        rows="sentences",
        steps=steps,
        batch_size=8,
        held_out_fraction=SHARE,
    )
    corpus = wb.read(str(folder / "text.txt"))
    inputs = Inputs((), (corpus,), keep=folder / "model", scratch=folder / "scratch")
    tables = kind.run(inputs, settings, Quiet()).tables
    facts = tables["facts"].set_index("fact")["value"]
    net = AutoModelForCausalLM.from_pretrained(folder / "model").eval()
    tokenizer = AutoTokenizer.from_pretrained(folder / "model")
    assert int(facts["parameters"]) == sum(each.numel() for each in net.parameters())
    assert int(facts["steps"]) == steps == tables["curves"]["step"].max()
    nats, pieces = 0.0, 0
    held = text[-math.ceil(SHARE * len(text)) :]
    for place, line in enumerate(held, start=1):  # the text ends without a line break
        ids = tokenizer(line + "\n" * (place < len(held)), return_tensors="pt")["input_ids"]
        with torch.no_grad():
            logits = net(ids).logits[0].double()
        nats += float(torch.nn.functional.cross_entropy(logits[:-1], ids[0, 1:], reduction="sum"))
        pieces += ids.shape[1] - 1
    assert float(facts["held-out loss"]) == pytest.approx(nats / pieces, abs=2e-4)
