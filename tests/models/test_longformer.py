"""Longformer with global positions: states, maps as bands, gates and removed heads."""

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModel

import workbench as wb
from tests.models import zoo
from tests.models.test_attention import pieces
from workbench.models.head_removal import without


@pytest.fixture(scope="module", params=[0, 1, 3])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    path: Path = tmp_path_factory.mktemp("longformer")
    return zoo.make("longformer", path, attention_window=[8, 4], global_positions=request.param)


def test_it_reads_as_transformers_does_with_the_mask_of_its_config(folder: Path) -> None:
    model, plain = wb.load(str(folder), device="cpu"), AutoModel.from_pretrained(folder).eval()
    n_global = plain.config.global_positions
    assert [(site.window, site.n_global) for site in model.sites] == [(4, n_global), (2, n_global)]
    text = pieces(model, 3, 13, True)
    mask = torch.zeros_like(text.ids)
    mask[:, :n_global] = 1
    inputs: Any = {"input_ids": text.ids, "attention_mask": text.mask.long()}
    seen = wb.Capture()
    with torch.no_grad():
        found = model.forward(text, taps=[seen]).final["encoder"][text.mask]
        expected = plain(**inputs, global_attention_mask=mask).last_hidden_state[text.mask]
        local = plain(**inputs).last_hidden_state[text.mask]
    torch.testing.assert_close(found, expected)
    assert torch.allclose(found, local, atol=1e-4) == (n_global == 0)
    for site, (maps,) in seen.maps.items():
        place = torch.arange(13)
        near = (place[:, None] - place).abs() <= site.window
        near |= torch.minimum(place[:, None], place) < n_global
        shown = maps.transpose(1, 2)[text.mask]  # [real pieces, heads, pieces]
        real = (near & text.mask[:, None])[text.mask]
        assert ((shown > 0) == real[:, None]).all(), "all of the band, and nothing else"
        torch.testing.assert_close(shown.sum(-1), torch.ones_like(shown[..., 0]))


def test_maps_are_the_softmax_of_the_definition(folder: Path) -> None:
    """The first layer, whose states are the embeddings, one query at a time."""
    model: Any = wb.load(str(folder), device="cpu")
    text, seen = pieces(model, 1, 11, False), wb.Capture()
    with torch.no_grad():
        states = model.forward(text, taps=[seen]).hidden["encoder"][0][0]
        own = model.net.base_model.encoder.layer[0].attention.self
        site = model.sites[0]
        for query in range(11):
            ask, key = own.query, own.key
            if query < site.n_global:
                ask, key = own.query_global, own.key_global
            places = [
                k for k in range(11)
                if abs(k - query) <= site.window or min(k, query) < site.n_global
            ]  # fmt: skip
            for head in range(4):
                part = slice(8 * head, 8 * head + 8)
                scores = [ask(states[query])[part] @ key(states[k])[part] / 8**0.5 for k in places]
                expected = torch.zeros(11)
                expected[places] = torch.stack(scores).softmax(0)
                found = seen.maps[site][0][0, head, query]
                torch.testing.assert_close(found, expected, atol=1e-6, rtol=1e-5)


def test_removed_heads_are_gated_heads(folder: Path) -> None:
    model: Any = wb.load(str(folder), device="cpu")
    text = pieces(model, 3, 13, True)
    smaller = without(model, [(0, 1), (1, 2), (1, 3)])
    gates = torch.ones(2, 4)
    gates[0, 1] = gates[1, 2] = gates[1, 3] = 0
    seen, fewer = wb.Capture(), wb.Capture()
    with torch.no_grad():
        whole = model.forward(text, taps=[seen]).final["encoder"][text.mask]
        gated = model.forward(text, taps=[wb.Gate(gates)]).final["encoder"][text.mask]
        found = smaller.forward(text, taps=[fewer]).final["encoder"][text.mask]
    torch.testing.assert_close(found, gated, atol=1e-5, rtol=1e-5)
    assert not torch.allclose(found, whole, atol=1e-3)
    first, kept = seen.maps[model.sites[0]][0], fewer.maps[smaller.sites[0]][0]
    rows = text.mask[:, None, :, None]
    torch.testing.assert_close(kept * rows, first[:, [0, 2, 3]] * rows)
