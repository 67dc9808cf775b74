"""An experiment while a model trains: the training is the same, bit for bit, as without it."""

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import Dataset
from transformers import BertForMaskedLM, PreTrainedModel, Trainer, TrainingArguments

import workbench as wb
from tests.models import zoo

TEXTS = ["the dog saw a cat and the cat saw a dog .", "a cat ran ."]


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORKBENCH_RUNS", str(tmp_path / "runs"))


class Pieces(Dataset[dict[str, torch.Tensor]]):
    def __len__(self) -> int:
        return 12

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        pieces = torch.randint(5, 20, (8,))  # drawn anew, from the generator of the training
        return {"input_ids": pieces, "labels": pieces}


def net() -> PreTrainedModel:
    """A small BERT whose dropout draws random numbers."""
    config = zoo.built("bert").config
    config.hidden_dropout_prob = 0.2
    torch.manual_seed(3)
    return BertForMaskedLM(config)


def trained(folder: Path, *callbacks: Any) -> tuple[PreTrainedModel, list[Any]]:
    chosen = TrainingArguments(
        str(folder),
        max_steps=6,
        logging_steps=2,
        per_device_train_batch_size=2,
        report_to=[],
        save_strategy="no",
        disable_tqdm=True,
        use_cpu=True,
        dataloader_pin_memory=False,
    )
    trainer = Trainer(net(), chosen, train_dataset=Pieces(), callbacks=list(callbacks))
    trainer.train()
    losses = [(each["step"], each["loss"]) for each in trainer.state.log_history if "loss" in each]
    return trainer.model, losses


def same(one: PreTrainedModel, other: PreTrainedModel) -> bool:
    pairs = zip(one.state_dict().values(), other.state_dict().values(), strict=True)
    return all(torch.equal(*pair) for pair in pairs)


def watch(every: Any) -> Any:
    tokenizer = zoo.words_of("bert")
    return wb.callback("profile", corpus=TEXTS, every=every, tokenizer=tokenizer, name="mine")


def test_a_trainer_ends_with_the_same_weights_and_losses(tmp_path: Path) -> None:
    looks = watch("log")
    plain, losses = trained(tmp_path / "a")
    watched, same_losses = trained(tmp_path / "b", looks)
    assert same(plain, watched) and losses == same_losses and len(losses) == 3
    assert sorted(looks.runs) == [0, 2, 4, 6] and not looks.failed
    hashes = {run.provenance["models"][0]["content_hash"] for run in looks.runs.values()}
    assert len(hashes) == 4  # each run is of the weights of its step
    assert {run.provenance["models"][0]["name"] for run in looks.runs.values()} == {"mine"}
    table = looks.table
    assert table["step"].unique().tolist() == [0, 2, 4, 6] and "value" in table
    figure = looks.figure()
    assert [*figure.data[-1].x] == [0, 2, 4, 6]
    assert repr(looks) == "<TrainingCallback profile: 4 runs, the last at step 6>"


def test_a_loop_of_ones_own_is_not_disturbed() -> None:
    def loop(looks: Any) -> tuple[PreTrainedModel, list[float]]:
        model = net().train()
        random.seed(1), np.random.seed(1), torch.manual_seed(1)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        drawn = list[float]()
        for step in range(1, 5):
            pieces = torch.randint(5, 20, (2, 8))
            model(input_ids=pieces, labels=pieces).loss.backward()
            looks(model, step)  # between the gradient and its use
            assert model.training
            optimizer.step()
            optimizer.zero_grad()
            drawn += [random.random(), float(np.random.rand()), float(torch.rand(()))]
        return model, drawn

    looks = watch(2)
    plain, numbers = loop(lambda model, step: None)
    watched, same_numbers = loop(looks)
    assert same(plain, watched) and numbers == same_numbers
    assert sorted(looks.runs) == [2, 4]


def test_what_is_wrong_is_said_at_the_first_step_and_never_ends_a_training(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with pytest.raises(wb.WorkbenchError, match="nowhere"):
        wb.callback("profile", corpus="nowhere.txt", tokenizer=zoo.words_of("bert"))(net(), 0)
    with pytest.raises(wb.WorkbenchError, match="no tokenizer"):
        wb.callback("profile", corpus=TEXTS)(net(), 0)
    for every in (0, "sometimes"):
        with pytest.raises(wb.WorkbenchError, match="every is"):
            wb.callback("profile", every=every)
    with pytest.raises(wb.WorkbenchError, match="no curve"):
        watch(1).figure()
    looks = watch(1)
    looks(net(), 0)
    looks.arguments["corpus"] = "nowhere.txt"
    looks(net(), 1)
    assert [*looks.runs] == [0] and [*looks.failed] == [1]
    assert "step 1" in caplog.text
