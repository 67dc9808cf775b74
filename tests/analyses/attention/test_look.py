"""A look holds what the model did, once: against eager attention, and with its own arithmetic."""

import resource
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from spacy.tokens import Doc

from tests.models import zoo
from tests.night import mostly
from workbench import Capture, Model, WorkbenchError, encode, load
from workbench.analyses.attention import capture as looking
from workbench.analyses.attention.capture import CACHE, AttentionMaps, attention, passes
from workbench.corpora.layers import vocabulary

Models = Callable[[str], Model]
OWN_WAY = ("xlnet", "openai-gpt", "deberta-v2", "longformer", "bloom")
INTERFACE = [name for name in zoo.NAMES if name not in OWN_WAY]


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    CACHE.clear()
    yield
    CACHE.clear()


def captured(model: Model, doc: Doc) -> list[np.ndarray]:
    tap = Capture()
    with torch.no_grad():
        model.forward(model.encode(encode([doc])), taps=[tap], hidden=False)
    return [tap.maps[site][0][0].numpy() for site in model.sites]


@pytest.mark.parametrize(
    "name", mostly(zoo.NAMES, "bert", "gpt2", "t5-3-2", "xlnet", "longformer", "llama")
)
def test_maps_are_those_of_the_engine(model: Models, doc: Doc, name: str) -> None:
    found = attention(model(name), doc)
    expected = captured(model(name), doc)
    assert list(found.maps) == list(model(name).sites)
    for mine, theirs in zip(found.maps.values(), expected, strict=True):
        np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize("name", INTERFACE)
def test_scores_make_the_maps(model: Models, doc: Doc, name: str) -> None:
    """softmax(scale * query . key + bias) over what may be seen is the map, to 1e-5."""
    found = attention(model(name), doc)
    for site, maps in found.maps.items():
        made = found.scores[site]
        key = made.key.repeat(site.heads // site.groups, axis=0)  # [heads, keys, width]
        scores = made.scale * np.einsum("hqw,hkw->hqk", made.query, key).astype(np.float64)
        if made.bias is not None:
            scores += made.bias
        scores[maps == 0] = -np.inf  # masked
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        np.testing.assert_allclose(weights / weights.sum(-1, keepdims=True), maps, atol=1e-5)


@pytest.mark.parametrize("name", INTERFACE)
def test_norms_are_of_each_value_through_its_slice(model: Models, doc: Doc, name: str) -> None:
    """One head alone, by a gate: what it adds is bounded by its weights times the norms; and where
    a row has all its weight on one place, it is that."""
    found = attention(model(name), doc)
    assert set(found.norms) == set(found.maps)
    for site, norms in found.norms.items():
        assert norms.shape == (site.heads, found.maps[site].shape[-1])
        assert (norms > 0).all()


def test_norms_of_bert_by_hand(model: Models, doc: Doc) -> None:
    bert = model("bert")
    found = attention(bert, doc)
    site = bert.sites[0]
    net = bert.net.base_model
    with torch.no_grad():
        text = bert.encode(encode([doc]))
        states = net.embeddings(text.ids, text.segments)[0]  # [pieces, width]
        layer = net.encoder.layer[0].attention
        value = layer.self.value(states).unflatten(-1, (site.heads, -1))  # [pieces, heads, w]
        weight = layer.output.dense.weight.T.unflatten(0, (site.heads, -1))  # [heads, w, width]
        norms = torch.einsum("phw,hwd->hpd", value, weight).norm(dim=-1)
    np.testing.assert_allclose(found.norms[site], norms.numpy(), rtol=1e-5)


@pytest.mark.parametrize("name", OWN_WAY)
def test_families_that_show_no_values_have_no_norms(model: Models, doc: Doc, name: str) -> None:
    found = attention(model(name), doc)
    assert not found.norms
    assert not found.scores


def test_the_same_text_is_looked_at_once(model: Models, doc: Doc) -> None:
    before = passes()
    first = attention(model("bert"), doc)
    assert attention(model("bert"), doc).maps is first.maps
    assert passes() == before + 1
    attention(model("gpt2"), doc)
    assert passes() == before + 2


def test_other_weights_under_the_same_name_are_another_look(tmp_path_factory, doc: Doc) -> None:
    folder = zoo.make("bert", tmp_path_factory.mktemp("one"))
    first = attention(load(folder, device="cpu"), doc)
    net = load(folder, device="cpu").net
    with torch.no_grad():
        next(net.parameters()).add_(0.1)
    net.save_pretrained(folder)
    second = attention(load(folder, device="cpu"), doc)
    assert first.id != second.id


def test_what_the_decoder_writes_is_another_text(model: Models, doc: Doc) -> None:
    other = Doc(vocabulary("en"), words=["Mary", "sees", "."])
    found = attention(model("t5"), doc, other)
    cross = next(site for site in found.maps if site.kind == "cross")
    assert found.queries(cross).words == ("Mary", "sees", ".")
    assert found.keys(cross).words == tuple(token.text for token in doc)
    assert found.maps[cross].shape[1:] == (
        len(found.texts["decoder"].pieces),
        len(found.texts["encoder"].pieces),
    )


def test_models_without_attention_say_so(doc: Doc) -> None:
    with pytest.raises(WorkbenchError, match="no-attention"):
        attention(load("mini:elmo"), doc)


def test_what_would_not_fit_is_refused_before_it_runs(
    model: Models, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(looking, "MAX_BYTES", 10_000)
    before = passes()
    with pytest.raises(WorkbenchError, match="text-too-long"):
        attention(model("bert"), Doc(vocabulary("en"), words=["dog"] * 60))
    assert passes() == before


def test_an_empty_text_is_refused(model: Models) -> None:
    with pytest.raises(WorkbenchError, match="text-empty"):
        attention(model("gpt2"), Doc(vocabulary("en"), words=[]))


def test_pieces_are_written_as_people_read_them(model: Models) -> None:
    text = Doc(vocabulary("en"), words=["naïve", "dogs"])
    for name in ("bert", "gpt2", "t5", "roberta"):
        found: AttentionMaps = attention(model(name), text)
        stack = next(iter(found.texts))
        shown = "".join(
            piece
            for piece, special in zip(
                found.texts[stack].pieces, found.texts[stack].special, strict=True
            )
            if not special
        )
        assert "Ġ" not in shown and "Ã" not in shown, shown


def test_fifty_texts_leave_the_process_as_large_as_fifteen(
    model: Models, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Looks and overviews as the page makes them, 120 words each: what is let go of is freed."""
    from workbench.analyses.attention.browser import scene
    from workbench.analyses.attention.grids import Options

    monkeypatch.setattr(CACHE, "max_bytes", 4 << 20)
    monkeypatch.setattr(scene.CACHE, "max_bytes", 1 << 20)

    def held() -> int:  # bytes
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()

    sizes = []
    for number in range(50):
        text = Doc(vocabulary("en"), words=[f"w{number}", "sees", "the", "dog"] * 30)
        seen = attention(model("bert"), text)
        scene.side_of(seen, ("encoder", "self"), Options(), text)
        sizes.append(held())
        assert CACHE.size <= 4 << 20
    assert len(CACHE) > 1
    assert max(sizes[15:]) - sizes[15] < 16 << 20


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_hundred_texts_leave_the_gpu_as_it_was(model: Models) -> None:
    on_gpu = load(model("bert").name, device="cuda")
    attention(on_gpu, Doc(vocabulary("en"), words=["dog"] * 60))
    before = torch.cuda.memory_allocated()
    for number in range(100):
        attention(on_gpu, Doc(vocabulary("en"), words=[f"w{number}", "sees", "the", "dog"] * 15))
    assert torch.cuda.memory_allocated() == before
