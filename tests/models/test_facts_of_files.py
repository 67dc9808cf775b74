"""Facts of files equal the facts of the model opened in fp32, for any stored precision."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModel, AutoTokenizer, BertConfig, BertForMaskedLM

from tests import warm
from tests.models.conftest import IN_HALF
from workbench.models import loading
from workbench.models.loading import facts_of_files
from workbench.models.references import facts

Folder = Callable[[str], Path]
HALVES = {"bf16": torch.bfloat16, "fp16": torch.float16}


@pytest.fixture
def precisions(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The precisions in which models are opened."""
    opened, load = [], loading.load

    def watched(ref: Any, device: str, precision: str, **how: Any) -> Any:
        opened.append(precision)
        return load(ref, device, precision, **how)

    monkeypatch.setattr(loading, "load", watched)
    return opened


def in_fp32(folder: Path) -> dict[str, Any]:
    return facts(loading._opened(str(folder), "cpu", "fp32", 0, False))


def rewritten(folder: Path, change: Callable[[str, torch.Tensor], torch.Tensor]) -> Path:
    """The folder, with each tensor of its weights changed."""
    path = folder / "model.safetensors"
    state = {name: change(name, tensor) for name, tensor in load_file(path).items()}
    save_file(state, path, {"format": "pt"})
    return folder


@pytest.mark.parametrize(("name", "precision"), IN_HALF)
def test_facts_of_half_precision_files_need_no_opening_in_fp32(
    name: str, precision: str, zoo_folder: Folder, tmp_path: Path, precisions: list[str]
) -> None:
    copytree(zoo_folder(name), tmp_path / "half")
    folder = rewritten(tmp_path / "half", lambda _, tensor: tensor.to(HALVES[precision]))
    found = facts_of_files(str(folder))
    assert precisions == [precision]
    assert found == in_fp32(folder)


def test_tied_weights_and_names_that_transformers_changes(
    zoo_folder: Folder, tmp_path: Path, precisions: list[str]
) -> None:
    """As in the first BERTs, whose norms have a gamma and a beta."""
    words = AutoTokenizer.from_pretrained(zoo_folder("bert"))
    net = BertForMaskedLM(AutoConfig.from_pretrained(zoo_folder("bert"))).bfloat16()
    net.save_pretrained(tmp_path)
    words.save_pretrained(tmp_path)
    path = tmp_path / "model.safetensors"
    state = load_file(path)
    assert "cls.predictions.decoder.weight" not in state, "it is tied"
    old = {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace(
            "LayerNorm.bias", "LayerNorm.beta"
        ): tensor
        for name, tensor in state.items()
    }
    assert old.keys() != state.keys()
    save_file(old, path, {"format": "pt"})
    found = facts_of_files(str(tmp_path))
    assert precisions == ["bf16"] and found["objective"] == "masked"
    assert found == in_fp32(tmp_path)


def test_what_holds_both_widths_is_opened_in_the_larger(
    zoo_folder: Folder, tmp_path: Path, precisions: list[str]
) -> None:
    copytree(zoo_folder("bert"), tmp_path / "mixed")
    folder = rewritten(
        tmp_path / "mixed",
        lambda name, tensor: tensor if "LayerNorm" in name else tensor.bfloat16(),
    )
    assert facts_of_files(str(folder)) == in_fp32(folder)
    assert precisions == ["fp32"]


def test_a_head_that_was_made_up_is_no_weight_of_the_files(
    zoo_folder: Folder, tmp_path: Path, precisions: list[str]
) -> None:
    """In another precision other numbers would be drawn for it."""
    copytree(zoo_folder("bert"), tmp_path / "bare")
    folder = rewritten(tmp_path / "bare", lambda _, tensor: tensor.bfloat16())
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"architectures": ["BertForMaskedLM"]}))
    assert facts_of_files(str(folder))["objective"] == ""
    assert precisions == ["bf16", "fp32"]


def test_what_overflows_in_fp16_is_opened_in_fp32(
    zoo_folder: Folder, tmp_path: Path, precisions: list[str]
) -> None:
    """Without finite maps, causal attention cannot be recognised."""
    copytree(zoo_folder("gpt2"), tmp_path / "large")
    folder = rewritten(
        tmp_path / "large",
        lambda name, tensor: (tensor * (3e4 if "c_attn" in name else 1)).clamp(-6e4, 6e4).half(),
    )
    assert [stack["name"] for stack in facts_of_files(str(folder))["stacks"]] == ["decoder"]
    assert precisions == ["fp16", "fp32"]


@pytest.mark.parametrize(
    ("ref", "expected"),
    [
        ("mini:bert", "9bb35a23c2dd954bdbb0bfb46f43985e"),
        ("mini:gpt", "1e5f1c57ca8b61399a74f0f6eb7f7c91"),
        ("mini:t5", "94632f4ce37122d1f28555aed8471191"),
        ("mini:elmo", "039eab8b72bd059d07c476f22a20c923"),
    ],
)
def test_the_hash_of_what_is_stored_in_fp32_stays(ref: str, expected: str) -> None:
    """Runs are found again by it."""
    assert facts_of_files(ref)["content_hash"] == expected


MEASURED = """
import json, sys
from pathlib import Path
from workbench.models.loading import load
from workbench.runs.model_facts import known

def memory(kind):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith(kind))

load("mini:bert", "cpu", "fp32").content_hash  # imports, and what is made once
Path("/proc/self/clear_refs").write_text("5")  # the peak from here on
before, own = memory("VmRSS"), memory("RssAnon")
known(sys.argv[1])
print(json.dumps([memory("VmHWM") - before, memory("RssAnon") - own]))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")
def test_the_memory_is_that_of_the_files_not_of_fp32(
    zoo_folder: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """100 MB of bf16 in files are mapped, not read: the system can take that memory back."""
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path / "home"))
    words = AutoTokenizer.from_pretrained(zoo_folder("bert"))
    config = BertConfig(
        vocab_size=len(words),
        hidden_size=512,
        num_hidden_layers=16,
        num_attention_heads=16,
        intermediate_size=2048,
    )
    with torch.device("meta"):  # nothing is drawn, which would take seconds
        net = AutoModel.from_config(config, dtype=torch.bfloat16)
    net.to_empty(device="cpu")
    for weights in net.parameters():
        weights.data.fill_(0.01)
    net.save_pretrained(tmp_path / "model", max_shard_size="25MB")
    words.save_pretrained(tmp_path / "model")
    files = list((tmp_path / "model").glob("*.safetensors"))
    size = sum(path.stat().st_size for path in files)
    assert len(files) >= 4 and size > 95e6
    most, own = json.loads(warm.python("-c", MEASURED, str(tmp_path / "model")))
    assert most < 1.25 * size, f"{most / size:.2f} of the files; fp32 would be 2"
    # a tensor or two in fp32, 4 MiB each, and what the allocator keeps of them
    assert own < 0.25 * size, f"{own / size:.2f} of the files are not mapped"
