"""The tuned lens recovers a known map, and learns nothing where there is nothing to learn."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from transformers import GPT2Config, GPT2LMHeadModel

import workbench as wb
from tests.judges.odd import odd_corpus, run_here
from tests.minis import shared
from tests.models.headed import made
from tests.models.test_logits import HEADED
from tests.night import mostly
from tests.tiny import tiny_bert
from workbench import Result, WorkbenchError
from workbench.analyses.lenses.tuned_maps import Maps, Reader, maps_of
from workbench.engine.model import Model
from workbench.models.huggingface import HuggingFace
from workbench.models.interventions.head_replay import layer_logits, recorded_states

WIDTH, BLOCKS = 24, 2
CORPUS = odd_corpus({"train": 100, "dev": 15, "test": 25}, longest=20)
READ: dict[str, Any] = {
    "steps": 20,
    "batch_size": 16,
    "max_train": 60,
    "max_dev": 8,
    "max_test": 4,
}
OTHERS = ("bert", "elmo", "t5")  # of mini models
QUICK: dict[str, Any] = {"steps": 10, "batch_size": 8, "max_train": 20}


class Affine(nn.Module):
    """A block that returns a rotation of its input plus a vector."""

    def __init__(self, rotation: Tensor, offset: Tensor) -> None:
        super().__init__()
        self.rotation, self.offset = nn.Parameter(rotation), nn.Parameter(offset)

    def forward(self, hidden_states: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        return hidden_states @ self.rotation.T + self.offset


def planted(kind: str) -> HuggingFace:
    """A GPT-2 whose last block is a known affine map, or whose blocks are all the identity."""
    words = {token.text for split in CORPUS.splits for doc in CORPUS.docs(split) for token in doc}
    _, tokenizer = tiny_bert(sorted(words))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        net = GPT2LMHeadModel(
            GPT2Config(
                vocab_size=len(tokenizer), n_embd=WIDTH, n_layer=BLOCKS, n_head=2, n_positions=128,
                initializer_range=0.3, bos_token_id=None, eos_token_id=None,
            )
        )  # fmt: skip
        rotation = torch.linalg.qr(torch.randn(WIDTH, WIDTH))[0]
        offset = torch.randn(WIDTH)
    blocks = net.transformer.h
    if kind == "affine":
        blocks[-1] = Affine(rotation, offset)
    else:
        for block in blocks:
            for projection in (block.attn.c_proj, block.mlp.c_proj):
                nn.init.zeros_(projection.weight)
                nn.init.zeros_(projection.bias)
    net.eval()
    return HuggingFace(net, tokenizer, kind)


def losses(found: Result) -> dict[tuple[int, str], float]:
    rows = found.tables["layers"]
    return {
        (layer, lens): loss
        for layer, lens, loss in rows[["layer", "lens", "loss"]].itertuples(index=False)
    }


def test_a_known_affine_map_is_recovered_where_the_logit_lens_fails() -> None:
    model = planted("affine")
    found = run_here("tuned-lens", model, CORPUS, steps=400, batch_size=16, learning_rate=0.01)
    loss = losses(found)
    assert loss[1, "logit"] > 0.5
    assert loss[1, "tuned"] < 0.02 * loss[1, "logit"]
    assert loss[2, "logit"] == loss[2, "tuned"] == 0.0
    # on the states themselves: the mapped state is the last state, up to the final norm
    block = model.net.transformer.h[-1]
    states = torch.randn(50, WIDTH)
    norm = model.net.transformer.ln_f
    both = norm(maps_of(found, model)["decoder"](1, states)), norm(block(states))
    cosine = torch.nn.functional.cosine_similarity(*both, dim=-1)
    assert cosine.mean() > 0.9
    rows = found.tables["layers"].set_index(["layer", "lens"])
    assert rows.loc[(1, "tuned"), "agreement"] > 0.9 > rows.loc[(1, "logit"), "agreement"]


def test_where_blocks_change_nothing_no_map_is_learnt() -> None:
    found = run_here("tuned-lens", planted("identity"), CORPUS, **QUICK)
    assert all(abs(loss) < 1e-6 for loss in losses(found).values())
    for name, array in found.arrays.items():
        assert np.abs(array).max() < 1e-3, name
    assert found.tables["bias"]["bias"].max() < 1e-6
    assert not found.tables["gains"]["better"].any() or found.tables["gains"]["gain"].max() < 1e-6


@pytest.mark.parametrize(
    "name",
    mostly(("mini:bert", "mini:gpt", "mini:t5", "mini:elmo"), "mini:elmo"),
)
def test_tables_and_maps_are_of_one_kind_for_every_mini(name: str) -> None:
    model = shared(name)
    corpus = wb.read("primer:size=150")
    found = run_here("tuned-lens", model, corpus, **QUICK, max_dev=20, max_test=20)
    layers = found.tables["layers"]
    assert set(layers["stack"]) == {stack.name for stack in model.stacks}
    for stack in model.stacks:
        own = layers[layers["stack"] == stack.name]
        assert len(own) == 2 * (stack.layers + 1)
        assert (own[own["layer"] == stack.layers]["loss"] == 0).all()
    inside = (layers["lower"] <= layers["loss"] + 1e-9) & (layers["loss"] <= layers["upper"] + 1e-9)
    assert inside.all()
    # the divergence of means is at most the mean divergence (convexity)
    both = layers.merge(found.tables["bias"], on=["stack", "layer", "lens"])
    assert (both["bias"] <= both["loss"] + 1e-4).all()
    # no map is worse than none on dev, and the curve starts at the logit lens
    training = found.tables["training"]
    assert (training["dev_tuned"] <= training["dev_logit"]).all()
    curve = found.tables["curve"]
    first = curve[(curve["split"] == "dev") & (curve["step"] == 0)]["loss"].tolist()
    assert first == training["dev_logit"].tolist()
    maps = maps_of(found, model)
    assert [len(maps[stack.name].weight) for stack in model.stacks] == [
        stack.layers for stack in model.stacks
    ]


@pytest.mark.parametrize(
    "name",
    mostly((name for name in HEADED if name not in ("t5-6-12", "bart-12-6")), "bert", "t5-3-2"),
)
def test_every_family_with_a_head_learns_maps(name: str) -> None:
    model = made(name, HEADED[name], False)
    corpus = wb.read("primer:size=40")
    found = run_here(
        "tuned-lens", model, corpus, steps=2, batch_size=4, max_train=8, max_dev=4, max_test=4
    )
    last = found.tables["layers"].groupby("stack")["layer"].max().to_dict()
    assert last == {stack.name: stack.layers for stack in model.stacks}


def test_lenses_with_maps_are_those_of_the_replay() -> None:
    """Maps in `layer_logits` give what the experiment reads."""
    model = shared("mini:gpt")
    maps = Maps(0.05 * torch.randn(4, 1, 128, 128), 0.1 * torch.randn(4, 1, 128))
    reader = Reader.of(model)
    batch = wb.encode(wb.read("primer").docs("test", 3))
    with torch.no_grad():
        for predicted in reader.predictions(batch, range(3), 0):
            recorded = recorded_states(model, predicted.recorded.text)
            expected = layer_logits(model, recorded, predicted.mask, change=maps)
            found = reader.logits(predicted, "decoder", range(5), maps)
            torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-4)


def test_a_direction_of_elmo_never_reads_its_own_word() -> None:
    """A map of the state of one direction does not see the other one, which read the next word."""
    model = shared("mini:elmo")
    maps = Maps(torch.randn(2, 2, 128, 128), torch.randn(2, 2, 128))
    states = torch.randn(5, 256)
    other = states.clone()
    other[:, 128:] += 1
    assert torch.equal(maps(0, states)[:, :128], maps(0, other)[:, :128])
    assert Reader.of(model).groups == 2


def test_gold_words_of_elmo_are_the_next_and_the_previous_ones() -> None:
    model: Model = shared("mini:elmo")
    docs = list(wb.read("primer").docs("test", 1))
    (found,) = Reader.of(model).predictions(wb.encode(docs), [0], 0)
    words = [token.text for token in docs[0]]
    assert found.n_next == len(words) + 1 and len(found) == 2 * len(words) + 2
    known = [word if word in model.vocabulary else "<UNK>" for word in words]
    assert list(model.choice_texts(found.gold.tolist())) == [*known, "</S>", "<S>", *known]


def test_maps_of_another_model_are_refused() -> None:
    found = run_here("tuned-lens", planted("identity"), CORPUS, **QUICK)
    with pytest.raises(WorkbenchError, match="do not fit") as error:
        maps_of(found, shared("mini:gpt"))
    assert error.value.code == "model-mismatch"


@pytest.mark.parametrize(
    "name",
    ["mini:gpt", *(pytest.param(f"mini:{name}", marks=pytest.mark.slow) for name in OTHERS)],
)
def test_one_text_is_read_through_the_maps(name: str) -> None:
    """The last layer is the model's own, and the other layers are as near to it as in the run."""
    model = shared(name)
    found = run_here("tuned-lens", model, wb.read("primer:size=300"), **READ)
    doc = next(wb.read("primer").docs("test", 1))
    tuned, plain = wb.lens(model, doc, tuned=found), wb.lens(model, doc, sublayers=False)
    keys = ["place", "stack", "layer"]
    both = tuned.table.merge(plain.table, on=keys, suffixes=("_tuned", "_plain"))
    assert len(both) == len(tuned.table) == len(plain.table)
    last = both["layer"] == both.groupby("stack")["layer"].transform("max")
    assert both["kl_tuned"][last].max() < 1e-5
    assert both["kl_tuned"][~last].mean() < both["kl_plain"][~last].mean()


def test_maps_of_other_weights_are_refused() -> None:
    model = shared("mini:gpt")
    found = run_here("tuned-lens", model, wb.read("primer:size=300"), **{**READ, "steps": 1})
    with pytest.raises(WorkbenchError, match="other weights"):
        wb.lens(model.reinitialised(1), "Ben walks to the hill.", tuned=found)
