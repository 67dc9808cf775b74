"""ELMo and static vectors behind the same contract as every other model."""

from pathlib import Path

import pytest
import torch

from tests.models.stores import stored
from workbench import Capture, Gate, WorkbenchError, encode, forward, read
from workbench.engine.batch import Batch
from workbench.models.elmo import Elmo, ElmoOptions
from workbench.models.loading import load

SMALL = ElmoOptions(filters=((1, 4), (2, 4)), highways=1, cells=8, width=6, character_width=4)


@pytest.fixture(scope="module")
def elmo_ref(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("elmo")
    Elmo.random(SMALL, seed=3).save_original(folder)
    return f"elmo:{folder}/options.json,{folder}/weights.hdf5"


@pytest.fixture(scope="module")
def vectors_ref(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("vectors") / "small.txt"
    path.write_text("the 1 0 2\nold 0 1 0\n. 3 3 3\n")
    return f"vectors:{path}"


@pytest.fixture(scope="module")
def batch() -> Batch:
    return encode(read("primer:size=40").docs("train"))


def test_elmo_has_three_layers_of_the_words_it_reads(elmo_ref: str, batch: Batch) -> None:
    model = load(elmo_ref, "cpu")
    text = model.encode(batch, [3, 0])
    with torch.no_grad():
        hidden = model.forward(text).hidden["encoder"]
    assert [tuple(states.shape) for states in hidden] == [(2, text.ids.shape[1], 12)] * 3
    raw = batch.text_of(3)
    words = [raw[a:b] for a, b in batch.words_of(3)]
    options, weights = (Path(part) for part in elmo_ref.removeprefix("elmo:").split(","))
    with torch.no_grad():
        alone, _ = Elmo.from_original(options, weights)([words])
    for states, expected in zip(hidden, alone, strict=True):
        torch.testing.assert_close(states[0, : len(words)], expected[0], atol=1e-6, rtol=1e-5)


def test_vectors_have_one_layer_and_zeros_for_what_they_do_not_know(vectors_ref: str) -> None:
    model = load(vectors_ref, "cpu")
    docs = list(read("primer:size=5").docs("train"))
    (states,) = model.forward(model.encode(encode(docs))).hidden["encoder"]
    for row, doc in enumerate(docs):
        for token in doc:
            expected = {"the": [1, 0, 2], "old": [0, 1, 0], ".": [3, 3, 3]}.get(
                token.lower_, [0] * 3
            )
            assert states[row, token.i].tolist() == expected


def test_asking_a_model_without_heads_for_attention_is_a_clear_error(
    elmo_ref: str, vectors_ref: str, batch: Batch
) -> None:
    for ref in (elmo_ref, vectors_ref):
        model = load(ref, "cpu")
        text = model.encode(batch, [0])
        assert model.sites == ()
        assert model.stacks[0].heads == 0
        for tap in (Capture(), Gate(torch.ones(1, 1))):
            with pytest.raises(WorkbenchError, match="has no attention heads"):
                model.forward(text, taps=[tap])
        with pytest.raises(WorkbenchError, match="returns states of words only"):
            model.forward(text, head_mask=None)  # type: ignore[call-arg]


def test_they_pass_over_a_corpus_and_into_a_store(
    elmo_ref: str, batch: Batch, tmp_path: Path
) -> None:
    model = load(elmo_ref, "cpu")
    report = forward(model, batch)
    assert report.pieces == report.words == len(batch.words)
    store, _ = stored(model, batch, tmp_path, kind="fp32")
    assert store.layer(2).shape == (len(batch.words), 12)
    assert not store.missing.any()


def test_fresh_weights_keep_the_shape(elmo_ref: str, vectors_ref: str) -> None:
    for ref in (elmo_ref, vectors_ref):
        trained, fresh = load(ref, "cpu"), load(f"{ref}@random", "cpu")
        assert trained.stacks == fresh.stacks
        assert trained.content_hash != fresh.content_hash
        assert trained.content_hash == load(ref, "cpu").content_hash


def test_half_precision_is_refused(elmo_ref: str) -> None:
    with pytest.raises(WorkbenchError, match="fp32 only"):
        load(elmo_ref, "cpu", "bf16")
