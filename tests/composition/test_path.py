"""The path of an engineer: from a bare encoder and a table to a pruned folder, in five commands.

The last process opens the folder with plain transformers alone. The encoder is small and already
knows its language, or one of real shape, as AutoModel saves it. By day the steps are tried apart:
`test_objectives.py` and `test_elsewhere.py`, and the tests of fine-tuning and of pruning.
"""

import csv
import html
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModel, AutoTokenizer, BertConfig, BertModel

import workbench as wb
from tests.composition.test_elsewhere import agrees, case_of, elsewhere
from tests.composition.test_matrix import PRODUCERS
from workbench.cli.main import main
from workbench.models.huggingface import HuggingFace
from workbench.models.references import ADAPTER, TASK, located
from workbench.runs.model_card import opening_code

QUICK = [
    "--max-train", "60", "--max-dev", "10", "--max-test", "10", "--seeds", "0",
    "--learning-rates", "0.0015", "--max-epochs", "2",
]  # fmt: skip
PRUNING = [
    "--methods", "importance", "--prune-by", "importance", "--random-orders", "1", "--steps", "2",
    "--recovery-steps", "4", "--max-sentences", "20",
]  # fmt: skip


pytestmark = pytest.mark.usefixtures("warm_workers")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("WORKBENCH_RUNS", str(tmp_path / "runs"))
    monkeypatch.chdir(tmp_path)
    docs = list(wb.read("primer/sentiment:size=150").docs())
    with (tmp_path / "reviews.csv").open("w", newline="", encoding="utf-8") as file:
        rows = [(doc.text, doc._.labels["sentiment"]) for doc in docs]
        csv.writer(file).writerows([("text", "verdict"), *rows])
    return tmp_path


def command(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> None:
    monkeypatch.setattr(sys, "argv", ["workbench", *arguments])
    with pytest.raises(SystemExit) as end:
        main()
    assert not end.value.code, arguments


def bare(folder: Path, **shape: int) -> None:
    """An encoder without any head; with a shape, one with random weights and a pooler."""
    tokenizer = AutoTokenizer.from_pretrained(located("mini:bert"))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        if shape:
            net: Any = BertModel(BertConfig(vocab_size=len(tokenizer), **shape))
        else:
            net = AutoModel.from_pretrained(located("mini:bert"), add_pooling_layer=False)
    net.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def walked(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def step(experiment: str, model: str, *settings: str) -> str:
        before = set((place / "runs").glob("*")) if (place / "runs").is_dir() else set()
        command(
            monkeypatch, "run", experiment, "--model", model, "--corpus", "reviews.csv",
            "--device", "cpu", *settings,
        )  # fmt: skip
        (folder,) = set((place / "runs").glob("*")) - before
        return folder.name

    tuned = step("finetune", "./encoder", *QUICK)
    capsys.readouterr()
    step("head-importance", tuned, "--max-sentences", "20")
    said = "".join(capsys.readouterr())
    assert f"Measures {tuned} on verdict (the class of a text: negative, positive)" in said
    pruned = step("head-pruning", tuned, *PRUNING)
    command(monkeypatch, "export-model", pruned, "--out", "smaller")
    command(monkeypatch, "report", pruned, "--out", "report.html")

    model = wb.load(pruned, device="cpu")
    assert isinstance(model, HuggingFace)
    case = case_of(
        model, place / "smaller", "AutoModelForSequenceClassification",
        labels=("negative", "positive"), problem="single_label_classification",
    )  # fmt: skip
    agrees(case, elsewhere([case])[0])
    report = html.unescape(re.sub(r"<[^>]+>", " ", (place / "report.html").read_text("utf-8")))
    report = report.replace("\N{NO-BREAK SPACE}", " ")
    heads, left = model.n_removed_heads, sum(site.heads for site in model.sites)
    assert heads > 0
    assert re.search(
        rf"The saved model has {left} of {left + heads} heads \([\d.]+ MiB on disk\) and an "
        r"accuracy on verdict of [\d.]+ %, before [\d.]+ % \(change \S+ points, 95 % \S+ to \S+\)",
        report,
    )
    assert re.search(r"times as fast on \d+ texts \(.*? to .*? in five measurements\)", report)
    card = (place / "smaller" / "README.md").read_text("utf-8")
    assert "verdict (the class of a text: negative, positive)" in card
    assert "AutoModelForSequenceClassification" in card


@pytest.mark.slow
def test_five_commands_lead_to_a_smaller_model(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bare(place / "encoder")
    walked(place, monkeypatch, capsys)


@pytest.mark.slow
def test_five_commands_with_an_encoder_of_real_shape(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bare(
        place / "encoder", hidden_size=384, num_hidden_layers=6, num_attention_heads=12,
        intermediate_size=1536,
    )  # fmt: skip
    walked(place, monkeypatch, capsys)


def test_weights_that_a_folder_lacks_are_the_same_each_time(place: Path) -> None:
    """Else a run would find that its model has changed, such as an encoder without a pooler."""
    bare(place / "encoder")
    first, second = (wb.load("./encoder", device="cpu").content_hash for _ in range(2))
    assert first == second


def test_a_corpus_without_the_labels_is_refused_before_a_run(place: Path) -> None:
    folder = PRODUCERS["folder-BertForSequenceClassification"].make(place)
    for experiment in ("head-importance", "head-ablation", "head-gates", "head-pruning"):
        with pytest.raises(wb.WorkbenchError, match="no label of the corpus has the classes"):
            wb.run(experiment, model=folder, corpus="primer:size=60", device="cpu")
    assert not (place / "runs").exists()


def test_the_card_of_an_adapter_names_the_classes(tmp_path: Path) -> None:
    (tmp_path / "task").mkdir()
    task = {"name": "topic", "kind": "class", "names": ["billing", "login"]}
    (tmp_path / TASK).write_text(json.dumps({"task": task}))
    (tmp_path / ADAPTER).write_text("{}")
    assert "id2label={0: 'billing', 1: 'login'}" in opening_code(tmp_path)
