"""A model without some heads is saved, and opens again as it was; what does not fit is refused."""

import json
from collections.abc import Callable
from itertools import product
from pathlib import Path
from shutil import copytree

import pytest
import torch

import workbench as wb
from tests.models import zoo
from tests.models.gated import sentences, shared
from tests.night import mostly
from workbench import WorkbenchError
from workbench.models.formats.pruned_checkpoint import MANIFEST, save
from workbench.models.head_removal import units, without
from workbench.models.huggingface import HuggingFace


def _pruned(name: str, emptied: bool = False) -> HuggingFace:
    """Without a third of its heads, or without any in its first layer."""
    model = shared(name)
    chosen = [u for u in units(model) if u.heads[0][0] == 0] if emptied else units(model)[::3]
    return without(model, [head for unit in chosen for head in unit.heads])


@pytest.mark.parametrize(
    ("name", "emptied"),
    mostly(
        product(zoo.NAMES, (False, True)),
        ("bert", False), ("gpt2", True), ("llama", False), ("xlnet", True), ("t5-3-2", False),
    ),
)  # fmt: skip
def test_it_opens_again_as_it_was(name: str, emptied: bool, tmp_path: Path) -> None:
    model = _pruned(name, emptied)
    save(model, tmp_path / "small")
    again = wb.load(str(tmp_path / "small"))
    assert isinstance(again, HuggingFace)
    text, last = model.encode(sentences(3)), model.stacks[-1].name
    with torch.no_grad():
        one, other = (m.forward(text, hidden=False).final[last] for m in (model, again))
    assert torch.equal(one, other)
    assert (again.sites, again.kept, again.parameters) == (
        model.sites, model.kept, model.parameters,
    )  # fmt: skip
    if not emptied:
        random = wb.load(str(tmp_path / "small") + "@random")
        assert random.parameters == model.parameters
        assert random.content_hash != model.content_hash


def test_a_model_with_a_head_of_tied_weights_opens_again(tmp_path: Path) -> None:
    model = wb.load("mini:bert")
    assert isinstance(model, HuggingFace)
    smaller = without(model, [(0, 0), (2, 1)])
    assert smaller.objective == "masked"
    save(smaller, tmp_path / "small")
    again = wb.load(str(tmp_path / "small"))
    text = smaller.encode(sentences(3))
    with torch.no_grad():
        one, other = (m.forward(text, logits=True).logits for m in (smaller, again))
    assert one is not None and other is not None and torch.equal(one, other)
    assert again.objective == "masked" and again.content_hash == smaller.content_hash


@pytest.mark.parametrize(("name", "is_plain"), [("llama", True), ("bert", False), ("t5", False)])
def test_where_layers_keep_equally_many_transformers_itself_may_open_it(
    name: str, is_plain: bool, tmp_path: Path
) -> None:
    from transformers import AutoModel

    model = shared(name)
    gone = [head for unit in units(model) if unit.heads[0][1] == 0 for head in unit.heads]
    smaller = without(model, gone)
    save(smaller, tmp_path / "small")
    assert json.loads((tmp_path / "small" / MANIFEST).read_text())["plain"] is is_plain
    if not is_plain:
        with pytest.raises(RuntimeError):
            AutoModel.from_pretrained(tmp_path / "small")
        return
    plain = HuggingFace(
        AutoModel.from_pretrained(tmp_path / "small").train(False), model.tokenizer, "plain"
    )
    text, last = model.encode(sentences(3)), model.stacks[-1].name
    with torch.no_grad():
        one, other = (m.forward(text, hidden=False).final[last] for m in (smaller, plain))
    assert torch.allclose(one, other, atol=1e-6)


@pytest.fixture(scope="module")
def small_bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("small")
    save(without(shared("bert"), [(0, 0), (0, 3)]), folder)
    return folder


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda content: content["sites"][0]["kept"].append(3), "by the manifest"),
        (lambda content: content["sites"][0].update(kept=[2, 1]), "not in order"),
        (lambda content: content["sites"][0].update(kept=[1, 9]), r"the heads \[1, 9\] of 4"),
        (lambda content: content["sites"][0].update(kept=[0, 1]), "written with other weights"),
        (lambda content: content["sites"][0].pop("stack"), "no stack"),
        (lambda content: content["sites"][0].pop("layer"), "no layer"),
        (lambda content: content.pop("plain"), "plain"),
        (lambda content: content.update(plain="yes"), "incomplete"),
        (lambda content: content.pop("check"), "check"),
        (lambda content: content["sites"][0].update(of=7), "other layers or heads"),
        (lambda content: content["sites"].pop(), "other layers or heads"),
        (lambda content: content.update(version=9), "version"),
        (lambda content: content.pop("sites"), "sites"),
    ],
)
def test_a_manifest_that_does_not_fit_is_refused(
    change: Callable[[dict], object],  # type: ignore[type-arg]
    said: str,
    small_bert: Path,
    tmp_path: Path,
) -> None:
    copytree(small_bert, tmp_path, dirs_exist_ok=True)
    content = json.loads((tmp_path / MANIFEST).read_text())
    change(content)
    (tmp_path / MANIFEST).write_text(json.dumps(content))
    with pytest.raises(WorkbenchError, match=said):
        wb.load(str(tmp_path))


def test_a_broken_manifest_is_refused(tmp_path: Path) -> None:
    save(_pruned("bert"), tmp_path)
    (tmp_path / MANIFEST).write_text("{")
    with pytest.raises(WorkbenchError, match="cannot be read"):
        wb.load(str(tmp_path))


def test_models_that_kept_other_heads_are_other_models() -> None:
    """Of T5 the biases of positions follow from which heads they are, not from any weight."""
    model = shared("t5")
    one = without(model, [(0, 0)])
    hashed = one.content_hash
    two = without(model, [(0, 0)])
    assert two.content_hash == hashed
    two.kept = {**two.kept, 0: (0, *two.kept[0][1:])}
    del two.__dict__["content_hash"]
    assert two.content_hash != hashed
