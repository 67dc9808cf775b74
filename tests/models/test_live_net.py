"""A net in memory is the same model as its saved folder, and afterwards the same net as before."""

import hashlib
import pickle
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from transformers import (
    AutoModelForMaskedLM,
    AutoModelForSequenceClassification,
    PreTrainedModel,
    ViTConfig,
    ViTModel,
)

import workbench as wb
from tests.models import zoo
from tests.models.headed import drawn
from tests.night import mostly
from tests.tiny import tiny_bert
from workbench.models import live_net
from workbench.models.references import facts
from workbench.runs.request import make_request

FAMILIES = {
    "bert": "BertForMaskedLM",
    "roberta": "RobertaForMaskedLM",
    "distilbert": "DistilBertForMaskedLM",
    "xlnet": "XLNetLMHeadModel",
    "gpt2": "GPT2LMHeadModel",
    "llama": "LlamaForCausalLM",
    "t5": "T5ForConditionalGeneration",
    "bart": "BartForConditionalGeneration",
}
TEXTS = ["the dog saw a cat and the cat saw a dog .", "a cat ran ."]


@pytest.fixture(autouse=True)
def place(tmp_path: Path, undrawn: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("WORKBENCH_RUNS", str(tmp_path / "runs"))


def net_of(family: str) -> PreTrainedModel:
    """A net of transformers that nothing has opened."""
    return drawn(deepcopy(zoo.built(family).config), FAMILIES[family], uniform=False)


def state_of(net: nn.Module) -> str:
    """A hash of all that a call must leave as it is."""
    digest = hashlib.sha256()
    for name, module in net.named_modules():
        held = vars(module)
        hooks = {
            key: [*map(id, held[key].values())] for key in held if "_hooks" in key and held[key]
        }
        digest.update(repr((name, module.training, hooks, sorted(held))).encode())
    for name, weight in net.named_parameters():
        gradient = None if weight.grad is None else weight.grad.tolist()
        facts = name, weight.tolist(), weight.requires_grad, gradient, weight._version, id(weight)
        digest.update(pickle.dumps(facts))
    config: Any = net.config
    digest.update(f"{config.to_json_string(use_diff=False)} {config._attn_implementation}".encode())
    return digest.hexdigest()


def in_training(net: PreTrainedModel) -> PreTrainedModel:
    """A net in the middle of a training: modes, gradients, and a hook of its user's."""
    net.train()
    next(iter(net.children())).eval()
    weights = list(net.parameters())
    weights[0].requires_grad_(False)
    weights[1].grad = torch.ones_like(weights[1])
    net.base_model.register_forward_hook(lambda *_: pytest.fail("a hook of the user's ran"))
    return net


def tables_of(experiment: str, model: Any, place: Path, **settings: Any) -> dict[str, bytes]:
    """The bytes of the tables of a run of its own, and the name of the run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WORKBENCH_RUNS", str(place))
        run = wb.run(experiment, model=model, corpus=TEXTS, **settings)
    files = sorted((run.path / "tables").iterdir())
    return {"run": run.name.encode(), **{path.name: path.read_bytes() for path in files}}


@pytest.mark.parametrize("family", mostly(FAMILIES, "bert", "t5"))
def test_it_is_the_same_model_as_its_saved_folder(family: str, tmp_path: Path) -> None:
    net, tokenizer = in_training(net_of(family)), zoo.words_of(family)
    before = state_of(net)
    live = wb.load(net, tokenizer, name="folder")
    found = tables_of("profile", live, tmp_path / "live")
    assert state_of(net) == before
    net.save_pretrained(tmp_path / "folder")
    tokenizer.save_pretrained(tmp_path / "folder")
    opened = wb.load(tmp_path / "folder", device="cpu")
    assert opened.content_hash == live.content_hash
    requests = [
        make_request("profile", [each]).spec for each in (opened, live, tmp_path / "folder")
    ]
    assert len({request.fingerprint for request in requests}) == 1
    assert {**facts(opened), "name": ""} == {**facts(live), "name": ""}
    opened.name = "folder"
    assert tables_of("profile", opened, tmp_path / "saved") == found and len(found) > 2


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_its_heads_are_the_same_as_those_of_its_saved_folder(family: str, tmp_path: Path) -> None:
    net, tokenizer = in_training(net_of(family)), zoo.words_of(family)
    found = tables_of("heads", (net, tokenizer), tmp_path / "live")
    net.save_pretrained(tmp_path / "folder")
    tokenizer.save_pretrained(tmp_path / "folder")
    opened = wb.load(tmp_path / "folder", device="cpu", name=FAMILIES[family])
    assert tables_of("heads", opened, tmp_path / "saved") == found


HALF = [(family, dtype) for family in FAMILIES for dtype in (torch.bfloat16, torch.float16)]


@pytest.mark.parametrize(("family", "dtype"), mostly(HALF, ("gpt2", torch.float16)))
def test_one_in_half_precision_is_the_same_as_its_saved_folder(
    family: str, dtype: torch.dtype, tmp_path: Path
) -> None:
    net, tokenizer = in_training(net_of(family).to(dtype)), zoo.words_of(family)
    before = state_of(net)
    live = wb.load(net, tokenizer, name="folder")
    found = tables_of("profile", live, tmp_path / "live")
    assert state_of(net) == before and live.precision == "fp32"
    net.save_pretrained(tmp_path / "folder")
    tokenizer.save_pretrained(tmp_path / "folder")
    opened = wb.load(tmp_path / "folder", device="cpu", name="folder")
    specs = [make_request("profile", [each]).spec for each in (live, opened, tmp_path / "folder")]
    assert len({spec.fingerprint for spec in specs}) == 1
    assert tables_of("profile", opened, tmp_path / "saved") == found
    with torch.no_grad():  # the widened copies follow a step of training
        net.get_input_embeddings().weight.mul_(2)
    changed = live.content_hash
    net.save_pretrained(tmp_path / "folder")
    assert changed == wb.load(tmp_path / "folder", device="cpu").content_hash != opened.content_hash


def test_one_in_half_precision_can_be_computed_with_as_it_is(tmp_path: Path) -> None:
    net, tokenizer = net_of("bert").to(torch.bfloat16), zoo.words_of("bert")
    net.save_pretrained(tmp_path / "folder")
    tokenizer.save_pretrained(tmp_path / "folder")
    live: Any = wb.load(net, tokenizer, "bf16", name="folder")
    opened = wb.load(tmp_path / "folder", "cpu", "bf16", name="folder")
    assert live.precision == "bf16" and live.content_hash == opened.content_hash
    assert live.net.dtype == torch.bfloat16
    places = {weight.data_ptr() for weight in net.parameters()}
    assert {weight.data_ptr() for weight in live.net.parameters()} == places
    found = tables_of("profile", live, tmp_path / "live")
    assert tables_of("profile", opened, tmp_path / "saved") == found
    wide = wb.load(net, tokenizer)
    assert wide.content_hash != live.content_hash  # each is known by its own hash
    for model in (live, wide):
        again = live_net.of_hash(model.content_hash)
        assert again is not None and again.precision == model.precision


def test_another_precision_than_its_own_is_refused() -> None:
    net, tokenizer = net_of("bert"), zoo.words_of("bert")
    assert wb.load(net, tokenizer, "fp32").precision == "fp32"
    with pytest.raises(wb.WorkbenchError, match="in fp32") as error:
        wb.load(net, tokenizer, "bf16")
    assert "net.to" in error.value.remedy
    with pytest.raises(wb.WorkbenchError, match="no precision"):
        wb.load(net, tokenizer, "int3")


@pytest.mark.parametrize("dtype", mostly([torch.float32, torch.bfloat16], torch.bfloat16))
def test_one_that_peft_wraps(dtype: torch.dtype, tmp_path: Path) -> None:
    from peft import LoraConfig, get_peft_model

    base, tokenizer = net_of("gpt2").to(dtype), zoo.words_of("gpt2")
    base.save_pretrained(tmp_path / "base")
    tokenizer.save_pretrained(tmp_path / "base")
    base = type(base).from_pretrained(tmp_path / "base")
    config = LoraConfig(r=2, target_modules=["c_attn"], task_type="CAUSAL_LM", fan_in_fan_out=True)
    net: Any = get_peft_model(base, config)
    with torch.no_grad():
        for name, weight in net.named_parameters():
            if "lora_B" in name:
                weight.normal_()
    net.train()
    before = state_of(net)
    live = wb.load(net, tokenizer, name="folder")
    found = tables_of("profile", live, tmp_path / "live")
    assert state_of(net) == before and live.content_hash != wb.load(tmp_path / "base").content_hash
    net.save_pretrained(tmp_path / "folder")
    opened = wb.load(tmp_path / "folder", device="cpu", name="folder")
    assert opened.content_hash == live.content_hash
    assert tables_of("profile", opened, tmp_path / "saved") == found
    with torch.no_grad():  # the merged weights follow a step of training
        net.get_parameter(next(n for n, _ in net.named_parameters() if "lora_A" in n)).add_(1)
    changed = live.content_hash
    assert changed != opened.content_hash
    net.save_pretrained(tmp_path / "folder")
    assert wb.load(tmp_path / "folder", device="cpu").content_hash == changed


def test_a_classifier_that_peft_wraps(tmp_path: Path) -> None:
    from peft import LoraConfig, get_peft_model

    tokenizer = zoo.words_of("bert")
    zoo.make("bert", tmp_path / "base")
    base = AutoModelForSequenceClassification.from_pretrained(tmp_path / "base", num_labels=3)
    config = LoraConfig(r=2, target_modules=["query"], task_type="SEQ_CLS")
    net: Any = get_peft_model(base, config)
    live = wb.load(net, tokenizer)
    net.save_pretrained(tmp_path / "folder")
    opened = wb.load(tmp_path / "folder", device="cpu")
    assert live.predicts == opened.predicts and live.predicts
    assert live.content_hash == opened.content_hash


@pytest.mark.parametrize("end", [RuntimeError("broken"), KeyboardInterrupt()], ids=repr)
def test_a_net_is_as_before_however_a_call_ends(
    end: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    net, tokenizer = in_training(net_of("bert")), zoo.words_of("bert")
    before, model = state_of(net), wb.load(net, tokenizer)

    def breaks(*_: Any, **__: Any) -> None:
        assert not model.net.training and net.training  # type: ignore[attr-defined]
        raise end

    monkeypatch.setattr("workbench.engine.attention._scores", breaks)
    with pytest.raises(type(end) if isinstance(end, KeyboardInterrupt) else wb.WorkbenchError):
        wb.run("heads", model=model, corpus=TEXTS)
    assert state_of(net) == before
    assert [run.status.state for run in wb.runs()] in (["failed"], ["cancelled"])


def test_gradients_of_an_analysis_stay_with_it() -> None:
    net, tokenizer = in_training(net_of("bert")), zoo.words_of("bert")
    before = state_of(net)
    wb.attribute(wb.load(net, tokenizer), "the dog saw a [MASK] .", method="gradient-x-input")
    wb.run("head-importance", model=(net, tokenizer), corpus=TEXTS)
    assert state_of(net) == before


CHANGES: dict[str, Callable[[nn.Linear], object]] = {
    "in place": lambda layer: layer.weight.zero_(),
    "through data": lambda layer: layer.weight.data.mul_(2),
    "replaced": lambda layer: setattr(layer, "weight", nn.Parameter(torch.ones_like(layer.weight))),
    "read": lambda layer: layer.load_state_dict({"weight": layer.weight + 1, "bias": layer.bias}),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_changed_weight_is_noticed(change: Callable[[nn.Linear], object]) -> None:
    net, tokenizer = net_of("bert"), zoo.words_of("bert")
    model, other = wb.load(net, tokenizer), net_of("bert")
    first = model.content_hash
    for each in (net, other):
        with torch.no_grad():
            change(each.base_model.encoder.layer[0].output.dense)  # type: ignore[union-attr,index]
    assert first != model.content_hash == wb.load(other, tokenizer).content_hash
    text = wb.encode(wb.read(TEXTS))
    states = [each.forward(each.encode(text)).final for each in (model, wb.load(other, tokenizer))]
    assert states[0]["encoder"].equal(states[1]["encoder"])


def test_weights_are_added_up_when_a_run_is_requested_begins_and_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model, add_up = wb.load(net_of("bert"), zoo.words_of("bert")), live_net._total
    added: list[int] = []

    def counted(net: nn.Module) -> int:
        added.append(add_up(net))
        return added[-1]

    monkeypatch.setattr(live_net, "_total", counted)
    wb.run("profile", model=model, corpus=TEXTS)
    assert len(added) == 3
    with model.unchanging():
        assert [model.content_hash for _ in range(3)] and len(added) == 4
    assert model.content_hash and len(added) == 5


def test_weights_are_hashed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    net, tokenizer = net_of("bert"), zoo.words_of("bert")
    first = wb.load(net, tokenizer).content_hash
    monkeypatch.setattr(live_net.LiveModel, "_hashed", lambda *_: pytest.fail("hashed again"))
    assert wb.load(net).content_hash == first


def test_hashing_a_large_net_shows_how_long_it_takes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("workbench.models.huggingface.HASHED_UNSEEN", 0)
    hashed = wb.load(net_of("bert"), zoo.words_of("bert")).content_hash
    assert "hashing the weights, once" in capsys.readouterr().err and hashed


def test_a_padding_tokenizer_is_the_same_tokenizer() -> None:
    net, tokenizer = net_of("bert"), deepcopy(zoo.words_of("bert"))
    first = wb.load(net, tokenizer).content_hash
    tokenizer(TEXTS, padding=True, truncation=True, max_length=5)
    assert wb.load(net_of("bert"), tokenizer).content_hash == first
    assert tokenizer.backend_tokenizer.truncation  # which is its user's


def test_weights_are_shared_and_not_copied() -> None:
    net, tokenizer = net_of("t5"), zoo.words_of("t5")
    model: Any = wb.load(net, tokenizer)
    places = {weight.data_ptr() for weight in net.parameters()}
    assert {weight.data_ptr() for weight in model.net.parameters()} == places
    assert model.parameters == net.num_parameters()


def test_a_net_on_meta_has_facts_only() -> None:
    tokenizer = zoo.words_of("t5")
    there = net_of("t5")
    with torch.device("meta"):
        net = type(there)(there.config)
    model, real = wb.load(net, tokenizer, name="a"), wb.load(there, tokenizer, name="a")
    assert model.stacks == real.stacks and model.sites == real.sites
    differ = {key for key, value in facts(model).items() if value != facts(real)[key]}
    assert differ == {"content_hash", "device"}
    with pytest.raises(wb.WorkbenchError, match="no weights"):
        wb.run("heads", model=model, corpus=TEXTS)
    with pytest.raises(wb.WorkbenchError, match="no weights"):
        model.encode(wb.encode(wb.read(TEXTS)))


def test_a_quantised_net_has_heads_and_a_hash() -> None:
    net = torch.ao.quantization.quantize_dynamic(net_of("bert").eval(), {nn.Linear})
    model = wb.load(net, zoo.words_of("bert"))
    found = wb.run("heads", model=model, corpus=TEXTS).tables["heads"]
    assert (
        len(found) == 8
        and model.content_hash != wb.load(net_of("bert"), model.tokenizer).content_hash
    )  # type: ignore[attr-defined]


@pytest.mark.parametrize("wrap", mostly([torch.compile, nn.DataParallel], nn.DataParallel))
def test_wrappers_are_opened(wrap: Callable[[nn.Module], nn.Module]) -> None:
    net, tokenizer = net_of("bert"), zoo.words_of("bert")
    assert wb.load(wrap(net), tokenizer).content_hash == wb.load(net, tokenizer).content_hash


def test_the_tokenizer_is_found_next_to_the_files(tmp_path: Path) -> None:
    net, tokenizer = tiny_bert(["dog", "saw"])
    with pytest.raises(wb.WorkbenchError, match="no tokenizer"):
        wb.load(net)
    net.save_pretrained(tmp_path / "mine")
    tokenizer.save_pretrained(tmp_path / "mine")
    again = AutoModelForMaskedLM.from_pretrained(tmp_path / "mine")
    assert wb.load(again).content_hash == wb.load(net, tokenizer).content_hash
    assert wb.load(again).name == "mine"


def test_other_nets_are_refused_with_a_remedy() -> None:
    _, tokenizer = tiny_bert(["dog"])
    pictures = ViTModel(ViTConfig(hidden_size=8, num_hidden_layers=1, num_attention_heads=2))
    for net in (nn.Linear(2, 2), pictures):
        with pytest.raises(wb.WorkbenchError, match="model-unsupported") as error:
            wb.load(net, tokenizer)
        assert error.value.remedy
