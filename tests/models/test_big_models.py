"""Models that are large for their machine: loaded one weight at a time, whatever they are held in.

The card is one that is not there (`tests.engine.card`): what is sent to it stays in the host's
memory, and is counted, so that what the host holds besides is known.
"""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from transformers import AutoModel, AutoTokenizer, BertConfig

Folder = Callable[[str], Path]

MEASURED = """
import json, sys
import torch
from tests.engine.card import Card, card, is_on
from workbench.models.loading import load

def anonymous():
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) << 10 for line in file if line.startswith("RssAnon"))

moved, most, sent = Card._moved, 0, 0

def watched(self, name, function, args, kwargs):
    global most, sent
    there = moved(self, name, function, args, kwargs)
    if is_on(there) and not is_on(args[0]):
        sent += there.numel() * there.element_size()
        most = max(most, anonymous() - before - sent)
    return there

Card._moved = watched
load("mini:bert", "cpu", "fp32")  # imports, and what is made once
before = anonymous()
with card(free=1 << 33):
    model = load(sys.argv[1], "cuda", sys.argv[2])
    assert model.device.type == "cuda" and model.precision == sys.argv[2]
print(json.dumps([most, sent]))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")
@pytest.mark.parametrize(
    ("stored", "precision"),
    [(torch.bfloat16, "bf16"), (torch.float32, "bf16"), (torch.float32, "fp32")],
)
def test_the_host_never_holds_all_weights_of_a_card(
    stored: torch.dtype, precision: str, zoo_folder: Folder, tmp_path: Path
) -> None:
    """50 million weights in shards, mapped from their files until each is on the card."""
    words = AutoTokenizer.from_pretrained(zoo_folder("bert"))
    config = BertConfig(
        vocab_size=len(words),
        hidden_size=1024,
        num_hidden_layers=4,
        num_attention_heads=16,
        intermediate_size=4096,
    )
    net = AutoModel.from_config(config, dtype=stored)
    net.save_pretrained(tmp_path, max_shard_size="45MB")
    words.save_pretrained(tmp_path)
    assert len(list(tmp_path.glob("*.safetensors"))) >= 3
    command = [sys.executable, "-c", MEASURED, str(tmp_path), precision]
    root = Path(__file__).parents[2]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=root)
    most, sent = json.loads(done.stdout)
    held = 2 if precision == "bf16" else 4
    assert sent >= held * net.num_parameters(), "all of it went to the card"
    assert most < 0.25 * sent, f"{most / sent:.2f} of the weights were on the host"
