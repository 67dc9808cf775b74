"""Models that are large for their machine: loaded one weight at a time, whatever they are held in.

The card is one that is not there (`tests.engine.card`): what is sent to it stays in the host's
memory, and is counted, so that what the host holds besides is known.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from transformers import AutoModel, AutoTokenizer, BertConfig

from tests import warm
from tests.night import mostly

Folder = Callable[[str], Path]

MEASURED = """
import ctypes, gc, json, sys
import torch
from tests.engine.card import Card, card, is_on
from workbench.models.loading import load

def anonymous():
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) << 10 for line in file if line.startswith("RssAnon"))

M_MMAP_THRESHOLD = -3
assert ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, 1_000_000)  # what is let go goes back
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
for folder, precision in zip(sys.argv[1::2], sys.argv[2::2]):
    most = sent = 0
    before = anonymous()
    with card(free=1 << 33):
        model = load(folder, "cuda", precision)
        assert model.device.type == "cuda" and model.precision == precision
    print(json.dumps([most, sent]))
    del model
    gc.collect()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")
@pytest.mark.parametrize("stored", mostly([torch.bfloat16, torch.float32], torch.float32))
def test_the_host_never_holds_all_weights_of_a_card(
    stored: torch.dtype, zoo_folder: Folder, tmp_path: Path
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
    with torch.device("meta"):  # nothing is drawn, which would take seconds
        net = AutoModel.from_config(config, dtype=stored)
    net.to_empty(device="cpu")
    for weights in net.parameters():
        weights.data.fill_(0.01)
    net.save_pretrained(tmp_path, max_shard_size="45MB")
    words.save_pretrained(tmp_path)
    assert len(list(tmp_path.glob("*.safetensors"))) >= 3
    held = [("bf16", 2), ("fp32", 4)][: 1 + (stored == torch.float32)]
    arguments = [each for precision, _ in held for each in (str(tmp_path), precision)]
    done = warm.python("-c", MEASURED, *arguments)
    for (precision, width), line in zip(held, done.splitlines(), strict=True):
        most, sent = json.loads(line)
        case = f"stored in {stored}, opened in {precision}"
        assert sent >= width * net.num_parameters(), f"{case}: all of it went to the card"
        assert most < 0.25 * sent, f"{case}: {most / sent:.2f} of the weights were on the host"
