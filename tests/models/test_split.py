"""A model over two cards gives what it gives on one device: the same bits, gradients apart.

Cards are those that are not there (`tests.engine.card`): tensors of two of them do not go together.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor
from transformers import AutoConfig

from tests.engine.card import card, card_of
from tests.models import zoo
from tests.models.test_attention import pieces
from tests.models.test_logits import HEADED
from tests.night import mostly
from workbench import Capture, Gate, Reduce, WorkbenchError, encode, read, word_states
from workbench.analyses.heads.collect import SUMS, PassSettings, look
from workbench.analyses.heads.gold import gold_of
from workbench.engine.map_statistics import together
from workbench.models.huggingface import HuggingFace
from workbench.models.loading import load, resolve_device, resolve_devices
from workbench.models.split import FAMILIES

LAYERS = {
    "bert": {"num_hidden_layers": 12},
    "gpt2": {"n_layer": 12},
    "llama": {"num_hidden_layers": 12},
    "t5": {"num_layers": 6, "num_decoder_layers": 12},
}
OTHERS = (
    "roberta", "distilbert", "electra", "gpt-neox", "mt5", "t5-3-2", "bart", "modernbert",
)  # fmt: skip
BOTH = "cuda:0,cuda:1"


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Tiny models with a head, of twelve layers where it says so."""
    made: dict[str, Path] = {}

    def folder(name: str) -> Path:
        if name not in made:
            where = made[name] = tmp_path_factory.mktemp(name)
            zoo.make(name, where, **LAYERS.get(name, {}))
            torch.manual_seed(0)
            net = getattr(transformers, HEADED[name])(AutoConfig.from_pretrained(where))
            net.save_pretrained(where)
        return made[name]

    return folder


def on_cpu(value: Any) -> Tensor:
    found: Tensor = value.detach().cpu()
    return found


def passed(model: HuggingFace) -> dict[str, Tensor]:
    """What a pass with gates leaves: states, maps, sums, logits and the gates' gradients."""
    text = pieces(model, 3, 9, True).to(model.device)
    generator = torch.Generator().manual_seed(0)
    heads = max(site.heads for site in model.sites)
    gates = torch.rand(3, len(model.sites), heads, generator=generator)
    gates = gates.to(model.device).requires_grad_()
    capture, sums = Capture(), Reduce(together())
    output = model.forward(text, taps=[Gate(gates), capture, sums], logits=text.mask)
    assert output.logits is not None and output.logits.device == model.device
    output.logits.double().square().mean().backward()
    assert gates.grad is not None and gates.grad.abs().sum() > 0
    found = {"logits": output.logits, "gradients": gates.grad}
    for stack, layers in output.hidden.items():
        found |= {f"{stack}.{number}": layer for number, layer in enumerate(layers)}
        found[f"{stack}.final"] = output.final[stack]
    found |= {f"map {site.name}": maps for site, (maps,) in capture.maps.items()}
    found |= {f"sum {site.name}": total for site, total in sums.total.items()}
    return {name: on_cpu(value) for name, value in found.items()}


def opened(folder: Path, device: str) -> HuggingFace:
    model = load(folder, device, "fp32")
    assert isinstance(model, HuggingFace)
    return model


def require_same(found: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        if name == "gradients":  # of what all decoder blocks read, added up in another order
            assert (found[name] - value).abs().max() < 1e-5 * value.abs().max()
        else:
            assert torch.equal(found[name], value), name


@pytest.mark.parametrize("name", mostly([*LAYERS, *OTHERS], "gpt-neox", "t5-3-2"))
def test_a_pass_over_two_cards_is_that_on_one_device(
    name: str, folders: Callable[[str], Path]
) -> None:
    expected = passed(opened(folders(name), "cpu"))
    with card(2):
        model = opened(folders(name), BOTH)
        assert model.device == torch.device("cuda", 0)
        cards = {card_of(weight) for weight in model.net.parameters()}
        assert cards == {0, 1}, "both are used, and nothing is left on the host"
        require_same(passed(model), expected)


@pytest.mark.parametrize("name", mostly(LAYERS, "bert"))
def test_each_card_has_half_of_the_blocks(name: str, folders: Callable[[str], Path]) -> None:
    with card(2):
        net = opened(folders(name), BOTH).net
        sizes = [sum(w.numel() for w in net.parameters() if card_of(w) == c) for c in (0, 1)]
        tied = net.get_input_embeddings().weight.numel()
    assert abs(sizes[0] - sizes[1]) < tied + sum(sizes) / 12
    assert card_of(net.get_input_embeddings().weight) == 0


@pytest.mark.parametrize("name", mostly(["roberta", "mt5", *LAYERS], "roberta"))
def test_the_store_and_the_heads_are_those_of_one_device(
    name: str, folders: Callable[[str], Path], tmp_path: Path
) -> None:
    docs = list(read("primer:size=4").docs("train"))
    batch = encode(docs)
    asking = PassSettings(n_bootstrap=5, n_shuffles=5)
    stores: dict[str, dict[str, Tensor]] = {}
    for where in ("cuda:0", BOTH):
        with card(2):
            model = opened(folders(name), where)
            kept, _ = word_states(model, batch, tmp_path / where, kind="fp32", pieces=64)
            seen = look(model, batch, gold_of(docs, frequent=10), asking, pieces=64)
            found = {
                f"{stack} {layer}": store.layer(layer).clone()
                for stack, store in kept.items()
                for layer in range(store.description.layers + 1)
            }
            for kind in SUMS:
                for key, value in getattr(seen, kind).items():
                    found[f"{kind} {key}"] = on_cpu(value)
        stores[where] = found
    assert any(name.startswith("hits") for name in stores[BOTH])
    require_same(stores[BOTH], stores["cuda:0"])


def test_what_is_not_split_is_refused_by_name(folders: Callable[[str], Path]) -> None:
    assert {"albert", "xlnet", "bloom"}.isdisjoint(FAMILIES)
    with card(2):
        for name in ("albert", "xlnet"):
            with pytest.raises(WorkbenchError, match=name):
                load(folders(name), BOTH)
        with pytest.raises(WorkbenchError, match="whole-word"):
            load("mini:elmo", BOTH)
        for named in ("cuda:0,cuda:0", "cuda:0,cuda:2", "cuda,cpu"):
            with pytest.raises(WorkbenchError, match="GPUs"):
                load(folders("bert"), named)


def test_a_share_that_does_not_fit_its_card_is_refused(folders: Callable[[str], Path]) -> None:
    with card(2):
        net = opened(folders("bert"), BOTH).net
        sizes = [sum(4 * w.numel() for w in net.parameters() if card_of(w) == c) for c in (0, 1)]
    with card(2, free=max(sizes)):
        opened(folders("bert"), BOTH)
    with card(2, free=max(sizes) - 1), pytest.raises(WorkbenchError, match="shares"):
        load(folders("bert"), BOTH, "fp32")


def test_several_cards_are_refused_where_one_is_used() -> None:
    with card(2), pytest.raises(WorkbenchError, match="several") as caught:
        resolve_device(BOTH)
    assert "wb.load" in caught.value.remedy


@pytest.mark.parametrize(
    ("names", "wrong"),
    [
        ("cpu,cuda:0", "includes the cpu"),
        ("cuda:0,", "no device"),
        ("cuda:0,cuda:0", "does not name different"),
        ("cuda:0,cuda:7", "does not name different"),
        ("cuda,cuda:1", "does not name different"),
        ("", "no device"),
    ],
)
def test_a_wrong_list_of_devices_is_refused(names: str, wrong: str) -> None:
    for opened in (resolve_devices, resolve_device):
        with card(2), pytest.raises(WorkbenchError, match=wrong):
            opened(names)
