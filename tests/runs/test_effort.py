"""Samples grow on a fixed schedule until findings are decided, and say what is left open."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from pydantic import Field, ValidationError
from spacy.tokens import Doc
from spacy.vocab import Vocab

import workbench as wb
from tests.judges.odd import Quiet
from workbench.core.findings import Finding, judged
from workbench.experiment import Inputs, Progress, Table
from workbench.experiment.growth import LARGE, Growth, open_claims
from workbench.experiment.sizes import GrowingSettings, SplitSettings, seconds_of
from workbench.runs import effort


class Coin(GrowingSettings):
    """A coin, thrown `throws` times."""

    throws: int = Field(50, ge=1, le=12_800, description="Number of throws (default 50).")
    bias: float = Field(0.5, description="Probability of heads (default 0.5).")


def throw(inputs: Inputs, settings: Coin, progress: Progress) -> wb.Result:
    heads = np.random.default_rng(inputs.seed).random(settings.throws) < settings.bias
    return wb.Result({"coin": pd.DataFrame({"n": [len(heads)], "share": [heads.mean()]})})


def found(tables: Any) -> Iterator[Finding]:
    n, share = tables["coin"].iloc[0]
    half = 1.96 * max((share * (1 - share) / n) ** 0.5, 1e-9)
    enough = half < 0.02 or abs(share - 0.5) > half
    yield Finding(
        f"The coin shows heads in {share:.3f} of throws.", share, (share - half, share + half), 0.5,
        judged(abs(share - 0.5) > half, enough), "coin", measure="share of heads",
        decided_by="more throws",
    )  # fmt: skip


COIN = wb.Experiment(
    name="coin", about="Throws a coin.", settings=Coin, run=throw, findings=found, corpora=(0, 0),
    models=(0, 0), tables={"coin": Table("Throws.", ("n",))}, growth=Growth({"throws": 50}),
)  # fmt: skip


def thrown(seed: int = 0, **settings: Any) -> tuple[wb.Result, dict[str, Any]]:
    result, facts = effort.grown(COIN, Inputs(seed=seed), Coin(**settings), Quiet())
    return result, facts.get("growth", {})


def test_a_clear_effect_needs_one_step_and_a_small_one_more() -> None:
    clear, slight = thrown(bias=0.95)[1], thrown(bias=0.55)[1]
    assert clear["ended"] == "decided" and len(clear["steps"]) == 1
    assert slight["ended"] == "decided" and len(slight["steps"]) > 2
    sizes = [step["sizes"]["throws"] for step in slight["steps"]]
    assert sizes == [50 * 4**step for step in range(len(sizes))]


def test_steps_together_cost_at_most_1_6_times_the_last_one() -> None:
    sizes = [step["sizes"]["throws"] for step in thrown(bias=0.5)[1]["steps"]]
    assert sum(sizes) <= 1.6 * sizes[-1]


@pytest.mark.parametrize(
    ("there", "sizes"),
    [(900, [50, 200, 900]), (800, [50, 200, 800]), (1_700, [50, 200, 1_700]), (60, [50, 60])],
)
def test_a_step_with_nearly_as_much_data_as_the_last_is_left_out(
    there: int, sizes: list[int]
) -> None:
    """The second half of the data is too little to be worth a step of its own."""

    def few(inputs: Inputs, settings: Coin, progress: Progress) -> wb.Result:
        return throw(inputs, settings.model_copy(update={"throws": min(settings.throws, there)}),
                     progress)  # fmt: skip

    growth = Growth({"throws": 50}, available=lambda inputs, settings: {"throws": there})
    _, facts = effort.grown(replace(COIN, run=few, growth=growth), Inputs(), Coin(), Quiet())
    found = [min(step["sizes"]["throws"], there) for step in facts["growth"]["steps"]]
    assert found == sizes and facts["growth"]["ended"] == "data"
    assert sum(found) <= 1.6 * there or len(found) == 2  # the first step is always as large


def test_what_a_step_has_encoded_is_there_for_the_next(tmp_path: Path) -> None:
    seen = []

    def run(inputs: Inputs, settings: Coin, progress: Progress) -> wb.Result:
        assert inputs.scratch is not None
        seen.append({folder.name for folder in inputs.scratch.iterdir()})
        (inputs.scratch / f"activations-{settings.throws}").mkdir()
        (inputs.scratch / "trial.npz").touch()
        return throw(inputs, settings, progress)

    effort.grown(replace(COIN, run=run), Inputs(scratch=tmp_path), Coin(bias=0.55), Quiet())
    assert seen[:3] == [set(), {"activations-50"}, {"activations-50", "activations-200"}]


def test_an_interrupted_step_goes_on_without_the_steps_before_it(tmp_path: Path) -> None:
    """Not even where what is left of the time limit would no longer allow it to begin."""
    computed: list[int] = []

    def run(inputs: Inputs, settings: Coin, progress: Progress) -> wb.Result:
        computed.append(settings.throws)
        if computed == [50, 200]:
            raise KeyboardInterrupt
        return throw(inputs, settings, progress)

    coin = replace(COIN, run=run)
    with pytest.raises(KeyboardInterrupt):
        effort.grown(coin, Inputs(scratch=tmp_path), Coin(bias=0.55), Quiet())
    result, facts = effort.grown(coin, Inputs(scratch=tmp_path), Coin(bias=0.55), Quiet())
    whole, growth = thrown(bias=0.55)
    assert computed[:3] == [50, 200, 200] and result.tables["coin"].equals(whole.tables["coin"])
    sizes = [[step["sizes"] for step in each["steps"]] for each in (facts["growth"], growth)]
    assert sizes[0] == sizes[1] and facts["growth"]["ended"] == growth["ended"]

    stored = json.loads((tmp_path / effort.BEGUN).read_text("utf-8"))
    stored["done"][0]["seconds"] = 1e6
    (tmp_path / effort.BEGUN).write_text(json.dumps(stored), "utf-8")
    late = effort.grown(coin, Inputs(scratch=tmp_path), Coin(bias=0.55), Quiet())[1]["growth"]
    assert late["ended"] != "time" and len(late["steps"]) == len(growth["steps"])


def test_a_longer_time_is_not_said_to_continue_a_run_that_saved_a_model(tmp_path: Path) -> None:
    texts = []
    for keep in (tmp_path, tmp_path / "none"):
        inputs = Inputs(keep=keep)
        result, _ = effort.grown(COIN, inputs, Coin(bias=0.5, time="0s"), Quiet())
        texts.append(result.caveats[0].text)
    assert "begins with its first step" in texts[0] and "the run continues from here" in texts[1]


def test_a_size_is_said_to_be_a_maximum() -> None:
    assert effort._counted({"max_train": 4800}) == "up to 4,800 train sentences"
    assert effort._counted({"max_train": None}) == "all train sentences"


def test_with_all_data_the_remedy_of_the_finding_is_left_standing() -> None:
    caveat = effort._undecided(effort.Step({"throws": 50}, 0.1, ("share of heads",)), "data")
    assert "may decide it, or what the finding names" in caveat.text and "Only" not in caveat.text


def test_what_is_open_at_the_end_is_said_with_a_remedy() -> None:
    result, growth = thrown(bias=0.5, time="0s")
    assert growth["ended"] == "time" and growth["still_open"] == ["share of heads"]
    (caveat,) = result.caveats
    assert caveat.text.startswith("Undecided: share of heads") and "time=1h" in caveat.text


def test_quick_is_one_small_sample_and_rough_and_full_has_all() -> None:
    quick, full = thrown(effort="quick"), thrown(effort="full")
    assert quick[0].tables["coin"]["n"].item() == 10 and "rough" in quick[0].caveats[0].text
    assert full[0].tables["coin"]["n"].item() == 12_800 and not full[0].caveats


def test_a_size_that_is_set_does_not_grow() -> None:
    result, growth = thrown(throws=70, bias=0.5)
    assert result.tables["coin"]["n"].item() == 70 and not growth


def test_the_same_request_gives_the_same_tables() -> None:
    first, second = thrown(bias=0.53)[0], thrown(bias=0.53)[0]
    assert first.tables["coin"].equals(second.tables["coin"])


@pytest.mark.slow  # by day `test_an_early_claim_needs_an_interval_of_99_9_percent`
@pytest.mark.parametrize("runs", [4_000])
def test_looking_several_times_makes_no_more_false_claims(runs: int) -> None:
    """A fair coin is claimed to be unfair at most in 5 % of runs, and 0.4 % for the early looks.

    Three standard errors of the rate are added, for the number of runs.
    """
    claims = 0
    for seed in range(runs):
        (finding,) = found(thrown(seed)[0].tables)
        claims += finding.verdict == "supported"
    assert claims / runs <= 0.054 + 3 * (0.054 * 0.946 / runs) ** 0.5


def test_an_early_claim_needs_an_interval_of_99_9_percent() -> None:
    claim = next(found({"coin": pd.DataFrame({"n": [100], "share": [0.62]})}))
    assert claim.verdict == "supported" and list(open_claims([claim])) == ["share of heads"]
    sure = next(found({"coin": pd.DataFrame({"n": [1000], "share": [0.62]})}))
    assert not list(open_claims([sure]))


def test_a_step_that_changes_nothing_is_the_end_of_the_data() -> None:
    def few(inputs: Inputs, settings: Coin, progress: Progress) -> wb.Result:
        return throw(inputs, settings.model_copy(update={"throws": min(settings.throws, 120)}),
                     progress)  # fmt: skip

    limited = replace(COIN, run=few)
    _, facts = effort.grown(limited, Inputs(), Coin(), Quiet())
    assert facts["growth"]["ended"] == "data"


@pytest.mark.parametrize(("words", "ended"), [(60, "data"), (59, "time")])
def test_a_step_that_has_every_word_is_the_end_of_the_data(words: int, ended: str) -> None:
    """Of 20 sentences of three words: a sample of one word less could still grow."""

    class Words(Coin):
        max_sentences: int | None = 20
        max_words: int = Field(words, le=1000)

    docs = [Doc(Vocab(), ["a", "b", "c"])] * 20
    corpus = wb.Corpus("short", {"test": lambda: iter(docs)})
    growth = Growth({"max_sentences": 20, "max_words": words})
    experiment = replace(COIN, settings=Words, growth=growth)
    inputs = Inputs(corpora=(corpus,))
    _, facts = effort.grown(experiment, inputs, Words(time="0s"), Quiet())
    assert facts["growth"]["ended"] == ended


@pytest.mark.parametrize(("train", "ended"), [(80, "time"), (81, "data")])
def test_all_texts_of_a_corpus_without_splits_are_used_if_its_random_parts_are(
    train: int, ended: str
) -> None:
    """Of 100 texts, 81 are train; all of test are scored."""

    class Trained(SplitSettings, Coin):
        max_sentences: int | None = None
        max_train: int | None = train

    docs = [Doc(Vocab(), ["a"])] * 100
    corpus = wb.Corpus("one", {"": lambda: iter(docs)})
    growth = Growth({"max_train": train})
    experiment = replace(COIN, settings=Trained, growth=growth)
    inputs = Inputs(corpora=(corpus,))
    _, facts = effort.grown(experiment, inputs, Trained(time="0s"), Quiet())
    assert facts["growth"]["ended"] == ended


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("10m", 600), ("1h30m", 5400), ("7", 7)]
)
def test_times(text: str, seconds: float) -> None:
    assert seconds_of(text) == seconds


@pytest.mark.parametrize("time", ["soon", "-1m", "", "1d2"])
def test_a_time_that_is_none_is_an_error(time: str) -> None:
    with pytest.raises((wb.WorkbenchError, ValidationError), match="time"):
        Coin(time=time)


def test_a_longer_time_continues_from_where_a_shorter_one_ended() -> None:
    """The first step is not computed again, and the tables are those of an uninterrupted run."""
    computed = []

    def counted(inputs: Inputs, settings: Coin, progress: Progress) -> wb.Result:
        computed.append(settings.throws)
        return throw(inputs, settings, progress)

    coin = replace(COIN, run=counted)
    before = wb.run(coin, bias=0.55, time="0s").provenance["growth"]
    assert before["ended"] == "time" and len(before["steps"]) == 1
    longer = wb.run(coin, bias=0.55, time="1h")
    after = longer.provenance["growth"]
    assert after["steps"][0] == before["steps"][0] and after["ended"] == "decided"
    assert computed == [step["sizes"]["throws"] for step in after["steps"]] and len(computed) > 2
    assert longer.tables["coin"].equals(thrown(bias=0.55)[0].tables["coin"])


@pytest.mark.slow
def test_a_longer_time_continues_an_analysis_of_a_model() -> None:
    asked = {
        "experiment": "geometry",
        "model": "mini:bert",
        "corpus": "primer:size=1100",
        "split": "train",
    }
    settings = {"random_models": 0, "max_forms": 20, "sample_size": 50, "n_permutations": 19}
    first = wb.run(**asked, **settings, time="0s")
    before = first.provenance["growth"]
    assert before["ended"] == "time" and len(before["steps"]) == 1
    longer = wb.run(**asked, **settings, time="1h")
    after = longer.provenance["growth"]
    assert after["steps"][0] == before["steps"][0] and len(after["steps"]) == 2
    assert after["ended"] == "data"


class Clock:
    """A clock that only throws of the coin move: by a fixed time, and by a time for each."""

    def __init__(self, fixed: float, each: float) -> None:
        self.now, self.fixed, self.each = 0.0, fixed, each

    def monotonic(self) -> float:
        return self.now

    def throw(self, inputs: Inputs, settings: Coin, progress: Progress) -> wb.Result:
        self.now += self.fixed + self.each * settings.throws
        return throw(inputs, settings, progress)


START = 1600  # throws of the first step


def grown_on_a_clock(
    monkeypatch: pytest.MonkeyPatch, parameters: int = LARGE, fixed: float = 0, each: float = 1,
    earlier: effort.Earlier | None = None, run: Any = None, **settings: Any,
) -> tuple[wb.Result, dict[str, Any]]:  # fmt: skip
    """The result and the growth of a coin that a model of so many parameters throws."""
    clock = Clock(fixed, each)
    monkeypatch.setattr(effort, "time", clock)
    experiment = replace(
        COIN, run=run or clock.throw, growth=Growth({"throws": START}), settings=Slow
    )
    inputs = Inputs(models=(SimpleNamespace(parameters=parameters),))  # type: ignore[arg-type]
    result, facts = effort.grown(
        experiment, inputs, Slow(bias=0.5, **settings), Quiet(), lambda: earlier
    )
    return result, facts["growth"]


class Slow(Coin):
    throws: int = Field(START, ge=1, le=25_600, description="Number of throws (default 1600).")


def sizes_of(growth: dict[str, Any]) -> list[int]:
    return [step["sizes"]["throws"] for step in growth["steps"]]


def test_the_first_step_of_a_small_model_is_not_tried_on_less(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert sizes_of(grown_on_a_clock(monkeypatch, LARGE - 1)[1])[0] == START


@pytest.mark.parametrize(
    ("fixed", "seconds", "sizes"),
    [
        (0, 1_701, [100, 1600]),  # the first step ends in time
        (0, 1_700, [100, 400]),  # it would not
        (0, 400, [100]),
        (200, 2_701, [100, 400, 1600]),  # only a third of the trial was due to its sample
    ],
)
def test_a_large_model_begins_on_the_largest_sample_that_ends_in_time(
    monkeypatch: pytest.MonkeyPatch, fixed: float, seconds: int, sizes: list[int]
) -> None:
    _, growth = grown_on_a_clock(monkeypatch, fixed=fixed, time=f"{seconds}s")
    assert sizes_of(growth) == sizes
    assert sum(step["seconds"] for step in growth["steps"]) <= seconds
    assert growth["ended"] == "time" and growth["sizes"] == {"throws": sizes[-1]}


def test_less_than_the_first_step_decides_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Growth, "open_questions", lambda *args: [])
    result, growth = grown_on_a_clock(monkeypatch, time="400s")
    assert growth["ended"] == "time" and growth["still_open"] == [effort.UNTRIED]
    assert effort.UNTRIED in result.caveats[0].text and "time=1h" in result.caveats[0].text


def test_a_longer_time_goes_on_after_a_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    result, growth = grown_on_a_clock(monkeypatch, time="400s")
    steps = tuple(
        effort.Step(each["sizes"], each["seconds"], tuple(each["still_open"]))
        for each in growth["steps"]
    )
    more = grown_on_a_clock(monkeypatch, time="1h", earlier=effort.Earlier(steps, result))[1]
    assert sizes_of(more)[:2] == [100, 1600]


def test_a_limit_of_no_time_is_one_step_of_the_usual_size(monkeypatch: pytest.MonkeyPatch) -> None:
    assert sizes_of(grown_on_a_clock(monkeypatch, time="0s")[1]) == [START]


def test_a_trial_that_is_too_small_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def choosy(inputs: Inputs, settings: Coin, progress: Progress) -> wb.Result:
        if settings.throws < 400:
            raise wb.WorkbenchError("too few.", code="too-few-sentences", remedy="Add some.")
        return throw(inputs, settings, progress)

    assert sizes_of(grown_on_a_clock(monkeypatch, run=choosy)[1])[:2] == [400, 1600]


def test_an_error_of_every_size_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(inputs: Inputs, settings: Coin, progress: Progress) -> wb.Result:
        raise wb.WorkbenchError("no corpus.", code="corpus-not-found", remedy="Name one.")

    with pytest.raises(wb.WorkbenchError, match="corpus"):
        grown_on_a_clock(monkeypatch, run=failing)
