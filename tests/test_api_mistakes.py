"""A wrong argument of a public function is a WorkbenchError with a remedy, not a traceback."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import workbench as wb
from workbench.core.public import public
from workbench.corpora import edges
from workbench.experiment import Inputs, Table

MISTAKES = """
wb.attention(model, None)
wb.attention(model, ["Ben", "walks"])
wb.attention("mini:bert", "Ben")
wb.attention(model, "a\\ud800b")
wb.encode("Ben walks")
wb.encode(["Ben walks"])
wb.encode(doc)
model.forward(batch)
model.encode([doc])
model.encode("Ben walks")
model.encode([5, 6])
model.encode(model.tokenizer(["Ben walks"]))
model.encode(model.tokenizer(["Ben", "Ben walks to the hill"], padding=True)["input_ids"])
wb.export(wb.predict(model, "Ben [MASK]."), "a.pdf")
wb.lens(model, "Ben walks.", tuned="no run")
wb.export(wb.lens(model, "Ben walks."), "a.pdf")
model.encode(batch, [5])
wb.forward("mini:bert", batch)
wb.forward(model, [doc])
wb.forward(model, batch, 5)
edges(5, "dependencies")
edges(doc, None)
edges(corpus, "dependencies")
wb.load(None)
wb.load("mini:bert", device=5)
wb.load("mini:bert", device=torch.device("cpu"))
wb.load("mini:bert@random", seed="a")
wb.write(["a"], "a.conllu")
wb.write(doc, "a.conllu")
wb.run("heads", model=5, corpus=corpus)
wb.run("heads", model=model, corpus=corpus, split=5)
wb.run("describe", corpus="primer", progress=5)
wb.run(5, corpus=corpus)
wb.run("describe", corpus=[])
wb.run("describe", corpus=[5])
wb.run("describe", corpus=["Ben walks.", ""])
wb.run("heads", model=torch.nn.Linear(2, 2), corpus=corpus)
wb.run("heads", model=(model.net, None), corpus=corpus)
wb.load(model.net, "cpu")
wb.load("mini:bert", model.tokenizer)
wb.sweep("describe", corpus=corpus)
wb.sweep("heads", model=[model, model], corpus=corpus)
wb.read([["a b", "c"]])
wb.read(pd.DataFrame({"review": ["Ben walks."]}))
wb.read(pd.DataFrame({"text": []}))
wb.read({})
wb.read(lambda: 5)
wb.experiment(lambda corpus, n: n, name="n")
wb.experiment(5)
corpus.docs(5)
wb.Corpus("m", {"test": [1]})
wb.Corpus(5, 5)
wb.Gate(np.ones((4, 4)))
wb.Gate([1])
model.forward(pieces, taps=wb.Gate(torch.ones(4, 4)))
model.forward(pieces, taps=[wb.Gate])
model.forward(pieces, taps=[5])
model.forward(pieces, taps=[wb.Capture(heads=[9])])
wb.Capture([0])
wb.Capture(model.sites[0])
wb.Capture(heads=2)
wb.Reduce(5)
wb.Reduce("count")
wb.Reduce(["cuont"])
wb.Run("nope")
wb.word_states(model, batch, Path("stores"), spans=np.array([[0, 0, 99]]))
wb.word_states(model, batch, Path("stores"), spans=[[0, 0, 1]])
wb.neighbours("mini:bert", corpus, "Ben walks.", "Ben")
wb.neighbours(model, "primer", "Ben walks.", "Ben")
wb.neighbours(model, corpus, "Ben walks.", ["Ben"])
wb.neighbours(model, corpus, "Ben walks.", "Ben", layers="all")
wb.senses(model, doc, "Ben")
wb.senses(model, corpus, 5)
wb.occurrences(model, [doc])
grid.map(9, 9)
grid.map(-1, 0)
grid.map("a", 0)
look.grid(layers=2)
look.grid(group="encoder")
look.grid(unit="sentences")
look.grid(layer=[2])
look.grid(layers=[9])
wb.tokenizations("Ben walks.", "mini:bert").steps("runs")
wb.tokenizations("Ben walks.", "mini:bert").steps(model=model)
wb.export("no-such-run", "sizes", "b.csv")
wb.export(5, "sizes", "b.csv")
wb.report("no-such-run", "b.html")
wb.compare(5, 6)
wb.compare([5, 6])
wb.Settings(unknown=1)
wb.Settings(max_sentences=-1)
Inputs().model
Inputs().docs()
Inputs(corpora=corpus).docs()
wb.Experiment(name="a b/c", about="", settings=wb.Settings, run=print, tables={})
wb.Experiment(name="a", about="", settings=5, run=print, tables={})
wb.Experiment(name="a", about="", settings=wb.Settings, run=5, tables={})
wb.Experiment(name="a", about="", settings=wb.Settings, run=print, tables=["x"])
Table(5, 5)
"""


@pytest.fixture(scope="module")
def names() -> dict[str, Any]:
    """What a session has at hand."""
    model, corpus = wb.load("mini:bert", device="cpu"), wb.read("primer:size=60")
    doc = next(corpus.docs("test"))
    batch, look = wb.encode([doc]), wb.attention(model, "Ben walks to the hill.")
    return {
        "wb": wb,
        "np": np,
        "torch": torch,
        "pd": pd,
        "edges": edges,
        "Inputs": Inputs,
        "Table": Table,
        "Path": Path,
        "model": model,
        "corpus": corpus,
        "doc": doc,
        "batch": batch,
        "pieces": model.encode(batch),
        "look": look,
        "grid": look.grid(),
    }


@pytest.mark.parametrize("call", MISTAKES.strip().splitlines())
def test_a_mistake_has_a_message_and_a_remedy(
    call: str, names: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(wb.WorkbenchError) as error:
        eval(call, names)
    assert error.value.remedy
    assert not list(tmp_path.iterdir())


def test_a_list_in_the_place_of_a_tuple_is_told_so() -> None:
    with pytest.raises(wb.WorkbenchError, match="a tuple of strings, not a list"):
        Table("Words.", ["word"])  # type: ignore[arg-type]


def test_objects_show_what_they_are_in_one_short_line(names: dict[str, Any]) -> None:
    for name in ("model", "corpus", "batch", "pieces", "look", "grid"):
        shown = repr(names[name])
        assert shown.startswith("<") and len(shown) < 200, shown
    assert "heads" in repr(wb.experiments())
    assert "max_sentences" in repr(wb.experiments()["heads"])


def test_help_lists_the_settings_of_an_experiment() -> None:
    described = wb.experiments()["heads"].settings.__doc__ or ""
    assert "    max_sentences: Maximum number of sentences" in described


def test_right_arguments_pass_and_defaults_are_not_checked() -> None:
    @public
    def call(model: "wb.Model | str", numbers: "list[int] | None" = None, share: float = 1) -> int:
        return 1 if numbers is None else sum(numbers)

    assert call("a") == 1
    assert call("a", [2, 3], 1) == 5
    assert call("a", numbers=[], share=0.5) == 0
    with pytest.raises(wb.WorkbenchError, match="wrong-type"):
        call("a", [2, "3"])
