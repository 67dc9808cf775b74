"""Models of few bits and low rank: useless bits and directions are found; folders are small."""

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import BertForMaskedLM, OPTConfig, OPTForCausalLM

import workbench as wb
from tests.models import headed, zoo
from tests.models.compression.test_planted import KINDS, TEXTS, change
from tests.night import mostly
from workbench.engine.batch import Batch
from workbench.models.compression.embeddings import factorise_embeddings, rank_left
from workbench.models.compression.rounding import round_weights
from workbench.models.formats.packed_checkpoint import MANIFEST, WEIGHTS
from workbench.models.huggingface import HuggingFace
from workbench.runs.model_card import size_on_disk


@pytest.fixture(scope="module")
def texts() -> Batch:
    return wb.encode(list(wb.read(TEXTS).docs()))


@pytest.mark.parametrize("family", mostly(KINDS, "bert", "gpt2"))
def test_bits_that_a_model_does_not_use_are_found(
    family: str, texts: Batch, tmp_path: Path
) -> None:
    model = headed.made(family, KINDS[family])
    planted = round_weights(model, 4)
    assert change(planted, round_weights(planted, 4), texts) < 1e-5
    changes = [change(model, round_weights(model, bits), texts) for bits in (8, 4)]  # type: ignore[arg-type]
    assert 1e-3 < 3 * changes[0] < changes[1]  # of its random twin
    alone = [change(model, round_weights(model, 4, layer=layer), texts) for layer in (0, 1)]
    assert all(0 < each < 2 * changes[1] for each in alone) and alone[0] != alone[1]
    planted.save(tmp_path)
    opened: Any = wb.load(tmp_path, device="cpu")
    assert change(planted, opened, texts) < 1e-5
    assert opened.content_hash == planted.content_hash and "4 bits" in opened.stored_as


def test_the_layer_that_needs_its_bits_is_found(texts: Batch) -> None:
    model = headed.made("gpt2", "GPT2LMHeadModel")
    planted = round_weights(model, 4, layer=0)
    suffers = [change(planted, round_weights(planted, 4, layer=layer), texts) for layer in (0, 1)]
    assert suffers[0] < 1e-5 < 1e-2 < suffers[1]
    twin = [change(model, round_weights(model, 4, layer=layer), texts) for layer in (0, 1)]
    assert min(twin) > 1e-2


def test_two_weights_take_a_byte(texts: Batch, tmp_path: Path) -> None:
    model: Any = wb.load("mini:bert", device="cpu")
    model.save(tmp_path / "whole")
    for bits, most in ((8, 0.28), (4, 0.155)):
        round_weights(model, bits).save(tmp_path / str(bits))  # type: ignore[arg-type]
        assert size_on_disk(tmp_path / str(bits)) < most * size_on_disk(tmp_path / "whole")
    with pytest.raises(OSError, match=r"safetensors"):  # never a wrong model
        BertForMaskedLM.from_pretrained(tmp_path / "4")
    # trained afterwards, weights that left the grid are stored whole
    moved = round_weights(model, 4)
    with torch.no_grad():
        moved.net.get_parameter("bert.encoder.layer.0.output.dense.weight").add_(0.01)
    moved.save(tmp_path / "moved")
    opened: Any = wb.load(tmp_path / "moved", device="cpu")
    assert change(moved, opened, texts) < 1e-5
    plain = wb.export_model(str(tmp_path / "4"), tmp_path / "plain").folder
    assert change(round_weights(model, 4), wb.load(plain, device="cpu"), texts) < 1e-5  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("file", "content"),
    [
        (MANIFEST, b"{"),
        (MANIFEST, b'{"version": 1, "forms": {"x": {"bits": 3}}}'),
        (MANIFEST, b'{"version": 1, "forms": {}}'),
        (WEIGHTS, b"x"),
    ],
)
def test_damaged_folders_are_refused(file: str, content: bytes, tmp_path: Path) -> None:
    round_weights(headed.made("bert", "BertForMaskedLM"), 4).save(tmp_path)
    (tmp_path / file).write_bytes(content)
    with pytest.raises(wb.WorkbenchError, match="packed model"):
        wb.load(tmp_path, device="cpu")


def low_rank(model: HuggingFace, rank: int) -> HuggingFace:
    """A copy whose embeddings are a product of matrices of this rank."""
    twin: Any = model.copy()
    table = twin.net.get_input_embeddings().weight
    generator = torch.Generator().manual_seed(3)
    directions = torch.linalg.qr(torch.randn(table.shape[1], rank, generator=generator)).Q
    with torch.no_grad():
        table.copy_(table @ directions @ directions.T)
    return twin  # type: ignore[no-any-return]


@pytest.mark.parametrize("family", mostly(KINDS, "bert", "gpt2"))
def test_directions_that_embeddings_do_not_use_are_found(
    family: str, texts: Batch, tmp_path: Path
) -> None:
    model = headed.made(family, KINDS[family])
    rows, columns = model.net.get_input_embeddings().weight.shape  # type: ignore[union-attr]
    amount = 0.5
    rank = rank_left(rows, columns, amount)
    assert rank * (rows + columns) <= amount * rows * columns < (rank + 1) * (rows + columns)
    planted = low_rank(model, rank)
    small = factorise_embeddings(planted, amount)
    assert change(planted, small, texts) < 1e-4  # of logits of 10 and more
    for order in ("random", "reversed"):
        assert change(planted, factorise_embeddings(planted, amount, order=order), texts) > 0.1
    assert change(model, factorise_embeddings(model, amount), texts) > 0.1  # its random twin
    planted.save(tmp_path / "whole")
    small.save(tmp_path / "small")
    assert size_on_disk(tmp_path / "small") < size_on_disk(tmp_path / "whole")
    opened: Any = wb.load(tmp_path / "small", device="cpu")
    assert change(small, opened, texts) < 1e-5


def test_plain_transformers_opens_projected_embeddings(tmp_path: Path) -> None:
    torch.manual_seed(0)
    config = OPTConfig(
        vocab_size=len(zoo.words_of("gpt2")), hidden_size=24, num_hidden_layers=2, ffn_dim=32,
        num_attention_heads=4, max_position_embeddings=64, word_embed_proj_dim=24,
    )  # fmt: skip
    model = HuggingFace(OPTForCausalLM(config).eval(), zoo.words_of("gpt2"), "opt")
    small = factorise_embeddings(model, 0.5)
    assert small.parameters < model.parameters and small.net.config.word_embed_proj_dim < 24
    masked: Any = model.copy()
    left, right = (
        small.net.get_parameter(f"model.decoder.{name}.weight")
        for name in ("embed_tokens", "project_out")
    )
    with torch.no_grad():
        masked.net.get_input_embeddings().weight.copy_(left @ right)
    small.save(tmp_path)
    ids = torch.randint(5, 20, (3, 11))
    plain: Any = OPTForCausalLM.from_pretrained(tmp_path)
    with torch.no_grad():
        one, other = (net.eval()(input_ids=ids).logits for net in (plain, masked.net))
    assert float((one - other).abs().max()) < 1e-5


def test_a_rank_below_one_is_refused() -> None:
    with pytest.raises(wb.WorkbenchError, match="rank"):
        rank_left(20, 4, 0.9)
