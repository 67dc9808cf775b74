"""Means of an edit: those of a whole pass over the texts, computed once and no deeper."""

from itertools import product

import pytest
import torch

import workbench as wb
from tests.night import mostly
from workbench.engine.batch import of_texts
from workbench.models.interventions import edited

TEXTS = ("Birds sing.", "The cats near the dog are happy.", "She gave him a book and a pen.")
LOOKED_FOR = 4  # pieces in the passes that find the parts of a model
SITES = {
    "mini:gpt": ["head 4.2", "head 1.3", "block 2 mlp", "neuron 3.45"],
    "mini:t5": ["head 2.2", "decoder head 2.1", "cross-attention head 1.3", "decoder block 1 mlp"],
}


@pytest.mark.parametrize("name", SITES)
def test_means_are_those_of_a_whole_pass_to_the_last_digit(name: str) -> None:
    model, read = wb.load(name, device="cpu"), wb.Read(SITES[name])
    wb.forward(model, of_texts(TEXTS), taps=[read], hidden=False)
    found = edited._means(model, SITES[name], TEXTS)
    for site in SITES[name]:
        assert torch.equal(found[site], torch.cat(read[site]).double().mean(0).float()), site


def test_a_pass_ends_at_the_layer_of_the_head_and_has_all_heads_below(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(edited, "_MEANS", {})
    model = wb.load("mini:gpt", device="cpu").copy()
    layers: set[int] = set()

    def note(block: torch.nn.Module, args: tuple[torch.Tensor, ...]) -> None:
        if args[0].shape[:2].numel() > LOOKED_FOR:
            layers.add(int(block.layer_idx) + 1)

    for block in model.net.transformer.h:
        block.attn.register_forward_pre_hook(note)

    def computed(head: str) -> set[int]:
        layers.clear()
        assert edited._means(model, [f"head {head}"], TEXTS).keys() == {f"head {head}"}
        return {*layers}

    assert computed("3.2") == {1, 2, 3}
    assert not computed("2.4") and not computed("3.1"), "known from the pass for layer 3"
    assert computed("4.1") == {1, 2, 3, 4}


TERMS = {"2.attention": "block 2 attention", "2.mlp": "block 2 mlp", "2.1": "head 2.1"}


@pytest.mark.parametrize(
    ("ref", "term"),
    mostly(
        product(("mini:bert", "mini:gpt", "mini:t5", "mini:xlnet"), TERMS),
        ("mini:bert", "2.mlp"),
        ("mini:gpt", "2.attention"),
        ("mini:xlnet", "2.1"),
    ),
)
def test_what_is_read_of_an_edited_model_has_the_edit(ref: str, term: str) -> None:
    site = TERMS[term]
    model = wb.load(ref, device="cpu")
    batch = wb.encode(wb.read("primer").docs("test", 2))
    found = []
    for edit in ("", "=0", "=2"):
        read = wb.Read(site)
        own = model.edited(term + edit) if edit else model
        wb.forward(own, batch, taps=[read])
        found.append(read[site][0])
    plain, off, double = found
    assert plain.abs().max() > 1e-3 and not off.any()
    assert torch.equal(double, 2 * plain)
