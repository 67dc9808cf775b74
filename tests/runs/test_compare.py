"""Runs side by side: rows meet by their keys, and differences have their sign."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

import workbench as wb
from workbench import WorkbenchError
from workbench.experiment import Caveat
from workbench.runs.compare import aligned, caveats_of, compare, compared


def table(keys: tuple[str, ...], **columns: object) -> pd.DataFrame:
    found = pd.DataFrame(columns)
    found.attrs = {"keys": list(keys)}
    return found


def test_rows_meet_by_their_keys_whatever_their_order() -> None:
    one = table(("word",), word=["a", "b", "c"], count=[3, 2, 1])
    other = table(("word",), word=["c", "a", "d"], count=[5, 1, 9])
    found = aligned([one, other]).set_index("word")
    assert list(found.index) == ["a", "b", "c", "d"]
    assert found["B − A count"].dropna().to_dict() == {"a": -2, "c": 4}
    assert pd.isna(found.loc["b", "B count"]) and pd.isna(found.loc["d", "A count"])


def test_rows_of_large_tables_meet_in_one_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    def passes(rows: int) -> int:
        words = [f"word {row}" for row in range(rows)]
        one, other = (table(("word",), word=words, count=range(rows)) for _ in range(2))
        begun = len(made)
        aligned([one, other])
        return len(made) - begun

    made: list[int] = []
    iterate = pd.Index.__iter__

    def counted(index: "pd.Index[Any]") -> Iterator[Any]:
        made.append(len(index))
        return iterate(index)

    monkeypatch.setattr(pd.Index, "__iter__", counted)
    assert passes(200) == passes(20)


def test_differences_of_unsigned_numbers_have_their_sign() -> None:
    one = table(("k",), k=["x", "y"], n=np.array([3, 5], dtype=np.uint8))
    other = table(("k",), k=["x", "y"], n=np.array([1, 7], dtype=np.uint8))
    assert list(aligned([one, other])["B − A n"]) == [-2, 2]


def test_numbers_that_are_names_have_no_difference() -> None:
    """Which head is the best one of a run is a name, though it is written in numbers."""
    one, other = (table(("k",), k=["x"], head=[head], score=[0.5]) for head in (3, 7))
    for each in (one, other):
        each.attrs["labels"] = ["head"]
    found = aligned([one, other])
    assert list(found["B − A score"]) == [0] and not [c for c in found if "head" in c]


def test_a_table_without_numbers_has_its_texts() -> None:
    one, other = (table(("fact",), fact=["family"], value=[family]) for family in ("bert", "gpt"))
    found = aligned([one, other])
    assert found.to_dict("records") == [{"fact": "family", "A value": "bert", "B value": "gpt"}]


def test_several_keys_several_runs_and_no_keys() -> None:
    three = [table(("a", "b"), a=[1, 1], b=[2, 3], v=[x, x + 0.5]) for x in (0.0, 1.0, 3.0)]
    found = aligned(three)
    assert list(found["B − A v"]) == [1.0, 1.0] and list(found["C − A v"]) == [3.0, 3.0]
    bare = aligned([table((), v=[1, 2]), table((), v=[4, 3])])
    assert list(bare["B − A v"]) == [3, 1] and "row" not in bare


def test_what_a_run_has_only_one_of_does_not_keep_its_rows_from_meeting() -> None:
    """Two models asked the same: the rows of one are those of the other."""
    one, other = (
        table(("model", "task"), model=[model] * 2, task=["a", "b"], score=[0.5, score])
        for model, score in (("bert", 0.25), ("gpt", 0.75))
    )
    found = aligned([one, other])
    assert list(found["task"]) == ["a", "b"] and "model" not in found
    assert list(found["B − A score"]) == [0, 0.5]
    both = table(("model", "task"), model=["bert", "gpt"], task=["a", "a"], score=[0.1, 0.2])
    found = aligned([one, both]).set_index(["model", "task"])
    assert found.loc[("bert", "a"), "B − A score"] == pytest.approx(-0.4)
    assert pd.isna(found.loc[("gpt", "a"), "A score"]), "with two models a row needs its name"
    alone = aligned([table(("model",), model=[m], score=[s]) for m, s in (("bert", 1), ("gpt", 3))])
    assert alone.to_dict("records") == [{"A score": 1, "B score": 3, "B − A score": 2}]


def test_what_cannot_be_compared_is_said() -> None:
    one, other = table(("k",), k=[1], v=[2]), table(("j",), j=[1], v=[2])
    with pytest.raises(WorkbenchError, match=r"cannot be aligned[\s\S]*sweep"):
        aligned([one, other])
    for tables, said in (([{}], "two runs"), ([{"a": one}, {"b": one}], "in common")):
        with pytest.raises(WorkbenchError, match=said):
            list(compared(tables))


@pytest.mark.usefixtures("undrawn")
def test_inputs_of_one_name_and_different_content_are_named_first() -> None:
    """Two corpora named own: no other line of the comparison would tell them apart."""
    runs = []
    for seed, times in enumerate((2, 1, 2)):
        texts = wb.read(["The cat sleeps."] * times)
        own = wb.Corpus("own", {"test": texts.docs})
        runs.append(wb.run("describe", corpus=own, device="cpu", seed=seed))
    same, one, other = (compare(*pair).findings[0].claim for pair in (runs[::2], runs[:2], runs))
    assert "one name" not in same
    assert one == "A and B have different corpora of one name, own."
    assert other == "A+C and B have different corpora of one name, own."


def test_a_caveat_of_one_of_the_runs_has_its_letter() -> None:
    both, own = Caveat("Losses are rough."), Caveat("There are few sentences.")
    runs = [SimpleNamespace(caveats=each) for each in ([both], [both, own])]
    assert caveats_of(runs) == [both.text, f"B: {own.text}"]  # type: ignore[arg-type]
