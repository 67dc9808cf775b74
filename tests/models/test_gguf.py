"""GGUF files: written here from models with known weights, opened, refused, and run through."""

import copy
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from gguf import GGMLQuantizationType as Type
from gguf import GGUFWriter, quants
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedModel, PreTrainedTokenizerBase

import workbench as wb
from tests.judges.odd import run_here
from tests.models.vocabularies import tokenizer
from workbench.core.errors import WorkbenchError
from workbench.runs.model_facts import files_hash, known
from workbench.runs.request import make_request

LAYERS, HEADS, PAIRS, WIDTH, INNER, LONGEST = 2, 4, 2, 64, 96, 128
NAMES = {  # in a block, of GGUF and of transformers
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
}
TOPS = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}


@pytest.fixture(scope="module")
def net() -> PreTrainedModel:
    words = tokenizer("gpt2")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = LlamaForCausalLM(
            LlamaConfig(
                vocab_size=len(words), hidden_size=WIDTH, intermediate_size=INNER,
                num_hidden_layers=LAYERS, num_attention_heads=HEADS, num_key_value_heads=PAIRS,
                max_position_embeddings=LONGEST, initializer_range=0.2,
            )
        )  # fmt: skip
    model.train(False)
    return model


def interleaved(weights: np.ndarray, heads: int) -> np.ndarray:
    """Rows in the order of llama.cpp, in which the two halves of a rotation alternate."""
    rows, columns = weights.shape
    halves = weights.reshape(heads, 2, rows // heads // 2, columns)
    return halves.swapaxes(1, 2).reshape(rows, columns)


def written(net: PreTrainedModel, path: Path, kind: Type = Type.F32) -> Path:
    """Write a model as a GGUF file; matrices in the type given. Norms are always F32."""
    words = tokenizer("gpt2")
    file = GGUFWriter(path, "llama")
    file.add_name("tiny")
    file.add_context_length(LONGEST)
    file.add_embedding_length(WIDTH)
    file.add_block_count(LAYERS)
    file.add_feed_forward_length(INNER)
    file.add_head_count(HEADS)
    file.add_head_count_kv(PAIRS)
    file.add_layer_norm_rms_eps(net.config.rms_norm_eps)
    file.add_rope_freq_base(10_000.0)
    file.add_vocab_size(len(words))
    pieces = sorted(words.get_vocab(), key=words.get_vocab().get)
    file.add_tokenizer_model("gpt2")
    file.add_token_list(pieces)
    file.add_token_types([3 if piece in words.all_special_tokens else 1 for piece in pieces])
    file.add_token_merges([" ".join(pair) for pair in merges(words)])
    file.add_bos_token_id(words.eos_token_id)
    file.add_eos_token_id(words.eos_token_id)
    weights = {name: part.numpy() for name, part in net.state_dict().items()}

    def add(name: str, part: np.ndarray) -> None:
        chosen = kind if part.ndim > 1 else Type.F32
        file.add_tensor(name, quants.quantize(part, chosen), raw_dtype=chosen)

    for theirs, ours in TOPS.items():
        add(f"{theirs}.weight", weights[f"{ours}.weight"])
    for layer in range(LAYERS):
        for theirs, ours in NAMES.items():
            part = weights[f"model.layers.{layer}.{ours}.weight"]
            if theirs in ("attn_q", "attn_k"):
                part = interleaved(part, HEADS if theirs == "attn_q" else PAIRS)
            add(f"blk.{layer}.{theirs}.weight", part)
    file.write_header_to_file()
    file.write_kv_data_to_file()
    file.write_tensors_to_file()
    file.close()
    return path


def merges(words: PreTrainedTokenizerBase) -> list[list[str]]:
    return json.loads(words.backend_tokenizer.to_str())["model"]["merges"]


def logits(net: torch.nn.Module) -> torch.Tensor:
    ids = torch.arange(20)[None]
    with torch.no_grad():
        return net(ids).logits


def test_full_weights_are_those_of_the_model(net: PreTrainedModel, tmp_path: Path) -> None:
    model = wb.load(written(net, tmp_path / "tiny.gguf"), device="cpu")
    torch.testing.assert_close(logits(model.net), logits(net))
    assert model.stored_as == "weights from GGUF (F32)"
    ours = model.tokenizer("The old man's boat")["input_ids"]
    assert ours == tokenizer("gpt2")("The old man's boat")["input_ids"]
    assert wb.load(f"{tmp_path}/tiny.gguf@random").content_hash != model.content_hash


def test_quantised_weights_are_those_that_the_file_holds(
    net: PreTrainedModel, tmp_path: Path
) -> None:
    model = wb.load(written(net, tmp_path / "tiny.gguf", Type.Q8_0), device="cpu")
    rounded = copy.deepcopy(net)
    with torch.no_grad():
        for part in rounded.parameters():
            if part.ndim > 1:
                held = quants.quantize(part.numpy(), Type.Q8_0)
                part.copy_(torch.from_numpy(quants.dequantize(held, Type.Q8_0)))
    torch.testing.assert_close(logits(model.net), logits(rounded))
    assert (logits(model.net) - logits(net)).abs().max() > 1e-3, "it was not quantised"
    assert model.stored_as == "weights from GGUF (Q8_0, dequantised)"


def test_a_folder_with_one_file_is_a_model(net: PreTrainedModel, tmp_path: Path) -> None:
    file = written(net, tmp_path / "tiny.gguf")
    assert wb.load(tmp_path, device="cpu").family == "llama"
    first = files_hash(str(tmp_path))
    assert first and first == files_hash(str(file))
    shutil.copy(file, tmp_path / "other.gguf")
    with pytest.raises(WorkbenchError, match="has 2 GGUF files"):
        wb.load(tmp_path)
    assert wb.load(file, device="cpu").family == "llama"
    file.write_bytes(file.read_bytes()[:-4] + b"abcd")
    assert files_hash(str(file)) != first


def test_an_experiment_runs_on_it_and_names_its_weights(
    net: PreTrainedModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path / "home"))
    file = written(net, tmp_path / "tiny.gguf", Type.Q8_0)
    request = make_request("attention-averages", (file,), ("primer:size=60",), {}, device="cpu")
    (model,) = request.spec.models
    assert (model.name, model.ref) == ("tiny.gguf", str(file))
    assert "Q8_0" in known(str(file)).facts["limits"]
    result = run_here("attention-averages", wb.load(file, device="cpu"), wb.read("primer:size=60"))
    assert len(result.tables)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "not a GGUF file"),
        (b"GGUF", "damaged or cut off"),
        (b"GGML" + bytes(64), "not a GGUF file"),
        (b"GGUF" + bytes(64), "damaged or cut off"),
        (b"GGUF\x03\0\0\0" + b"\xff" * 64, "damaged or cut off"),
    ],
)
def test_other_files_are_refused(content: bytes, said: str, tmp_path: Path) -> None:
    (tmp_path / "x.gguf").write_bytes(content)
    with pytest.raises(WorkbenchError, match=said):
        wb.load(tmp_path / "x.gguf")


def test_cut_files_are_refused(net: PreTrainedModel, tmp_path: Path) -> None:
    whole = written(net, tmp_path / "tiny.gguf").read_bytes()
    for share in (0.01, 0.3, 0.6, 0.9, 0.999):
        (tmp_path / "cut.gguf").write_bytes(whole[: int(share * len(whole))])
        with pytest.raises(WorkbenchError, match="damaged or cut off"):
            wb.load(tmp_path / "cut.gguf")


def test_an_architecture_that_transformers_lacks_is_refused(
    net: PreTrainedModel, tmp_path: Path
) -> None:
    whole = written(net, tmp_path / "tiny.gguf").read_bytes()
    (tmp_path / "x.gguf").write_bytes(whole.replace(b"llama", b"llamb"))
    with pytest.raises(WorkbenchError, match="cannot read the architecture 'llamb'"):
        wb.load(tmp_path / "x.gguf")


def test_a_missing_package_is_named(
    net: PreTrainedModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = written(net, tmp_path / "tiny.gguf")
    monkeypatch.setattr("workbench.models.gguf_files.find_spec", lambda name: None)
    with pytest.raises(WorkbenchError, match=r"workbench\[gguf\]"):
        wb.load(file)


def test_a_file_that_is_not_there_is_neither_a_folder_nor_a_hub_id(tmp_path: Path) -> None:
    with pytest.raises(WorkbenchError, match="neither a folder nor a hub id"):
        wb.load(tmp_path / "none.gguf")
