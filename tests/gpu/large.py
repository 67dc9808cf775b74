"""A language model of seven billion random weights: statistics, states and importance of its heads.

Peak memory must not depend on how long the corpus is, so everything is done with some documents and
with twice as many. Costs a minute, 14 GB for the weights in bf16 and up to 40 GB for one backward
pass; with `--small` a second.
"""

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from tests.gpu.checks import Figures, Setting, peak_of, timed
from tests.gpu.made import batch_of, doubled
from tests.models.stores import stored
from tests.models.zoo import RECIPES, tokenizer
from workbench import Reduce, forward
from workbench.analyses.pruning.importance import gate_gradients
from workbench.engine.batch import Batch
from workbench.engine.map_statistics import together
from workbench.models.huggingface import HuggingFace
from workbench.models.output_heads.lm_heads import placed
from workbench.models.scoring.eval_tasks import eval_task_of

PIECES = 2_048  # in a batch
GROWTH = 1.05  # of peak memory, with twice the documents
SMALL: dict[str, Any] = {"hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 4}
SMALL |= {"num_key_value_heads": 2, "intermediate_size": 172}
SEVEN_BILLION: dict[str, Any] = {
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 14_336,
    "max_position_embeddings": 4096,
}


def large(setting: Setting, figures: Figures) -> None:
    """The three things that are done to a large model, with n documents and with 2n."""
    model, seconds = timed(setting, lambda: _model(setting))
    figures.note("parameters", model.parameters)
    figures.note("seconds to make it", seconds)
    few = 12 if setting.small else 24
    once = batch_of(few, 120, 100, seed=1)
    work = {"statistics": _statistics, "states": _states, "importance": _importance}
    for name, of in work.items():
        peaks = []
        for batch in (once, doubled(once)):
            home = setting.folder / f"{name}-{len(batch)}"
            results: list[tuple[bool, float]] = []
            run = partial(_run, setting, partial(of, model, batch, home), results)
            peaks.append(peak_of(setting, figures, run))
            sound, seconds = results[0]
            figures.holds(f"{name}: numbers of {len(batch)} documents are finite", sound)
            figures.note(f"{name}: seconds for {len(batch)} documents", seconds)
            shutil.rmtree(home, ignore_errors=True)
        figures.note(f"{name}: peak MiB above the weights", peaks)
        if setting.on_gpu and not setting.small:
            figures.at_most(f"{name}: peak of twice the documents", peaks[1] / peaks[0], GROWTH)


def _run(setting: Setting, of: Callable[[], bool], results: list[tuple[bool, float]]) -> None:
    """Notes whether every number is finite, and the seconds."""
    results.append(timed(setting, of))


def _model(setting: Setting) -> HuggingFace:
    words = tokenizer(RECIPES["llama"].tokenizer)
    shape = SMALL if setting.small else SEVEN_BILLION
    vocabulary = len(words) if setting.small else 32_000
    special = {f"{role}_token_id": getattr(words, f"{role}_token_id") for role in ("bos", "eos")}
    with setting.device:
        net = LlamaForCausalLM(LlamaConfig(vocab_size=vocabulary, **special, **shape))
    half = placed(net, setting.device, torch.bfloat16)
    return HuggingFace(half, words, "seven-billion-shaped")


def _statistics(model: HuggingFace, batch: Batch, home: Path) -> bool:
    reduce = Reduce(together())
    forward(model, batch, taps=[reduce], hidden=False, pieces=PIECES)
    return all(bool(total.isfinite().all()) for total in reduce.total.values())


def _states(model: HuggingFace, batch: Batch, home: Path) -> bool:
    found, _ = stored(model, batch, home, kind="bf16", pieces=PIECES)
    return bool(found.layer(found.description.layers).isfinite().all())


def _importance(model: HuggingFace, batch: Batch, home: Path) -> bool:
    aim = eval_task_of(model)
    found = gate_gradients(model, aim, aim.questions(model, batch, pieces=PIECES))
    importance = torch.from_numpy(found.importance())
    return bool(importance.isfinite().all()) and bool((importance > 0).any())
