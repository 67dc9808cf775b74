"""The finding is judged by the interval on test, and says what was cut, kept, lost and gained."""

from pathlib import Path

import pandas as pd
import pytest

from tests.analyses.smaller_model.tables import CODE, tables
from tests.findings import findings_of
from tests.report.making import corpus, made, model
from workbench.analyses.smaller_model import plan
from workbench.analyses.smaller_model.experiments import TABLES, SmallerModel
from workbench.analyses.smaller_model.figures import FIGURES
from workbench.analyses.smaller_model.plan import left_out, stages
from workbench.analyses.smaller_model.result import one_page
from workbench.analyses.transfer.experiments import Finetune
from workbench.core.findings import changes
from workbench.corpora.browse import Size
from workbench.experiment.sizes import seconds_of


@pytest.mark.parametrize(
    ("lower", "upper", "verdict"),
    [(0.99, 1.01, "supported"), (0.98, 1.0, "undecided"), (0.9, 0.98, "not supported")],
)
def test_the_interval_on_test_judges(lower: float, upper: float, verdict: str) -> None:
    found = findings_of("smaller-model", tables(lower, upper))
    first = found["smaller model"]
    assert first.verdict == verdict and first.null == 0.99
    assert "75 % of its size" in first.claim and "neurons (50 %)" in first.claim
    assert (
        found["speed"].verdict == "supported"
        and "is faster with 32 texts (2.00 times as fast, 95 % 1.50 to 2.50; corrected p < 0.01)"
        in found["speed"].claim
    )
    assert "question <b>" in found["fell further"].claim
    assert "equal logits of the shortest texts" in found["opened in a new process"].claim


def test_of_layers_it_says_how_many_are_gone_since_a_share_is_rounded() -> None:
    found = tables()
    found["points"] = found["points"].assign(stage="layers", amount="25 %")
    found["sizes"] = found["sizes"].assign(layers=[5, 4])
    assert (
        "After cuts of layers (1 of 5),"
        in findings_of("smaller-model", found)["smaller model"].claim
    )


def test_of_groups_with_the_same_p_the_one_that_fell_furthest_is_named() -> None:
    found = tables()
    rows = [found["lost"].assign(group=name, difference=by, p=1.0) for name, by in
            (("billing", -0.02), ("delivery", 0.08), ("other", -0.01))]  # fmt: skip
    found["lost"] = pd.concat(rows)
    lost = findings_of("smaller-model", found)["fell further"]
    assert lost.verdict == "not supported" and "nearest: “delivery” (class)" in lost.claim


def test_a_class_that_fell_further_is_said_to_be_a_class() -> None:
    found = tables()
    short = found["lost"].assign(group="short texts", kind="length", p=0.03)
    found["lost"] = pd.concat([short, found["lost"].assign(group="account")])
    claim = findings_of("smaller-model", found)["fell further"].claim
    assert claim.startswith("Short texts and “account” (class) fell significantly further")


def test_what_falls_short_is_said() -> None:
    nearest = findings_of("smaller-model", tables(0.85, 0.95, chosen=False))["smaller model"]
    assert nearest.verdict == "not supported" and "Nothing can be cut" in nearest.claim
    assert "90.0 %" in nearest.claim  # what the nearest model keeps on dev
    (only,) = findings_of("smaller-model", tables(learned=False)).values()
    assert "not learnt" in only.claim


def test_shares_of_two_tasks_are_not_compared_as_one() -> None:
    other = tables()
    other["kept"] = other["kept"].assign(task="urgent")
    runs = (findings_of("smaller-model", each)["smaller model"] for each in (tables(), other))
    (change,) = changes({letter: [found] for letter, found in zip("AB", runs, strict=True)})
    assert change.verdict == "undecided"
    assert "task topic in A, task urgent in B" in change.claim


def test_the_report_is_one_page(tmp_path: Path) -> None:
    found = tables()
    run = made(
        tmp_path, experiment="smaller-model",
        tables={name: (table, TABLES[name]) for name, table in found.items()},
        models=(model("mini:bert", ref="mini:bert"),), corpora=(corpus(),),
        settings=SmallerModel().model_dump(mode="json"),
        findings=list(findings_of("smaller-model", found).values()),
    )  # fmt: skip
    page = one_page(run)
    for words in ("macro F1 on topic", "4.00", "2.00", "faster", "question &lt;b&gt;"):
        assert words in page
    assert "<b>" not in page and "http" not in page and "<script" not in page
    for name in FIGURES:
        assert len(FIGURES[name](found).data)
    assert CODE.splitlines()[0] in str(found["opening"]["code"][0])


def test_the_fine_tuning_has_as_many_texts_as_is_said_before_it_starts() -> None:
    settings = Finetune(**SmallerModel(max_sentences=300).fine_tuning)
    assert settings.max_train == 300 and seconds_of(settings.time) == 0  # else it grows from 300


def test_stages_and_their_times_follow_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "speed", lambda: 1e10)  # of any machine, however busy
    monkeypatch.setattr(plan, "find_spec", lambda name: None)
    facts = {
        "family": "bert", "stacks": [{"layers": 12}], "width": 768, "parameters": 110_000_000,
        "predicts": None,
    }  # fmt: skip
    small = stages(SmallerModel(max_sentences=100), facts, [Size("", 5000, 100_000, True)])
    large = stages(SmallerModel(), facts, [Size("", 5000, 100_000, True)])
    assert [stage.name.split()[0] for stage in small] == ["Fine-tune", *["Cut"] * 3, "Measure"]
    assert list(left_out(SmallerModel(), facts)) == ["embeddings", "bits"]
    assert list(left_out(SmallerModel(plain=False), facts)) == ["bits"]
    packed = SmallerModel(methods=("packed bits",), plain=False)
    (cut,) = (stage for stage in stages(packed, facts, []) if stage.name.startswith("Cut"))
    assert "2 models" in cut.trained and "nothing is trained" in cut.trained
    assert "3 epochs each" in small[3].trained  # pieces of the vocabulary, too
    assert "100 texts" in small[0].trained and "1,000 texts" in large[0].trained
    unsplit = stages(SmallerModel(), facts, [Size("", 298, 3000, True)])
    assert "241 texts" in unsplit[0].trained and "27 dev texts" in unsplit[1].trained
    assert 5 < large[0].seconds / small[0].seconds < 11
    tuned = {**facts, "predicts": {"label": "topic"}}
    assert "nothing" in stages(SmallerModel(), tuned, [Size("", 5000, 100_000, True)])[0].trained
