"""What learns is what was meant to learn, and no other weight moves by a bit."""

from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import workbench as wb
from tests.analyses.transfer.conftest import of_words, parted
from tests.minis import shared
from tests.models.gated import opened
from tests.models.zoo import NAMES as ZOO
from tests.night import mostly
from workbench import Model, WorkbenchError
from workbench.analyses.transfer.adaptation import (
    METHODS,
    Fitting,
    default_learning_rates,
    fitting_of,
)
from workbench.analyses.transfer.backbone import Body, body_of
from workbench.analyses.transfer.experiments import Method, Sizes
from workbench.analyses.transfer.features import Cached, Live
from workbench.analyses.transfer.trainer import Plan, steps_of, train_head
from workbench.corpora.splits import SplitSizes
from workbench.corpora.tasks import Split, split_of, task_of
from workbench.models.formats.peft_adapter import merge
from workbench.models.huggingface import HuggingFace
from workbench.models.output_heads.task_heads import MixHead, Scale

CORPUS = parted(of_words, 24, 8)
PUT_IN = ("lora", "adapters", "adamix", "prefix", "prompt")
SHARED = ("albert",)  # layers of the same weights
BY_DAY = ("bert", "t5-3-2")  # by all methods
REFUSED = [("albert", "lora"), ("xlnet", "lora"), ("llama", "bitfit")]


def split(train: int = 24) -> Split:
    return split_of(CORPUS, task_of(CORPUS, "kind"), None, 0, SplitSizes(train, 8, 8))


def head_of(body: Body, parts: Split, lstm: bool = False) -> MixHead:
    torch.manual_seed(3)
    scale = Scale.of(parts.train.gold, parts.task)
    own = MixHead(parts.task, body.layers, body.model.width, lstm, scale)
    for layer in own.linear:  # of zeros nothing would reach the body in the first step
        torch.nn.init.normal_(layer.weight, std=0.1)
    return own


def fitted(
    model: Model, method: Method, epochs: int = 1, rate: float = 1e-2
) -> tuple[Fitting, MixHead]:
    """A model that has learnt a little."""
    parts, body = split(16), body_of(model)
    made = fitting_of(body, method, Sizes(lora_rank=2, adapter_width=4, prefix_length=3), 0)
    head = head_of(body, parts)
    sources = [Live(body, part.batch) for part in (parts.train, parts.dev)]
    plan = Plan(rate, epochs, 8, 5, 0)
    train_head(parts.task, head, made, (sources[0], parts.train), (sources[1], parts.dev), plan)
    return made, head


def snapshot(model: Model) -> dict[str, Tensor]:
    return {name: value.detach().clone() for name, value in model.named_weights().items()}


def changed(before: dict[str, Tensor], model: Model) -> set[str]:
    now = model.named_weights()
    return {name for name in before if not torch.equal(before[name], now[name])}


PEFT = ("lora", "adapters", "adamix", "prefix", "prompt", "bitfit")  # few weights learn


@cache
def mini_of(name: str) -> Model:
    """Which no fitting changes."""
    return shared(f"mini:{name}")


MINIS = [(name, method) for name in ("bert", "gpt", "t5", "elmo") for method in METHODS]
OTHERS_BY_DAY = [("gpt", "lora"), ("t5", "gradual"), ("t5", "bitfit"), ("elmo", "fine-tuned"),
                 ("elmo", "lora")]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "method"), mostly(MINIS, *(c for c in MINIS if c[0] == "bert"), *OTHERS_BY_DAY)
)
def test_nothing_but_what_a_method_names_moves_and_the_model_itself_never(
    name: str, method: Method
) -> None:
    mini = mini_of(name)
    before = snapshot(mini)
    if (mini.family == "elmo" and method in PEFT) or (mini.family == "t5" and method == "bitfit"):
        with pytest.raises(WorkbenchError, match="cannot be adapted"):
            fitting_of(body_of(mini), method, Sizes(), 0)
        return
    made, _ = fitted(mini, method)
    assert not changed(before, mini), "what was handed over is never written to"
    body = made.body
    names = {name.replace(".base_layer", ""): w for name, w in body.model.named_weights().items()}
    moved = {n for n, w in before.items() if not torch.equal(w, names[n])}
    if method in ("frozen", *PUT_IN):
        assert not moved, "every weight of the encoder is bit-identical"
        assert bool(made.trained_weights) == (method != "frozen")
        return
    if method == "bitfit":
        assert moved and all(name.endswith("bias") for name in moved)
        assert made.trainable < 0.02 * mini.parameters
    elif method == "top":
        assert {body.places[name].layer for name in moved} <= {body.layers, None}
    else:
        still = set(body.weights) - moved
        assert len(moved) > len(still), still


ADAPTED = [
    (name, method)
    for method in ("fine-tuned", "lora", "adapters", "prefix", "prompt", "bitfit")
    for name in ZOO
]


@pytest.mark.parametrize(
    ("name", "method"),
    mostly(
        ADAPTED, *(c for c in ADAPTED if c[0] in BY_DAY), *REFUSED,
        ("gpt2", "lora"), ("gpt2", "prefix"), ("llama", "adapters"),
    ),
)  # fmt: skip
def test_every_architecture_can_be_adapted_or_says_why_not(name: str, method: Method) -> None:
    model = opened(name)
    parts, body = split(8), body_of(model)
    try:
        made = fitting_of(body, method, Sizes(lora_rank=2, adapter_width=4, prefix_length=3), 0)
    except WorkbenchError as error:
        reason = str(error)
        assert "cannot be adapted" in reason
        assert ("bias weights" in reason) == (method == "bitfit")
        assert method == "bitfit" or name in SHARED or (method, name) == ("lora", "xlnet")
        return
    head = head_of(body, parts)
    source = Live(body, parts.train.batch)
    read = source.read(range(8), head.mix)
    assert read.there.all(), "every word has a piece"
    loss = head.loss(head(read), parts.train.gold, read)
    slopes = torch.autograd.grad(loss, made.trained_weights, allow_unused=True)
    lost = [n for n, slope in enumerate(slopes) if slope is None]
    assert not lost and all(bool(slope.isfinite().all()) for slope in slopes if slope is not None)
    whole = Live(body_of(model), parts.train.batch).read(range(8), head.mix)
    close = torch.allclose(read.words, whole.words, atol=1e-5)
    assert close == (method not in ("prefix", "prompt")), "adapters and LoRA begin with nothing"


@pytest.mark.parametrize(
    "name",
    mostly(["bert", "gpt2", "t5", "bart", "llama", "distilbert", "electra"], "bert", "gpt2", "t5"),
)
def test_lora_merged_is_lora_unmerged(name: str) -> None:
    model = opened(name)
    made, head = fitted(model, "lora", rate=0.05)
    own = made.body.model
    assert isinstance(own, HuggingFace)
    parts = split()
    source = Live(made.body, parts.test.batch)
    with torch.no_grad():
        beside = source.read(range(8), head.mix).words
        before = Live(body_of(model), parts.test.batch).read(range(8), head.mix).words
        merge(own)
        after = source.read(range(8), head.mix).words
    assert not torch.allclose(beside, before, atol=1e-3), "it has learnt"
    assert torch.allclose(beside, after, atol=1e-5)
    assert set(own.net.state_dict()) == set(model.net.state_dict())  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", ["bert", "gpt", "t5", "elmo"])
def test_what_is_computed_once_is_what_is_computed_anew(name: str, tmp_path: Path) -> None:
    """A frozen model's head reads the very numbers that a model about to learn gives."""
    mini = mini_of(name)
    parts, body = split(), body_of(mini)
    head = head_of(body, parts).eval()
    with torch.no_grad():
        head.mix.scores.copy_(torch.linspace(-1, 1, body.layers + 1))
        one = Live(body, parts.train.batch).read([3, 0, 9], head.mix)
        two = Cached(mini, parts.train.batch, tmp_path).read([3, 0, 9], head.mix)
    assert torch.allclose(one.words, two.words, atol=1e-5)
    assert torch.equal(one.there, two.there) and torch.equal(one.second, two.second)


def test_lower_layers_wait_their_turn() -> None:
    """Of gradual unfreezing nothing below the top has moved after the first steps."""
    model = shared("mini:bert")
    parts, body = split(), body_of(model)
    made = fitting_of(body, "gradual", Sizes(), 0)
    assert [group.begins for group in made.groups] == pytest.approx([0, 0.125, 0.25, 0.375, 0.5])
    assert [group.rate_factor for group in made.groups] == pytest.approx(
        [2.6**-n for n in range(5)]
    )
    before = snapshot(body.model)
    seen: list[set[int | None]] = []

    def told(step: int, steps: int, loss: float) -> None:
        moved = changed(before, body.model) & set(body.places)  # what is tied has one place
        seen.append({body.places[name].layer for name in moved})

    plan = Plan(1e-3, 4, 8, 20, 0)
    assert steps_of(24, plan) == 12
    sources = [Live(body, part.batch) for part in (parts.train, parts.dev)]
    head = head_of(body, parts)
    train_head(
        parts.task, head, made, (sources[0], parts.train), (sources[1], parts.dev), plan, told
    )
    assert seen[0] == {4} and seen[1] == {4}
    assert seen[2] == {4, 3} and seen[-1] == {4, 3, 2, 1, 0}


def test_a_prompt_leaves_words_where_they_were() -> None:
    """Room is made before the text, and no word is lost but what no longer fits."""
    model = opened("bert")
    body = body_of(model)
    longest = body.model.max_pieces
    fitting_of(body, "prompt", Sizes(prefix_length=5), 0)
    assert body.model.max_pieces == longest - 5 and model.max_pieces == longest  # type: ignore[operator]
    plain = model.encode(split().train.batch)
    wide = body.model.encode(split().train.batch)
    assert torch.equal(wide.words[:, 5:], plain.words) and bool((wide.words[:, :5] < 0).all())
    with pytest.raises(WorkbenchError, match=r"setting-invalid"):
        fitting_of(body_of(model), "prompt", Sizes(prefix_length=100), 0)


def test_how_many_layers_learn_has_an_end() -> None:
    body = body_of(shared("mini:gpt"))
    with pytest.raises(WorkbenchError, match="top 4 of 4"):
        fitting_of(body, "top", Sizes(top_layers=4), 0)
    fitting_of(body, "top", Sizes(top_layers=3), 0)


def test_every_method_has_rates_and_large_models_learn_slower() -> None:
    class Huge:
        parameters = 10**9

    small = shared("mini:bert")
    huge: Any = Huge()
    for method in METHODS:
        assert len(default_learning_rates(method, small, lstm=method == "frozen")) >= 2
        assert max(default_learning_rates(method, huge)) <= max(
            default_learning_rates(method, small)
        )


@pytest.mark.parametrize("kind", ["prefix", "prompt"])
def test_learnt_vectors_are_not_shown_as_pieces(kind: Method) -> None:
    body = body_of(opened("bert"))
    text = wb.attention(opened("bert"), "Ben walks.").texts["encoder"].pieces
    fitting_of(body, kind, Sizes(prefix_length=2), 0)
    with_vectors = wb.attention(body.model, "Ben walks.").texts["encoder"].pieces
    assert with_vectors == (f"{kind} 1", f"{kind} 2", *text)
