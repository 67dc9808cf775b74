"""GGUF files: written here from models with known weights, opened, refused, and run through."""

import copy
import json
import math
import os
import shutil
import struct
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gguf import GGMLQuantizationType as Type
from gguf import GGUFValueType, GGUFWriter, quants
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    Qwen2Config,
    Qwen2ForCausalLM,
)

import workbench as wb
from tests.judges.odd import run_here
from tests.models.vocabularies import tokenizer
from workbench.core import machine
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


THETA, EPSILON = 500_000.0, 1e-4  # not the defaults, so that a lost number shows
LLAMA_3 = {  # RoPE scaling
    "rope_type": "llama3", "rope_theta": THETA, "factor": 8.0, "low_freq_factor": 1.0,
    "high_freq_factor": 4.0, "original_max_position_embeddings": 8192,
}  # fmt: skip


def random_net(architecture: str = "llama", scaling: dict[str, object] | None = None) -> Any:
    kind, config = {
        "llama": (LlamaForCausalLM, LlamaConfig),
        "qwen2": (Qwen2ForCausalLM, Qwen2Config),
    }[architecture]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = kind(
            config(
                vocab_size=len(tokenizer("gpt2")), hidden_size=WIDTH, intermediate_size=INNER,
                num_hidden_layers=LAYERS, num_attention_heads=HEADS, num_key_value_heads=PAIRS,
                max_position_embeddings=LONGEST, initializer_range=0.2, rms_norm_eps=EPSILON,
                rope_parameters=scaling or {"rope_type": "default", "rope_theta": THETA},
                tie_word_embeddings=False,
            )
        )  # fmt: skip
        for name, part in model.named_parameters():
            if part.ndim == 1:  # biases and norms, which a new model sets to 0 and 1
                torch.nn.init.normal_(part, mean=float("norm" in name), std=0.2)
    model.train(False)
    return model


@pytest.fixture(scope="module")
def net() -> PreTrainedModel:
    return random_net()


def interleaved(weights: np.ndarray, heads: int) -> np.ndarray:
    """Rows in the order of llama.cpp, in which the two halves of a rotation alternate."""
    rows, columns = weights.shape
    halves = weights.reshape(heads, 2, rows // heads // 2, columns)
    return halves.swapaxes(1, 2).reshape(rows, columns)


WRITTEN: dict[tuple[int, Type], tuple[PreTrainedModel, bytes]] = {}  # of whole nets, kept alive


def written(
    net: PreTrainedModel,
    path: Path,
    kind: Type = Type.F32,
    without: Collection[str] = (),
    added: dict[str, np.ndarray] | None = None,
) -> Path:
    """Write a model as a GGUF file, a whole one once; matrices in the type given."""
    if without or added:
        return newly_written(net, path, kind, without, added)
    if (id(net), kind) not in WRITTEN:
        WRITTEN[id(net), kind] = net, newly_written(net, path, kind).read_bytes()
    path.write_bytes(WRITTEN[id(net), kind][1])
    return path


def newly_written(
    net: PreTrainedModel,
    path: Path,
    kind: Type,
    without: Collection[str] = (),
    added: dict[str, np.ndarray] | None = None,
) -> Path:
    """Norms are always F32."""
    words = tokenizer("gpt2")
    architecture = net.config.model_type
    file = GGUFWriter(path, architecture)
    file.add_name("tiny")
    file.add_context_length(LONGEST)
    file.add_embedding_length(WIDTH)
    file.add_block_count(LAYERS)
    file.add_feed_forward_length(INNER)
    file.add_head_count(HEADS)
    file.add_head_count_kv(PAIRS)
    file.add_layer_norm_rms_eps(net.config.rms_norm_eps)
    file.add_rope_freq_base(THETA)
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
        if name in without:
            return
        chosen = kind if part.ndim > 1 else Type.F32
        file.add_tensor(name, quants.quantize(part, chosen), raw_dtype=chosen)

    for theirs, ours in TOPS.items():
        add(f"{theirs}.weight", weights[f"{ours}.weight"])
    for layer in range(LAYERS):
        for theirs, ours in NAMES.items():
            part = weights[f"model.layers.{layer}.{ours}.weight"]
            if architecture == "llama" and theirs in ("attn_q", "attn_k"):
                part = interleaved(part, HEADS if theirs == "attn_q" else PAIRS)
            add(f"blk.{layer}.{theirs}.weight", part)
            if (bias := weights.get(f"model.layers.{layer}.{ours}.bias")) is not None:
                add(f"blk.{layer}.{theirs}.bias", bias)
    for theirs, part in (added or {}).items():
        add(theirs, part)
    file.write_header_to_file()
    file.write_kv_data_to_file()
    file.write_tensors_to_file()
    file.close()
    return path


def merges(words: PreTrainedTokenizerBase) -> list[list[str]]:
    return json.loads(words.backend_tokenizer.to_str())["model"]["merges"]


def logits(net: torch.nn.Module) -> torch.Tensor:
    ids = torch.arange(100)[None]
    with torch.no_grad():
        return net(ids).logits


def test_full_weights_are_those_of_the_model(net: PreTrainedModel, tmp_path: Path) -> None:
    model = wb.load(written(net, tmp_path / "tiny.gguf"), device="cpu")
    torch.testing.assert_close(logits(model.net), logits(net))
    assert model.stored_as == "weights from GGUF (F32)"
    ours = model.tokenizer("The old man's boat")["input_ids"]
    assert ours == tokenizer("gpt2")("The old man's boat")["input_ids"]
    assert wb.load(f"{tmp_path}/tiny.gguf@random").content_hash != model.content_hash


def test_biases_of_qwen_are_read(tmp_path: Path) -> None:
    qwen = random_net("qwen2")
    model = wb.load(written(qwen, tmp_path / "tiny.gguf"), device="cpu")
    assert model.family == "qwen2"
    torch.testing.assert_close(logits(model.net), logits(qwen))


def divisors(scaling: dict[str, Any]) -> np.ndarray:
    """The divisors of frequencies that llama.cpp's converter writes for Llama 3."""
    low = scaling["original_max_position_embeddings"] / scaling["low_freq_factor"]
    high = scaling["original_max_position_embeddings"] / scaling["high_freq_factor"]
    width, found = WIDTH // HEADS, []
    for pair in range(0, width, 2):
        length = 2 * math.pi * THETA ** (pair / width)
        if length < high:
            found.append(1.0)
        elif length > low:
            found.append(scaling["factor"])
        else:
            smooth = (low / length - 1) / (low / high - 1)
            found.append(1 / ((1 - smooth) / scaling["factor"] + smooth))
    return np.array(found, dtype=np.float32)


def test_the_rope_scaling_of_llama_3_is_read_and_another_refused(
    net: PreTrainedModel, tmp_path: Path
) -> None:
    scaled = random_net(scaling=LLAMA_3)
    factors = divisors(LLAMA_3)
    assert 1 < sorted(set(factors))[1] < 8, "one lies between"
    model = wb.load(
        written(scaled, tmp_path / "a.gguf", added={"rope_freqs.weight": factors}), device="cpu"
    )
    torch.testing.assert_close(logits(model.net), logits(scaled))
    assert (logits(scaled) - logits(net)).abs().max() > 1e-3, "the scaling changes nothing"
    other = {"rope_freqs.weight": np.linspace(1, 8, len(factors), dtype=np.float32)}
    with pytest.raises(WorkbenchError, match="RoPE"):
        wb.load(written(net, tmp_path / "b.gguf", added=other))


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
    assert known(str(file)).facts["limits"] == "weights from GGUF (Q8_0, dequantised)"
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


def test_missing_weights_are_never_random(net: PreTrainedModel, tmp_path: Path) -> None:
    file = written(net, tmp_path / "part.gguf", without=["blk.1.attn_q.weight"])
    with pytest.raises(WorkbenchError, match="lacks") as caught:
        wb.load(file)
    assert "layers.1.self_attn.q_proj" in caught.value.what
    whole = written(net, tmp_path / "tiny.gguf").read_bytes()
    key = b"llama.block_count" + struct.pack("<I", GGUFValueType.UINT32)
    assert key + struct.pack("<I", LAYERS) in whole
    more = key + struct.pack("<I", LAYERS + 1)
    file.write_bytes(whole.replace(key + struct.pack("<I", LAYERS), more))
    with pytest.raises(WorkbenchError, match="lacks"):
        wb.load(file)


def test_weights_are_never_ignored(net: PreTrainedModel, tmp_path: Path) -> None:
    bias = {"blk.0.attn_q.bias": np.ones(WIDTH, np.float32)}  # which no Llama has
    with pytest.raises(WorkbenchError, match="ignore"):
        wb.load(written(net, tmp_path / "more.gguf", added=bias))


def test_an_output_projection_may_be_that_of_the_embeddings(
    net: PreTrainedModel, tmp_path: Path
) -> None:
    model = wb.load(written(net, tmp_path / "t.gguf", without=["output.weight"]), device="cpu")
    tied = copy.deepcopy(net)
    tied.lm_head.weight = tied.model.embed_tokens.weight
    torch.testing.assert_close(logits(model.net), logits(tied))


def test_only_the_file_itself_is_read_whatever_its_name(
    net: PreTrainedModel, tmp_path: Path
) -> None:
    file = written(net, tmp_path / "tiny.gguf", Type.Q8_0)
    first: Any = wb.load(file, device="cpu")
    tokenizer("bert-cased").save_pretrained(tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    (tmp_path / "adapter_config.json").write_text("{}")
    os.mkfifo(tmp_path / "pipe")
    again: Any = wb.load(file.rename(tmp_path / "other.gguf"), device="cpu")
    assert again.content_hash == first.content_hash
    assert again.tokenizer("The boat")["input_ids"] == first.tokenizer("The boat")["input_ids"]
    again.net.save_pretrained(tmp_path / "saved")  # a model marked as quantised cannot be saved


@pytest.mark.parametrize("key", [b"tokenizer.ggml.model", b"tokenizer.ggml.tokens"])
def test_a_tokenizer_that_cannot_be_built_is_an_error(
    key: bytes, net: PreTrainedModel, tmp_path: Path
) -> None:
    file = written(net, tmp_path / "tiny.gguf")
    file.write_bytes(file.read_bytes().replace(key, key[:-1] + b"x"))
    with pytest.raises(WorkbenchError, match="tokenizer") as caught:
        wb.load(file)
    assert caught.value.where == str(file)
    assert "GGUF" in caught.value.remedy


def test_links_must_stay_in_the_allowed_folders(
    net: PreTrainedModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "out").mkdir()
    inside = written(net, tmp_path / "in" / "tiny.gguf")
    outside = shutil.copy(inside, tmp_path / "out" / "tiny.gguf")
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path / "home"))
    monkeypatch.setenv(machine.ALLOWED, str(tmp_path / "in"))
    assert wb.load(inside, device="cpu").family == "llama"
    inside.unlink()
    inside.symlink_to(outside)
    for ref in (inside, inside.parent, outside):
        with pytest.raises(WorkbenchError, match="may not read"):
            wb.load(ref)
        with pytest.raises(WorkbenchError, match="may not read"):
            files_hash(str(ref))


def test_a_pipe_or_a_broken_link_in_a_folder_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "x.gguf")
    with pytest.raises(WorkbenchError, match="cannot be read"):
        wb.load(tmp_path)
    (tmp_path / "x.gguf").unlink()
    (tmp_path / "x.gguf").symlink_to(tmp_path / "none")
    with pytest.raises(WorkbenchError, match="cannot be read"):
        wb.load(tmp_path)


def test_a_missing_package_is_named(
    net: PreTrainedModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = written(net, tmp_path / "tiny.gguf")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(WorkbenchError, match=r"workbench\[gguf\]"):
        wb.load(file)


def test_a_file_that_is_not_there_is_neither_a_folder_nor_a_hub_id(tmp_path: Path) -> None:
    with pytest.raises(WorkbenchError, match="neither a folder nor a hub id"):
        wb.load(tmp_path / "none.gguf")
