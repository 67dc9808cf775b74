"""Folders of fine-tuned models whose heads have random weights: nothing is trained."""

from pathlib import Path

import torch
from spacy.tokens import Doc

import workbench as wb
from workbench import Model
from workbench.corpora.layers import vocabulary
from workbench.corpora.text_prediction import pair_of
from workbench.engine.task import Labelling as Kind
from workbench.engine.task import Task
from workbench.models.output_heads.task_heads import MixHead, Scale

NAMES: dict[Kind, tuple[str, ...]] = {
    "class": ("negative", "positive"), "score": (), "tags": ("ADJ", "NOUN", "VERB"), "answers": (),
}  # fmt: skip
LABELS: dict[Kind, str] = {"class": "sentiment", "score": "relatedness", "tags": "pos"}


def task_of(kind: Kind, pairs: bool = False) -> Task:
    label = LABELS.get(kind, kind)
    return Task(label, kind, label, NAMES[kind], pairs, "accuracy")


def with_head(
    model: Model, folder: Path, kind: Kind, pairs: bool = False, lstm: bool = False, seed: int = 0
) -> Model:
    """The model with a head of random weights that mixes its layers unevenly, saved and read."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        layers = model.stacks[0].layers
        head = MixHead(task_of(kind, pairs), layers, model.width, lstm, Scale(3.0, 2.0))
        for name, weight in head.named_parameters():
            weight.data = torch.randn_like(weight) * (1.0 if name.startswith("mix") else 0.3)
        head.mix.mean.normal_()
        head.mix.spread.uniform_(0.5, 2.0)
    model.with_task_head(head).save(folder)
    return wb.load(str(folder), device="cpu")


def doc_of(text: str, second: str = "") -> Doc:
    shared = vocabulary("en")
    one = Doc(shared, words=text.split())
    return pair_of(one, Doc(shared, words=second.split())) if second else one
