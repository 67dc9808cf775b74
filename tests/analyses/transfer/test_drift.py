"""What changed is told where it changed, and what did not change is exactly as it was.

One block's weights are moved and nothing else: below it states are those of before, its own weights
alone have moved. Maps and losses are recomputed plainly, a text at a time.
"""

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.spatial.distance import jensenshannon
from torch.nn.functional import cross_entropy

import workbench as wb
from tests.analyses.heads.conftest import Silent
from tests.judges.in_process import Asking
from tests.judges.in_process import run as here
from tests.minis import shared
from tests.models import headed, zoo
from tests.night import mostly
from workbench import Capture, Corpus, Model, Result, WorkbenchError, encode, load
from workbench.analyses.transfer import drift as attention_change
from workbench.analyses.transfer.drift import run
from workbench.analyses.transfer.experiments import DRIFT, Drift
from workbench.drawing.sanitize import harmless
from workbench.experiment import Inputs
from workbench.models.huggingface import HuggingFace
from workbench.models.scoring.lm_scoring import measures, score
from workbench.models.word_models import Vectors

LAYER = ["stack", "layer"]
NUMBERS = ["cka", "procrustes", "weight_distance", "attention_js", "probing_delta"]


@cache
def corpus() -> Corpus:
    docs = list(wb.read("primer:size=200").docs("train", 20))
    return Corpus("stories", {"train": lambda: iter(docs)})


def changed(before: Model, after: Model, max_sentences: int = 20, **asked: Any) -> Result:
    inputs = Inputs((before, after), (corpus(),), "train", limit=max_sentences)
    return run(inputs, Drift(max_sentences=max_sentences, **asked), Silent())


def by_layer(result: Result, column: str) -> dict[tuple[str, int], float]:
    return dict(result.tables["drift"].set_index(LAYER)[column])  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Any:
    home = tmp_path_factory.mktemp("zoo")
    return lambda name: home / name if (home / name).is_dir() else zoo.make(name, home / name)


@pytest.fixture(scope="module")
def whole(folders: Any) -> Callable[[str], Model]:
    """A model by its name, opened once: no test changes it, but a copy of it."""
    return cache(lambda name: load(name if name.startswith("mini:") else folders(name), "cpu"))


def moved(model: Model, stack: str, layer: int, size: float = 0.3) -> Model:
    """The model with the weights of one block moved."""
    named, places = model.named_weights(), model.weight_places()
    chosen = [name for name, at in places.items() if (at.stack, at.layer) == (stack, layer)]
    assert chosen
    with torch.no_grad():
        for number, name in enumerate(chosen):
            drawn = torch.Generator().manual_seed(number)
            named[name].add_(size * torch.randn(named[name].shape, generator=drawn))
    return model


# --- nothing changed ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", mostly(["mini:bert", "mini:gpt", "mini:elmo", "mini:t5"], "mini:elmo", "mini:t5")
)
def test_a_model_that_was_not_trained_has_not_changed(
    name: str, whole: Callable[[str], Model]
) -> None:
    result = changed(whole(name), whole(name).copy(), max_sentences=8)
    table = result.tables["drift"]
    assert list(table.columns) == [*LAYER, *NUMBERS, "n"]
    np.testing.assert_allclose(table["cka"], 1, atol=1e-9)
    np.testing.assert_allclose(table["procrustes"], 0, atol=1e-9)
    assert (table["weight_distance"].dropna() == 0).all() and table["weight_distance"].notna().any()
    assert (result.tables["modules"]["weight_distance"] == 0).all()
    assert (result.tables["losses"][["change", "lower", "upper"]] == 0).all(axis=None)
    assert table["probing_delta"].isna().all(), "nobody asked"
    if name == "mini:elmo":
        assert "heads" not in result.tables and table["attention_js"].isna().all()
        assert any("has no attention" in caveat.text for caveat in result.caveats)
    else:
        assert (result.tables["heads"][["attention_js", "lower", "upper"]] == 0).all(axis=None)
        first = table["layer"] == 0
        assert table.loc[first, "attention_js"].isna().all()
        assert (table.loc[~first, "attention_js"] == 0).all()


# --- one block changed ----------------------------------------------------------------------------

BLOCKS = [
    *(pytest.param("bert", "encoder", layer, marks=pytest.mark.slow) for layer in (1, 2)),
    pytest.param("gpt2", "decoder", 1, marks=pytest.mark.slow),
    ("gpt2", "decoder", 2),
    pytest.param("llama", "decoder", 2, marks=pytest.mark.slow),
    pytest.param("t5", "encoder", 2, marks=pytest.mark.slow),
    pytest.param("t5", "decoder", 2, marks=pytest.mark.slow),
    ("bart", "encoder", 1),
    ("mini:elmo", "encoder", 1),
    pytest.param("mini:elmo", "encoder", 2, marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("name", "stack", "layer"), BLOCKS)
def test_drift_begins_where_weights_moved(
    whole: Callable[[str], Model], name: str, stack: str, layer: int
) -> None:
    result = changed(whole(name), moved(whole(name).copy(), stack, layer))
    cka, weights = by_layer(result, "cka"), by_layer(result, "weight_distance")
    procrustes, attention = by_layer(result, "procrustes"), by_layer(result, "attention_js")
    for at, value in cka.items():
        is_above = at[0] == stack and at[1] >= layer
        reads_it = at[0] == "decoder" and stack == "encoder" and at[1] > 0  # through cross heads
        if is_above or reads_it:
            assert value < 1 - 1e-4 and procrustes[at] > 1e-5, at
            assert np.isnan(attention[at]) or attention[at] > 0
        else:
            assert value == pytest.approx(1, abs=1e-9), at
            assert procrustes[at] == pytest.approx(0, abs=1e-9)
            assert np.isnan(attention[at]) or attention[at] == 0, at
    told = {at: value for at, value in weights.items() if not np.isnan(value)}
    assert told.pop((stack, layer)) > 0.01
    assert not any(told.values())
    rows = result.tables["modules"].query("weight_distance > 0")
    assert set(zip(rows["stack"], rows["layer"], strict=True)) == {(stack, layer)}


def test_distances_of_modules_are_those_of_their_weights(whole: Callable[[str], Model]) -> None:
    before = whole("bert")
    after = moved(before.copy(), "encoder", 2)
    assert isinstance(before, HuggingFace) and isinstance(after, HuggingFace)
    result = changed(before, after)
    found = result.tables["modules"].set_index([*LAYER, "module"])
    one, other = before.net.state_dict(), after.net.state_dict()
    name = "encoder.layer.1.attention.self.query"
    old, new = (torch.cat([side[f"{name}.{kind}"].flatten() for kind in ("weight", "bias")])
                for side in (one, other))  # fmt: skip
    row = found.loc[("encoder", 2, "attention.self.query")]
    assert row["weight_distance"] == pytest.approx(float((new - old).norm() / old.norm()))
    assert row["norm_before"] == pytest.approx(float(old.norm())) and row["parameters"] == len(old)
    assert found["parameters"].sum() == before.parameters


def test_layers_that_share_weights_have_a_distance_where_these_come_first(
    whole: Callable[[str], Model],
) -> None:
    result = changed(whole("albert"), moved(whole("albert").copy(), "encoder", 1))
    weights = by_layer(result, "weight_distance")
    assert weights["encoder", 0] == 0 and weights["encoder", 1] > 0
    assert np.isnan([weights["encoder", layer] for layer in (2, 3)]).all(), "not 0"


def test_static_vectors_have_one_layer(tmp_path: Path) -> None:
    words = sorted({token.text for doc in corpus() for token in doc})
    drawn = torch.Generator().manual_seed(0)
    table = torch.randn(len(words), 8, generator=drawn)
    Vectors(words, table).save(tmp_path / "before")
    Vectors(words, table * 3).save(tmp_path / "after")
    Vectors([f"{word}s" for word in words], table).save(tmp_path / "other")
    before = load(tmp_path / "before", "cpu")
    result = changed(before, load(tmp_path / "after", "cpu"))
    (row,) = result.tables["drift"].to_dict("records")
    assert row["cka"] == pytest.approx(1) and row["procrustes"] == pytest.approx(0, abs=1e-9)
    assert row["weight_distance"] == pytest.approx(2) and np.isnan(row["attention_js"])
    assert {"heads", "losses"}.isdisjoint(result.tables)
    other = changed(before, load(tmp_path / "other", "cpu"))
    assert any("vocabularies differ" in caveat.text for caveat in other.caveats)


# --- attention ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "room"),
    [
        ("t5", 2**28),
        ("bert", 1),
        *(pytest.param(name, 2**28, marks=pytest.mark.slow) for name in ("bert", "gpt2", "xlnet")),
        *(pytest.param(name, 1, marks=pytest.mark.slow) for name in ("gpt2", "t5", "xlnet")),
    ],
)
def test_attention_is_compared_as_one_would_by_hand(
    whole: Callable[[str], Model], name: str, room: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """scipy's distance of every row of every text, however many texts there is room for."""
    monkeypatch.setattr(attention_change, "MAPS", room)
    before = whole(name)
    after = moved(before.copy(), before.stacks[0].name, 1)
    result = changed(before, after, max_sentences=4)
    found = result.tables["heads"].set_index([*LAYER[:1], "kind", "layer", "head"])
    batch = encode(corpus().docs("train", 4))
    apart: dict[tuple[Any, ...], list[float]] = {}
    for document in range(len(batch)):
        text = before.encode(batch, [document])
        one, other = Capture(), Capture()
        with torch.no_grad():
            output = before.forward(text, taps=[one])
            after.forward(text, taps=[other])
        for site, (maps,) in one.maps.items():
            special = output.texts[site.stack].special[0]
            for head in range(site.heads):
                rows = zip(maps[0, head], other.maps[site][0][0, head], special, strict=True)
                apart.setdefault((site.stack, site.kind, site.layer, head), []).extend(
                    jensenshannon(p.double(), q.double(), base=2) ** 2
                    for p, q, left_out in rows
                    if not left_out
                )
    assert set(apart) == set(found.index)
    for key, values in apart.items():
        assert found.loc[key, "attention_js"] == pytest.approx(np.mean(values), abs=1e-6)
        assert found.loc[key, "n"] == len(values)
    assert (found["lower"] <= found["attention_js"] + 1e-12).all()
    assert (found["attention_js"] <= found["upper"] + 1e-12).all()
    drift = by_layer(result, "attention_js")
    means = found.groupby(["stack", "layer"])["attention_js"].mean()
    for (stack, layer), value in means.items():  # type: ignore[misc]
        assert drift[stack, layer + 1] == pytest.approx(value)


def test_rows_with_nothing_in_common_are_a_bit_apart() -> None:
    one = torch.tensor([[1.0, 0.0], [0.5, 0.5], [1.0, 0.0]])
    other = torch.tensor([[0.0, 1.0], [0.5, 0.5], [0.5, 0.5]])
    found = attention_change.divergence(one, other)
    assert found.tolist() == pytest.approx([1, 0, 1.5 - 0.75 * np.log2(3)])


def test_other_pieces_leave_attention_out_and_say_so(whole: Callable[[str], Model]) -> None:
    result = changed(whole("bert"), whole("bert-cased"))
    assert "heads" not in result.tables
    assert result.tables["drift"]["attention_js"].isna().all()
    assert any("different pieces" in caveat.text for caveat in result.caveats)


# --- forgetting -----------------------------------------------------------------------------------


def plain_loss(model: HuggingFace, documents: int) -> tuple[float, int]:
    """Of a causal model, a text at a time: nats a piece, and pieces."""
    batch = encode(corpus().docs("train", documents))
    nats, pieces = 0.0, 0
    for document in range(len(batch)):
        ids = model.encode(batch, [document]).ids[0]
        with torch.no_grad():
            logits = model.net(ids[None]).logits[0]
        nats += float(cross_entropy(logits[:-1].double(), ids[1:], reduction="sum"))
        pieces += len(ids) - 1
    return nats / pieces, pieces


def test_forgetting_is_the_loss_after_less_that_before(whole: Callable[[str], Model]) -> None:
    before = whole("mini:gpt")
    after = moved(before.copy(), "decoder", 4)
    assert isinstance(before, HuggingFace) and isinstance(after, HuggingFace)
    row = changed(before, after).tables["losses"].set_index("metric").loc["loss"]
    (old, number), (new, _) = plain_loss(before, 20), plain_loss(after, 20)
    assert row["before"] == pytest.approx(old, abs=1e-4)
    assert row["after"] == pytest.approx(new, abs=1e-4)
    assert row["change"] == pytest.approx(new - old, abs=1e-4) and new > old
    assert row["n"] == number and row["lower"] < row["change"] < row["upper"]


@pytest.mark.parametrize("name", mostly(["mini:bert", "mini:elmo", "mini:t5"], "mini:t5"))
def test_every_objective_has_its_losses(name: str, whole: Callable[[str], Model]) -> None:
    before, after = whole(name), wb.load(f"{name}@random")
    found = changed(before, after, max_sentences=8).tables["losses"].set_index("metric")
    batch = encode(corpus().docs("train", 8))
    for column, model in (("before", before), ("after", after)):
        for metric, (value, number) in measures(score(model, batch), model.objective).items():
            if metric in found.index:
                assert found.loc[metric, column] == pytest.approx(value)
                assert found.loc[metric, "n"] == number
    assert len(found) == 3 and not found.isna().any(axis=None)
    inside = (found["lower"] <= found["change"]) & (found["change"] <= found["upper"])
    assert inside.all()


def test_without_a_head_there_is_no_forgetting_and_the_head_is_left_out(
    whole: Callable[[str], Model], folders: Any, tmp_path: Path
) -> None:
    """A body and the same with a head are one architecture, whatever their weights are called."""
    body = whole("bert")
    with_head = headed.opened(headed.saved(folders("bert"), "BertForMaskedLM", tmp_path / "masked"))
    result = changed(body, with_head)
    assert "losses" not in result.tables
    texts = [caveat.text for caveat in result.caveats]
    assert any("no language-model head" in text and "not measured" in text for text in texts)
    assert any("cls.predictions" in text for text in texts)
    assert {0, 1, 2} <= set(result.tables["modules"]["layer"])
    same = changed(with_head, with_head)
    assert "losses" in same.tables


# --- what cannot be compared ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after"),
    [("bert", "gpt2"), ("bert", "distilbert"), ("t5", "bart"), ("bert", "mini:elmo")],
)
def test_other_architectures_are_for_similarity(
    whole: Callable[[str], Model], before: str, after: str
) -> None:
    with pytest.raises(WorkbenchError, match=r"same architecture(.|\n)*similarity"):
        changed(whole(before), whole(after))


def test_other_sizes_are_other_architectures(whole: Callable[[str], Model], tmp_path: Path) -> None:
    before = whole("bert")
    sizes: Sequence[dict[str, int]] = [
        {"num_hidden_layers": 3},
        {"num_attention_heads": 2},
        {"intermediate_size": 48},
    ]
    for number, size in enumerate(sizes):
        after = load(zoo.make("bert", tmp_path / str(number), **size), "cpu")
        with pytest.raises(WorkbenchError, match="same architecture"):
            changed(before, after)


# --- asked of others ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def asking() -> Asking:
    return Asking()


@pytest.fixture(scope="module")
def asked(asking: Asking, whole: Callable[[str], Model]) -> Result:
    sizes = {"max_train": 12, "max_dev": 6, "max_test": 30}
    settings = {
        "compare_roles": True,
        "compare_probing": True,
        **sizes,
        "tasks": ["pos"],
        "max_sentences": 8,
    }
    pair = [whole("mini:bert"), shared("mini:bert@random")]
    return here("drift", pair, [wb.read("primer:size=300")], asking=asking, **settings)


def test_roles_are_those_that_heads_tells(asked: Result, asking: Asking) -> None:
    found = asked.tables["heads"]
    told = [each.tables["heads"] for each in asking.answers if each.name.startswith("heads")]
    assert [each.experiment for each in asking.questions].count("heads") == 2
    for own, side in zip(told, ("before", "after"), strict=True):
        assert list(found[f"role_{side}"]) == list(own["role"])
        sign = 1 if side == "after" else -1
        found = found.assign(
            confidence_change=found["confidence_change"] - sign * own["confidence"]
        )
    np.testing.assert_allclose(found["confidence_change"], 0, atol=1e-12)


def test_probing_is_what_edge_probing_tells(asked: Result) -> None:
    table = asked.tables["probing"]
    assert list(table.columns) == [
        "task", *LAYER, "metric", "before", "after", "delta", "lower", "upper", "p_value",
    ]  # fmt: skip
    assert ((table["lower"] < table["delta"]) & (table["delta"] < table["upper"])).all()
    assert list(table["layer"]) == [0, 1, 2, 3, 4] and set(table["task"]) == {"pos"}
    drift = asked.tables["drift"].set_index(LAYER)["probing_delta"]
    for row in table.to_dict("records"):
        assert row["delta"] == pytest.approx(row["after"] - row["before"])
        assert drift[row["stack"], row["layer"]] == pytest.approx(row["delta"])
    assert (table["delta"] < 0).all(), "fresh weights know less"


def test_every_figure_is_drawn(asked: Result) -> None:
    tables: dict[str, pd.DataFrame] = {name: asked.tables[name] for name in asked.tables}
    rows = [
        ("none", -1, 0.9, 0.0, 1.0),
        ("encoder", 0, 0.8, -0.1, 0.002),
        ("all", -1, 0.5, -0.4, 0.002),
    ]
    back = pd.DataFrame(rows, columns=["stack", "layer", "value", "change", "p_value"])
    back = back.assign(  # no task was learnt here
        metric="accuracy", lower=back["change"] - 0.05, upper=back["change"] + 0.05
    )
    for name, draw in DRIFT.drawings().items():
        figure = draw({**tables, "rewound": back})
        assert figure.data and harmless(figure)["layout"]["height"] > 100, name


def test_figures_stand_without_what_was_not_asked(whole: Callable[[str], Model]) -> None:
    tables = changed(whole("mini:t5"), whole("mini:t5"), max_sentences=2).tables
    drawings = DRIFT.drawings()
    assert len(drawings["drift"](tables).data) == 4 * 2
    assert drawings["modules"](tables).data and drawings["similarity"](tables).data
    with pytest.raises(KeyError):
        drawings["probing"](tables)
