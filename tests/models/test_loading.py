"""From a name to a model: folders, fresh weights, and errors that say what to do."""

import json
import shutil
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from spacy.tokens import Doc
from spacy.vocab import Vocab

import workbench as wb
from tests.models import zoo
from tests.night import of_zoo
from workbench import WorkbenchError, encode, read
from workbench.models.formats import checkpoint
from workbench.models.huggingface import HuggingFace
from workbench.models.loading import load
from workbench.models.references import FAMILIES, facts

Folder = Callable[[str], Path]


def test_a_class_that_another_thread_imports_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    class HalfImported:
        looks = 0

        def __dir__(self) -> list[str]:
            return ["BertForMaskedLM"]

        def __getattr__(self, name: str) -> str:
            self.looks += 1
            if name != "BertForMaskedLM" or self.looks < 3:
                raise AttributeError(name)
            return "the class"

    monkeypatch.setattr(checkpoint, "transformers", HalfImported())
    assert checkpoint.class_of("BertForMaskedLM") == "the class"
    assert checkpoint.class_of("NobodysForMaskedLM") is None


@pytest.mark.parametrize("name", of_zoo(zoo.NAMES, "llama", "albert"))
def test_a_folder_loads_and_reads_text(name: str, zoo_folder: Folder) -> None:
    """From words to states: every architecture, with its own tokenizer."""
    model = wb.load(zoo_folder(name), device="cpu")
    batch = encode(read("primer:size=20").docs("train"))
    text = model.encode(batch)
    with torch.no_grad():
        output = model.forward(text)
    stack = model.stacks[0]
    assert len(output.hidden[stack.name]) == stack.layers + 1
    assert output.hidden[stack.name][0].shape == (20, text.ids.shape[1], model.width)
    owned = {(row, int(word)) for row in range(20) for word in text.words[row] if word >= 0}
    assert len(owned) + len(text.unaligned) == len(batch.words)
    found = facts(model)
    assert json.loads(json.dumps(found)) == json.loads(json.dumps(found))
    assert model.family in {family.name for family in FAMILIES}


def test_fresh_weights_have_the_shape_and_not_the_values(zoo_folder: Folder) -> None:
    folder = zoo_folder("bert")
    trained, fresh, again, other = (
        load(ref, "cpu", seed=seed)
        for ref, seed in (
            (folder, 0),
            (f"{folder}@random", 0),
            (f"{folder}@random", 0),
            (f"{folder}@random", 1),
        )
    )
    assert fresh.stacks == trained.stacks
    assert fresh.content_hash == again.content_hash
    assert len({m.content_hash for m in (trained, fresh, other)}) == 3


def test_the_content_hash_follows_the_content_not_the_name(
    zoo_folder: Folder, tmp_path: Path
) -> None:
    first = load(zoo_folder("bert"), "cpu")
    assert isinstance(first, HuggingFace)
    copy = tmp_path / "another-name"
    first.net.save_pretrained(copy)
    first.tokenizer.save_pretrained(copy)
    assert load(copy, "cpu").content_hash == first.content_hash
    settings = json.loads((copy / "tokenizer_config.json").read_text())
    settings["do_lower_case"] = not settings["do_lower_case"]
    (copy / "tokenizer_config.json").write_text(json.dumps(settings))
    assert load(copy, "cpu").content_hash != first.content_hash


def test_precision_is_chosen_and_said(zoo_folder: Folder) -> None:
    for precision in ("fp32", "bf16", "fp16"):
        assert load(zoo_folder("bert"), "cpu", precision).precision == precision
    assert load(zoo_folder("bert"), "cpu").precision == "fp32"


def test_a_language_model_head_is_kept_where_the_weights_have_one(tmp_path: Path) -> None:
    from transformers import BertForMaskedLM

    from tests.tiny import tiny_bert

    bare, tokenizer = tiny_bert(["the", "cat"])
    with_head = BertForMaskedLM(bare.config)
    with_head.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    model = load(tmp_path, "cpu")
    text = model.encode(encode(read("primer:size=2").docs("train")))
    with torch.no_grad():
        output = model.forward(text, logits=True)
    assert output.logits is not None
    assert output.logits.shape == (*text.ids.shape, len(tokenizer))
    assert len(output.hidden["encoder"]) == 3


def test_nothing_is_fetched_for_a_folder(
    zoo_folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")

    def refuse(*args: object, **kwargs: object) -> None:
        raise AssertionError("something used the network")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    load(zoo_folder("bert"), "cpu")


def test_a_hub_id_without_a_network_says_where_to_put_a_folder() -> None:
    with pytest.raises(
        WorkbenchError, match=r"no-such/model: .*cannot be reached.*\n.*folder"
    ) as error:
        load("no-such/model")
    assert "network" in str(error.value)


@pytest.mark.parametrize(
    ("ref", "said"),
    [
        ("", "neither a folder nor a hub id"),
        ("../../etc/passwd", "neither a folder nor a hub id"),
        ("model.safetensors", "neither a folder nor a hub id"),
        ("a/b/c", "neither a folder nor a hub id"),
        ("mo\0del", "neither a folder nor a hub id"),
        ("elmo:options.json", "needs two files"),
        ("elmo:no.json,no.hdf5", "no.json"),
        ("vectors:no-such-file", "no-such-file"),
    ],
)
def test_a_wrong_name_is_an_error_with_a_remedy(ref: str, said: str) -> None:
    with pytest.raises(WorkbenchError, match=said) as error:
        load(ref, "cpu")
    assert error.value.remedy


def test_wrong_devices_and_precisions_are_said(zoo_folder: Folder) -> None:
    with pytest.raises(WorkbenchError, match="no device 'gpu7x'"):
        load(zoo_folder("bert"), "gpu7x")
    with pytest.raises(WorkbenchError, match="no precision 'fp8'"):
        load(zoo_folder("bert"), "cpu", "fp8")
    if not torch.cuda.is_available():
        with pytest.raises(WorkbenchError, match="no CUDA device"):
            load(zoo_folder("bert"), "cuda")


def test_pickled_weights_are_refused_by_default(zoo_folder: Folder, tmp_path: Path) -> None:
    model = load(zoo_folder("bert"), "cpu")
    assert isinstance(model, HuggingFace)
    model.net.config.save_pretrained(tmp_path)
    model.tokenizer.save_pretrained(tmp_path)
    with pytest.raises(WorkbenchError, match="no weights in this folder"):
        load(tmp_path, "cpu")
    torch.save(model.net.state_dict(), tmp_path / "pytorch_model.bin")
    with pytest.raises(WorkbenchError, match=r"no safetensors.*\n.*pickled=True"):
        load(tmp_path, "cpu")
    with pytest.warns(UserWarning, match="pickled weights"):
        again = load(tmp_path, "cpu", pickled=True)
    assert again.content_hash == model.content_hash


class Boom:
    def __reduce__(self) -> tuple[object, ...]:
        return (Path("boom").write_text, ("code ran",))


def test_code_in_a_pickle_does_not_run(
    zoo_folder: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    model = load(zoo_folder("bert"), "cpu")
    assert isinstance(model, HuggingFace)
    model.net.config.save_pretrained(tmp_path)
    model.tokenizer.save_pretrained(tmp_path)
    torch.save({"weight": Boom()}, tmp_path / "pytorch_model.bin")
    with (
        pytest.warns(UserWarning, match="pickled"),
        pytest.raises(WorkbenchError, match="cannot be loaded"),
    ):
        load(tmp_path, "cpu", pickled=True)
    assert not (tmp_path / "boom").exists()


@pytest.mark.parametrize("damage", ["config.json", "model.safetensors", "tokenizer.json"])
def test_a_damaged_folder_is_one_clear_error(
    damage: str, zoo_folder: Folder, tmp_path: Path
) -> None:
    for file in zoo_folder("bert").iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    (tmp_path / damage).write_bytes(b"{" + (tmp_path / damage).read_bytes()[:40])
    with pytest.raises(WorkbenchError, match=r"file-unreadable|file-format"):
        load(tmp_path, "cpu")


@pytest.mark.parametrize(
    ("weight", "said"), [(None, "lack 1 weight of the layers"), (torch.nan, "NaN")]
)
def test_weights_of_a_layer_that_are_missing_or_no_numbers_are_an_error(
    weight: float | None, said: str, zoo_folder: Folder, tmp_path: Path
) -> None:
    for file in zoo_folder("gpt2").iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    weights = load_file(tmp_path / "model.safetensors")
    name = next(name for name in weights if name.endswith("h.1.attn.c_attn.weight"))
    damaged = weights.pop(name)
    if weight is not None:
        weights[name] = torch.full_like(damaged, weight)
    save_file(weights, tmp_path / "model.safetensors", {"format": "pt"})
    with pytest.raises(WorkbenchError, match=said):
        load(tmp_path, "cpu")


def test_a_model_without_its_tokenizer_is_refused(zoo_folder: Folder, tmp_path: Path) -> None:
    for name in ("config.json", "model.safetensors"):
        (tmp_path / name).write_bytes((zoo_folder("bert") / name).read_bytes())
    with pytest.raises(WorkbenchError, match="no tokenizer"):
        load(tmp_path, "cpu")


def test_models_are_opened_by_several_threads_at_once(zoo_folder: Folder) -> None:
    from concurrent.futures import ThreadPoolExecutor

    folders = [zoo_folder(name) for name in ("bert", "t5")]
    alone = [load(folder, device="cpu").content_hash for folder in folders]
    with ThreadPoolExecutor(4) as threads:
        opened = threads.map(lambda folder: load(folder, device="cpu").content_hash, 2 * folders)
    assert list(opened) == 2 * alone


def _changed(folder: Path, copy: Path, file: str, change: Callable[[Any], None]) -> Path:
    """A copy of a model's folder with one of its JSON files changed."""
    shutil.copytree(folder, copy)
    found = json.loads((copy / file).read_text())
    change(found)
    (copy / file).write_text(json.dumps(found))
    return copy


def test_a_piece_without_an_embedding_is_an_error_and_no_look_up(
    zoo_folder: Folder, tmp_path: Path
) -> None:
    """A GPU stops for good at a look-up beyond a table."""

    def renumber(found: Any) -> None:
        found["model"]["vocab"]["the"] = 50_000

    folder = _changed(zoo_folder("bert"), tmp_path / "bert", "tokenizer.json", renumber)
    model = load(folder, "cpu")
    with pytest.raises(WorkbenchError, match="piece 50000"):
        model.encode(encode([Doc(Vocab(), words=["the", "cat"])]))


def test_a_vocabulary_numbered_into_the_billions_is_refused(
    zoo_folder: Folder, tmp_path: Path
) -> None:
    """Written down, it makes a table of so many entries."""

    def renumber(found: Any) -> None:
        found["model"]["vocab"]["the"] = 2**31

    folder = _changed(zoo_folder("bert"), tmp_path / "bert", "tokenizer.json", renumber)
    with pytest.raises(WorkbenchError, match="piece id is 2147483648"):
        load(folder, "cpu")


def test_random_weights_of_a_folder_are_no_larger_than_its_own(
    zoo_folder: Folder, tmp_path: Path
) -> None:
    def widen(found: Any) -> None:
        found["vocab_size"] = 2**24

    folder = _changed(zoo_folder("bert"), tmp_path / "bert", "config.json", widen)
    with pytest.raises(WorkbenchError, match="describes a model of"):
        load(f"{folder}@random", "cpu")


def test_a_decoder_without_a_start_symbol_is_an_error(zoo_folder: Folder, tmp_path: Path) -> None:
    folder = _changed(
        zoo_folder("t5"), tmp_path / "t5", "config.json", lambda f: f.pop("decoder_start_token_id")
    )
    model = load(folder, "cpu")
    text = model.encode(encode([Doc(Vocab(), words=["the", "cat"])]))
    with pytest.raises(WorkbenchError, match="no decoder_start_token_id"):
        model.forward(text)
