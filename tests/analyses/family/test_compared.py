"""Models on one text: bits per character by a loop of one's own, paired, and what is left out."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import workbench as wb
from tests.analyses.basics.test_pairs import Quiet
from tests.minis import shared
from tests.models import headed, zoo
from workbench.analyses.family.compared import _named, run
from workbench.analyses.family.experiments import FAMILY, Family
from workbench.analyses.family.findings import findings
from workbench.experiment import Inputs, Result

CORPUS = wb.read("primer:size=300")
LIMIT = 8


def compared(*models: Any, corpus: Any = CORPUS, **settings: Any) -> Result:
    inputs = Inputs(models, (corpus,), "test", 0, limit=LIMIT)
    return run(inputs, Family(**{"parts": ("text",), **settings}), Quiet())


def gpt(tmp: Path, uniform: bool = False) -> Any:
    body = zoo.make("gpt2", tmp / "body")
    return headed.opened(headed.saved(body, "GPT2LMHeadModel", tmp / "head", uniform=uniform))


# --- bits per character ---------------------------------------------------------------------------


def test_bits_are_those_of_a_plain_loop() -> None:
    """One text at a time, without padding; the first piece has no context and does not count."""
    model: Any = shared("mini:gpt")
    bits = characters = 0.0
    for doc in CORPUS.docs("test", LIMIT):
        ids = model.tokenizer(doc.text, add_special_tokens=False)["input_ids"]
        with torch.no_grad():
            logits = model.net(torch.tensor([ids])).logits[0].log_softmax(-1)
        bits -= sum(float(logits[n, piece]) for n, piece in enumerate(ids[1:])) / math.log(2)
        characters += len(doc.text) - len(model.tokenizer.decode(ids[:1]).lstrip())
    row = compared(model, shared("mini:bert")).tables["text"].iloc[0]
    assert row["unscored"] == LIMIT
    assert row["bits_per_character"] == pytest.approx(bits / row["characters"], rel=1e-4)
    assert row["characters"] == pytest.approx(characters, abs=LIMIT)


def test_a_uniform_model_needs_the_bits_of_its_vocabulary(tmp_path: Path) -> None:
    model = gpt(tmp_path, uniform=True)
    row = compared(model, shared("mini:gpt")).tables["text"].iloc[0]
    scored = row["pieces"] * math.log2(len(model.tokenizer))
    assert row["bits_per_character"] == pytest.approx(scored / row["characters"], rel=1e-6)


def test_the_model_that_learnt_is_the_best_and_its_copy_no_worse(tmp_path: Path) -> None:
    mini = shared("mini:gpt")
    found = compared(gpt(tmp_path, uniform=True), mini, mini)
    gaps = found.tables["differences"].set_index("model")
    copy = gaps.loc["mini:gpt (2)"]
    assert copy["difference"] == copy["lower"] == copy["upper"] == 0 and copy["p"] == 1
    worse = gaps.drop("mini:gpt (2)").iloc[0]
    assert worse["lower"] > 0 and worse["p"] < 0.01 and worse["best"] == "mini:gpt"
    first = next(iter(findings(found.tables)))
    assert "mini:gpt predicts the text best" in first.claim and first.verdict == "not supported"
    apart = next(iter(findings(compared(gpt(tmp_path, uniform=True), mini).tables)))
    assert apart.verdict == "supported"


def test_kinds_of_likelihood_are_not_compared() -> None:
    models = [shared(f"mini:{name}") for name in ("bert", "gpt", "elmo", "t5")]
    found = compared(*models)
    kinds = found.tables["text"].set_index("model")["kind"]
    assert kinds["mini:gpt"] == "left to right" and kinds["mini:elmo"] == "both directions"
    assert {kinds["mini:bert"], kinds["mini:t5"]} == {"pseudo"}
    gaps = found.tables["differences"]
    assert set(gaps["kind"]) == {"pseudo"} and len(gaps) == 1
    assert any("no likelihood" in caveat.text for caveat in found.caveats)


def test_a_text_too_long_for_one_model_is_left_out_for_all(tmp_path: Path) -> None:
    short = gpt(tmp_path)
    limit = short.max_pieces
    long = "the old dog sees Mary . " * limit
    corpus = wb.read(["Ben walks to the hill.", long, "Ann saw a dog."])
    inputs = Inputs((short, shared("mini:elmo")), (corpus,))
    found = run(inputs, Family(parts=("text",)), Quiet())
    assert (found.tables["text"]["texts"] == 2).all()
    assert "1 of 3 texts" in found.caveats[0].text


def test_a_model_without_a_head_for_words_is_left_out_with_the_reason(tmp_path: Path) -> None:
    bare = wb.load(zoo.make("bert", tmp_path / "bare"), device="cpu")
    found = compared(bare, shared("mini:gpt"), parts=("text", "cost"))
    assert list(found.tables["text"]["model"]) == ["mini:gpt"]
    out = found.tables["left_out"].iloc[0]
    assert out["model"] == bare.name and "language-model head" in out["why"]
    with pytest.raises(wb.WorkbenchError, match="can be measured") as error:
        compared(bare, bare)
    assert error.value.remedy


def test_names_of_models_are_unique() -> None:
    mini = shared("mini:bert")
    assert list(_named([mini, mini, mini])) == ["mini:bert", "mini:bert (2)", "mini:bert (3)"]


# --- runs of other experiments --------------------------------------------------------------------


@pytest.mark.usefixtures("warm_workers")
def test_the_parts_are_the_runs_they_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORKBENCH_RUNS", str(tmp_path / "runs"))
    models = [shared(f"mini:{name}") for name in ("gpt", "elmo")]
    found = wb.run(
        "family", model=models, corpus=CORPUS, device="cpu", parts=("pairs", "heads"),
        max_sentences=20,
    )  # fmt: skip
    table = found.tables["scores"].set_index(["model", "measure"])
    pairs = wb.open_run(table.loc[("mini:elmo", "right pairs"), "run"]).tables["pairs"].iloc[-1]
    assert table.loc[("mini:elmo", "right pairs"), "value"] == pairs["accuracy"]
    roles = wb.open_run(table.loc[("mini:gpt", "heads with a role"), "run"]).tables["heads"]["role"]
    share = (roles.fillna("") != "").mean()
    assert table.loc[("mini:gpt", "heads with a role"), "value"] == share
    out = found.tables["left_out"]
    assert list(out["model"]) == ["mini:elmo"] and "attention heads" in out["why"].iloc[0]
    assert list(found.figures) == ["scores", "heads"] and len(found.findings) == 1


# --- findings -------------------------------------------------------------------------------------


def scores(*rows: tuple[str, float, float, float]) -> dict[str, pd.DataFrame]:
    columns = ["model", "value", "lower", "upper"]
    table = pd.DataFrame(rows, columns=columns).assign(
        part="probes", measure="pos", baseline=0.2, n=300, detail="encoder 2", run="r"
    )
    return {"scores": table}


@pytest.mark.parametrize(
    ("rows", "verdict", "said"),
    [
        ([("a", 0.9, 0.88, 0.92), ("b", 0.7, 0.67, 0.73)], "supported", "one model is best: a"),
        ([("a", 0.9, 0.88, 0.92), ("b", 0.89, 0.87, 0.91)], "not supported", "no model is clearly"),
        ([("a", 0.3, 0.1, 0.5), ("b", 0.05, 0.0, 0.08)], "not supported", "the baseline is 20"),
    ],
)
def test_a_model_is_the_best_only_beyond_the_next_and_the_baseline(
    rows: Any, verdict: str, said: str
) -> None:
    (found,) = findings(scores(*rows))
    assert found.verdict == verdict and said in found.claim


@pytest.mark.parametrize(
    ("lower", "verdict", "said"),
    [(0.8, "supported", "one model is first: a"), (0.6, "not supported", "no model is clearly")],
)
def test_a_model_has_the_largest_share_of_heads_only_beyond_the_next(
    lower: float, verdict: str, said: str
) -> None:
    table = scores(("a", 0.9, lower, 0.95), ("b", 0.5, 0.4, 0.7))["scores"]
    (found,) = findings({"scores": table.assign(part="heads", measure="heads with a role")})
    assert found.verdict == verdict and said in found.claim


def test_every_figure_draws_what_there_is() -> None:
    models = [shared(f"mini:{name}") for name in ("bert", "gpt")]
    tables = compared(*models, parts=("text", "cost")).tables | scores(
        ("mini:bert", 0.9, 0.88, 0.92), ("mini:gpt", 0.7, 0.67, 0.73)
    )
    drawings = FAMILY.drawings()
    for name in ("text", "scores", "cost"):
        drawn = drawings[name](tables)
        names = {each for trace in drawn.data for each in trace.y}
        assert names == {"mini:bert", "mini:gpt"}
        assert all(np.isfinite(np.asarray(trace.x, float)).all() for trace in drawn.data)
