"""Whatever number a config has, the model is loaded and runs, or the error says what is wrong.

Every number of every family's config is replaced by what no config should have. Time and memory of
a case are bounded: a case that goes on or grows fails. The whole grid takes minutes and is slow;
every run draws a few cases of each family, and the ones that once went wrong.
"""

import json
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest
import torch
from transformers import AutoConfig

from tests.models import zoo
from tests.night import mostly
from workbench import WorkbenchError, encode, read
from workbench.models.loading import load
from workbench.models.references import facts

FAMILIES = [
    "bert", "roberta", "distilbert", "electra", "albert", "modernbert", "deberta-v2", "xlnet",
    "longformer", "openai-gpt", "gpt2", "bloom", "gpt-neox", "llama", "t5", "mt5", "bart",
]  # fmt: skip
VALUES = (-1, 0, 10**9, 2**31, 1e308, float("nan"), "", [], {})
ELSEWHERE = (  # fields that have a meaning in transformers, and are not in every config
    "num_labels", "n_layer", "num_hidden_layers", "num_experts", "layer_types", "dtype",
    "architectures", "id2label", "model_type", "quantization_config", "rope_scaling",
    "pruned_heads", "sliding_window", "tie_word_embeddings", "auto_map",
)  # fmt: skip
ONCE_WRONG = (
    ("bert", "num_labels", 10**9),
    ("bert", "chunk_size_feed_forward", ""),
    ("bert", "type_vocab_size", 0),
    ("t5", "relative_attention_max_distance", 0),
    ("t5", "relative_attention_num_buckets", 0),
    ("t5", "initializer_factor", 1e308),
    ("t5", "decoder_start_token_id", -1),
    ("longformer", "pad_token_id", -1),
    ("modernbert", "num_hidden_layers", 10**9),
)
DRAWN = 3  # cases of each family in every run
SECONDS = 20
GROWTH = 2 << 30  # bytes
Case = tuple[str, str, object]
Folder = Callable[[str], Path]


class TooSlowError(BaseException):
    """Time is up; no `except Exception` may keep it."""


@contextmanager
def bounded() -> Iterator[None]:
    """Fails what takes more than SECONDS; where the system can, also what grows by GROWTH."""
    if sys.platform != "linux":
        yield
        return
    import resource

    def stop(*_: object) -> None:
        raise TooSlowError

    pages = int(Path("/proc/self/statm").read_text().split()[5])  # data and stack
    before = resource.getrlimit(resource.RLIMIT_DATA)
    handler = signal.signal(signal.SIGALRM, stop)
    resource.setrlimit(resource.RLIMIT_DATA, (pages * resource.getpagesize() + GROWTH, before[1]))
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        resource.setrlimit(resource.RLIMIT_DATA, before)
        signal.signal(signal.SIGALRM, handler)


def as_written(folder: Path, family: str) -> dict[str, Any]:
    """A config without the fields that transformers fills in by itself."""
    given = {"model_type", "vocab_size", "architectures", *zoo.RECIPES[family].sizes}
    config = json.loads((folder / "config.json").read_text())
    return {k: v for k, v in config.items() if k in given or k.endswith("_token_id")}


def paths(fields: dict[str, Any], before: tuple[str, ...] = ()) -> Iterator[str]:
    """The numbers of a config, those of configs within it too: `rope_parameters/rope_theta`."""
    for name, value in fields.items():
        if isinstance(value, dict):
            yield from paths(value, (*before, name))
        elif isinstance(value, int | float) and not isinstance(value, bool):
            yield "/".join((*before, name))


def grid(folder: Path, family: str) -> list[Case]:
    full = AutoConfig.from_pretrained(folder).to_dict()
    names = dict.fromkeys([*paths(full), *ELSEWHERE])
    return [(family, name, value) for name in names for value in VALUES]


def faults(folder: Path, cases: list[Case]) -> list[str]:
    """The cases that are neither a model that runs nor a `WorkbenchError` with a remedy."""
    whole = AutoConfig.from_pretrained(folder).to_dict()
    kept = (folder / "config.json").read_text()
    written = as_written(folder, cases[0][0])
    batch = encode(read("primer:size=3").docs("train"))
    found = []
    for family, name, value in cases:
        *outer, last = name.split("/")
        config = json.loads(json.dumps(written))
        part = config
        for key in outer:
            part[key] = json.loads(json.dumps(whole[key] if part is config else part[key]))
            part = part[key]
        part[last] = value
        (folder / "config.json").write_text(json.dumps(config))
        for suffix in ("", "@random"):
            try:
                with bounded():
                    model = load(f"{folder}{suffix}", "cpu")
                    json.dumps(facts(model))
                    with torch.no_grad():
                        model.forward(model.encode(batch))
            except WorkbenchError as error:
                if not error.remedy or "enough memory" in error.what:
                    found.append(f"{family}{suffix} {name}={value!r}: {error}")
            except (Exception, TooSlowError) as error:
                found.append(f"{family}{suffix} {name}={value!r}: {type(error).__name__}: {error}")
    (folder / "config.json").write_text(kept)
    return found


@pytest.fixture
def made(tmp_path: Path) -> Callable[[str], Path]:
    return lambda family: zoo.make(family, tmp_path / family)


SOME = {"bert", "gpt2", "llama", *(family for family, _, _ in ONCE_WRONG)}


@pytest.mark.parametrize("family", mostly(FAMILIES, *SOME))
def test_a_few_wrong_values_are_errors_or_harmless(family: str, made: Folder) -> None:
    folder = made(family)
    cases = Random(family).sample(grid(folder, family), DRAWN)
    assert not faults(folder, cases + [case for case in ONCE_WRONG if case[0] == family])


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_any_wrong_value_is_an_error_or_harmless(family: str, made: Folder) -> None:
    folder = made(family)
    assert not faults(folder, grid(folder, family))
