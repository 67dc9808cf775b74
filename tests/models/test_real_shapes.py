"""Every experiment on models in the shapes of real ones, within a bound on time and memory.

Bounds are multiples of a plain forward pass over the same sentences, in seconds of this process, so
that a busy machine does not matter. They have room of about three over what was measured; what is
counted by a wrong order (logits of all rows, a pass per head and layer) exceeds them many times.
"""

import resource
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

import workbench as wb
from tests.judges.odd import Quiet, run_here
from tests.models import real_shapes
from workbench.experiment import Inputs
from workbench.experiment.definition import EXPERIMENTS
from workbench.models.huggingface import HuggingFace
from workbench.runs.effort import grown

SENTENCES = 40
LEAST = 2.0  # seconds that are not told apart
MEMORY = 1_000  # MB that an experiment may need besides; logits of all layers would take 3,000
HEAD_WIDTH = 8
PASSES = {  # how many plain passes an experiment may take
    "attention-averages": 6,
    "attention-probe": 120,
    "attribution": 70,
    "contributions": 10,
    "edge-probing": 100,
    "geometry": 20,
    "head-ablation": 3 * 30 * 9,
    "head-importance": 12,
    "heads": 15,
    "lens": 30,
    "neighbours": 30,
    "profile": 6,
    "similarity": 12,
    "structural-probe": 300,
    "tuned-lens": 100,
}
Shapes = Callable[[str], HuggingFace]


@pytest.fixture(scope="module")
def shapes(tmp_path_factory: pytest.TempPathFactory) -> Shapes:
    """Thirty layers of nine heads, with 49,152 pieces; and twelve layers of 32 heads."""

    @cache
    def made(shape: str) -> HuggingFace:
        if shape == "encoder":
            corpus = wb.read("primer:size=1000")
            return real_shapes.encoder(corpus, heads=32, head_width=HEAD_WIDTH)
        folder = real_shapes.decoder(tmp_path_factory.mktemp("decoder"), head_width=HEAD_WIDTH)
        model = wb.load(folder, device="cpu")
        assert isinstance(model, HuggingFace)
        return model

    return made


def plain_pass(model: HuggingFace) -> float:
    """Seconds of this process that a pass over the sentences takes, one by one."""
    docs = [*wb.read("primer:size=1000").docs("test", SENTENCES)]
    began = time.process_time()
    with torch.no_grad():
        for doc in docs:
            model.net(model.tokenizer(doc.text, return_tensors="pt").input_ids)
    return time.process_time() - began


def peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def check(model: HuggingFace, name: str) -> None:
    """Run an experiment at its smallest size, and measure it."""
    experiment, corpus = EXPERIMENTS[name], wb.read("primer:size=1000")
    small = {"max_sentences": SENTENCES, "effort": "quick"}
    settings = experiment.settings(
        **{key: value for key, value in small.items() if key in experiment.settings.model_fields}
    )
    inputs = Inputs(
        (model,), (corpus,), split=experiment.split_of(corpus, None), limit=settings.max_sentences
    )
    plain = plain_pass(model)
    before, began = peak(), time.process_time()
    result, _ = grown(experiment, inputs, settings, Quiet())
    took = time.process_time() - began
    print(f"{name}: {took / plain:.1f} passes, {peak() - before:.0f} MB")
    experiment.findings_of(result.tables)  # numbers of any size are said
    assert took <= LEAST + PASSES[name] * plain
    assert peak() - before <= MEMORY


@pytest.mark.parametrize("name", ["profile", "attention-averages"])
def test_each_sentence_is_read_a_few_times(name: str) -> None:
    """The same counted, on a small model: the rows that go through its first block."""
    model: Any = wb.load("mini:gpt", device="cpu")
    rows: list[int] = []
    model.net.transformer.h[0].register_forward_pre_hook(lambda _, args: rows.append(len(args[0])))
    run_here(name, model, wb.read("primer:size=200"), max_sentences=20)
    assert 20 <= sum(rows) <= PASSES[name] * 20


@pytest.mark.slow  # by day `test_each_sentence_is_read_a_few_times`
@pytest.mark.parametrize("shape", ["decoder", "encoder"])
@pytest.mark.parametrize("name", PASSES)
def test_an_experiment_takes_few_passes(shapes: Shapes, shape: str, name: str) -> None:
    check(shapes(shape), name)


@pytest.mark.slow
@pytest.mark.parametrize(("pieces", "is_tied"), [(49_152, True), (151_936, False)])
def test_a_decoder_of_full_width_opens_from_its_shards(
    tmp_path: Path, pieces: int, is_tied: bool
) -> None:
    folder = real_shapes.decoder(tmp_path, layers=12, pieces=pieces, is_tied=is_tied)
    assert len([*folder.glob("*.safetensors")]) > 1
    model = wb.load(folder, device="cpu", precision="bf16")
    result = run_here("lens", model, wb.read("primer:size=300"), effort="quick", random_models=1)
    assert result.tables["layers"]["value"].notna().any()
