"""What a checkpoint's files may do: nothing. Its code never runs, its numbers are checked first."""

import io
import json
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import workbench as wb
from tests import warm
from tests.cli.harms import in_time
from workbench import WorkbenchError, encode, read
from workbench.analyses.training.initial_model import own_objective
from workbench.analyses.training.train import open_tokenizer
from workbench.app.uploaded_files import unpack
from workbench.cli.main import main
from workbench.models.formats import checkpoint
from workbench.models.formats.checkpoint import MODULES, check_size, read_config
from workbench.models.loading import load
from workbench.runs import isolated

Folder = Callable[[str], Path]
CODE = """
from pathlib import Path
Path({marker!r}).write_text("ran")
from transformers import BertConfig, BertModel, BertTokenizerFast
class Config(BertConfig):
    model_type = "own-thing"
class Model(BertModel):
    config_class = Config
class Tokenizer(BertTokenizerFast):
    pass
"""


@pytest.fixture
def copied(zoo_folder: Folder, tmp_path: Path) -> Path:
    """A checkpoint that a test may spoil."""
    return Path(shutil.copytree(zoo_folder("bert"), tmp_path / "checkpoint"))


@pytest.fixture
def hostile(copied: Path, tmp_path: Path) -> Path:
    """A checkpoint whose own code writes the file `ran`."""
    changed(copied, "config.json", model_type="own-thing", architectures=["Model"], auto_map={
        "AutoConfig": "code.Config", "AutoModel": "code.Model",
    })  # fmt: skip
    changed(copied, "tokenizer_config.json", tokenizer_class="Tokenizer", auto_map={
        "AutoTokenizer": ["code.Tokenizer", "code.Tokenizer"],
    })  # fmt: skip
    (copied / "code.py").write_text(CODE.format(marker=str(tmp_path / "ran")))
    return copied


def changed(folder: Path, name: str, **values: Any) -> None:
    path = folder / name
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


# --- its code -------------------------------------------------------------------------------------


def test_the_code_would_run_if_it_were_trusted(hostile: Path, tmp_path: Path) -> None:
    from transformers import AutoConfig

    AutoConfig.from_pretrained(hostile, trust_remote_code=True)
    assert (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    "ask",
    [
        lambda folder: load(folder, "cpu"),
        lambda folder: load(f"{folder}@random", "cpu"),
        lambda folder: wb.run("profile", model=str(folder), corpus="primer:size=20"),
        lambda folder: isolated.look(str(folder), "facts"),
        lambda folder: own_objective("bert", folder),
        open_tokenizer,
    ],
    ids=["load", "random", "run", "app", "train", "tokenizer"],
)
def test_its_code_is_never_run(
    ask: Callable[[Path], object], hostile: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    warm.answer(monkeypatch)
    monkeypatch.setattr("builtins.input", lambda text="": "yes")
    with pytest.raises(WorkbenchError, match="own Python code"):
        ask(hostile)
    assert not (tmp_path / "ran").exists()


def test_nor_by_a_command_where_everything_is_answered_yes(
    hostile: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(sys, "argv", ["workbench", "models", "show", str(hostile)])
    monkeypatch.setattr(sys, "stdin", io.StringIO("yes\n" * 20))
    with pytest.raises(SystemExit) as end:
        main()
    printed = capsys.readouterr()
    assert (end.value.code, printed.out) == (2, "")
    assert "model-unsupported" in printed.err
    assert not (tmp_path / "ran").exists()


@pytest.mark.slow
@pytest.mark.parametrize("suffix", ["", "@random"])
def test_nor_from_the_command_line_where_everything_is_answered_yes(
    suffix: str, hostile: Path, tmp_path: Path
) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "workbench.cli.main", "models", "show", f"{hostile}{suffix}"],
        input="yes\n" * 20,
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "WORKBENCH_HOME": str(tmp_path / "home")},
    )
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "model-unsupported" in ended.stderr
    assert not (tmp_path / "ran").exists()


def test_nor_from_an_uploaded_zip(hostile: Path, tmp_path: Path) -> None:
    """Python files are refused; a config that names code of a hub id is too, when it is opened."""
    packed, folder = tmp_path / "model.zip", tmp_path / "unpacked"
    folder.mkdir()
    with zipfile.ZipFile(packed, "w") as archive:
        for path in hostile.iterdir():
            archive.write(path, path.name)
    with packed.open("rb") as file, pytest.raises(WorkbenchError, match="file-format"):
        unpack(file, folder)
    (hostile / "code.py").unlink()
    changed(hostile, "config.json", auto_map={"AutoConfig": "somebody/else--code.Config"})
    with pytest.raises(WorkbenchError, match="model-unsupported"):
        load(hostile, "cpu")


# --- its numbers ----------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", ["", "@random"])
@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("num_hidden_layers", 10**9, f"between 1 and {MODULES:,}"),
        ("num_hidden_layers", 0, f"between 1 and {MODULES:,}"),
        ("num_attention_heads", -1, "between 1 and"),
        ("vocab_size", 2**31 - 1, "between 1 and"),
        ("num_labels", 10**9, "between 0 and"),
        ("hidden_size", 2**31, "between 1 and"),
        ("hidden_dropout_prob", float("nan"), "a finite number"),
        ("attention_probs_dropout_prob", 1e308, "between 0 and 1"),
        ("layer_norm_eps", float("inf"), "a finite number"),
        ("architectures", [5], "a list of names"),
        ("hidden_size", "large", "expected int, got str"),
        ("id2label", 5, "cannot be loaded"),
    ],
)
def test_numbers_that_are_no_models_are_refused_before_anything_is_built(
    name: str, value: object, said: str, suffix: str, copied: Path
) -> None:
    changed(copied, "config.json", **{name: value})
    with pytest.raises(WorkbenchError, match=said) as error:
        load(f"{copied}{suffix}", "cpu")
    assert error.value.remedy


def test_a_config_of_another_model_than_the_weights_is_refused(copied: Path) -> None:
    changed(copied, "config.json", vocab_size=900_000)
    with pytest.raises(WorkbenchError, match="weight files hold"):
        load(copied, "cpu")


def test_sizes_of_another_model_than_the_weights_are_refused(copied: Path) -> None:
    width = json.loads((copied / "config.json").read_text())["hidden_size"]
    changed(copied, "config.json", hidden_size=width + width // 2)
    with pytest.raises(WorkbenchError, match="not those of the weights"):
        load(copied, "cpu")


def test_what_no_memory_holds_is_not_begun(copied: Path) -> None:
    changed(copied, "config.json", vocab_size=2**26, hidden_size=2**20, num_attention_heads=2)
    config = read_config(str(copied))
    from transformers import BertModel

    with pytest.raises(WorkbenchError, match="GiB of memory"):
        check_size(BertModel, config, str(copied), None)


def test_a_build_without_end_is_stopped(copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever number asks for it; these are sound, and the limit is lowered."""
    monkeypatch.setattr(checkpoint, "PARTS", 20)
    checkpoint._known.cache_clear()  # what was built before is not built again
    with pytest.raises(WorkbenchError, match="more than 20 modules"):
        load(f"{copied}@random", "cpu")


def test_the_layers_are_counted_before_transformers_makes_lists_of_them(
    zoo_folder: Folder, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(zoo_folder("modernbert"), tmp_path / "modern"))
    changed(folder, "config.json", num_hidden_layers=10**9, layer_types=None)
    with pytest.raises(WorkbenchError, match="num_hidden_layers is 1000000000"):
        load(f"{folder}@random", "cpu")


@pytest.mark.parametrize("key", ["vocab_file", "tokenizer_file"])
def test_a_tokenizer_reads_the_files_beside_it_whatever_paths_it_names(
    key: str, copied: Path, tmp_path: Path
) -> None:
    (tmp_path / "secret").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nsecret\n")
    changed(copied, "tokenizer_config.json", **{key: str(tmp_path / "secret")})
    assert "secret" not in checkpoint.read_tokenizer(str(copied)).get_vocab()


def test_a_config_as_large_as_a_model_is_not_read(copied: Path) -> None:
    with (copied / "config.json").open("r+b") as file:
        file.truncate(checkpoint.CONFIG + 1)
    with pytest.raises(WorkbenchError, match="bytes"):
        load(copied, "cpu")


@pytest.mark.parametrize(
    "values",
    [
        {"model_max_length": float("nan")},
        {"model_max_length": float("inf")},
        {"model_max_length": -1},
        {"model_max_length": ""},
        {"model_max_length": []},
        {"padding_side": 5},
        {"tokenizer_class": 5},
        {"added_tokens_decoder": {"-1": {"content": "x"}}},
        {"added_tokens_decoder": {"1000000000": {"content": "x"}}},
        {"added_tokens_decoder": []},
        {"extra_special_tokens": {"a": {"b": {}}}},
        {"init_inputs": [1, 2, 3]},
        {"pad_token": None},
        {"unk_token": {"__type": "AddedToken"}},
        {"cls_token": 10**9},
        {"do_lower_case": [[[[]]]]},
    ],
    ids=str,
)
def test_a_tokenizer_config_of_nonsense_is_harmless_or_an_error(
    values: dict[str, Any], copied: Path
) -> None:
    changed(copied, "tokenizer_config.json", **values)
    with suppress(WorkbenchError):
        model = load(copied, "cpu")
        model.encode(encode(read("primer:size=3").docs("train")))


def test_a_pipe_among_the_files_is_not_waited_for(copied: Path) -> None:
    os.mkfifo(copied / "special_tokens_map.json")
    with pytest.raises(WorkbenchError, match="pipe, socket or device"):
        load(copied, "cpu")


@pytest.mark.parametrize("name", ["config.json", "tokenizer_config.json", "tokenizer.json"])
def test_json_nested_without_end_is_an_error(name: str, copied: Path) -> None:
    (copied / name).write_text('{"a":' * 100_000 + "1" + "}" * 100_000)
    with pytest.raises(WorkbenchError):
        load(copied, "cpu")


@pytest.mark.parametrize("file", ["parts/model.safetensors", "../model.safetensors", "/dev/zero"])
def test_weights_are_read_from_beside_their_list(file: str, copied: Path) -> None:
    (copied / "parts").mkdir()
    os.mkfifo(copied / "parts" / "model.safetensors")
    (copied / "model.safetensors").rename(copied / "model-1.safetensors")
    index = {"metadata": {}, "weight_map": {"a": "model-1.safetensors", "b": file}}
    (copied / "model.safetensors.index.json").write_text(json.dumps(index))
    with in_time(), pytest.raises(WorkbenchError, match="unsafe-path"):
        load(copied, "cpu")


@pytest.mark.parametrize("content", ["[1]", "7", '"text"'])
def test_a_tokenizer_file_that_is_none_is_named(content: str, copied: Path) -> None:
    (copied / "tokenizer.json").write_text(content)
    with pytest.raises(WorkbenchError, match=r"tokenizer\.json"):
        load(copied, "cpu")
