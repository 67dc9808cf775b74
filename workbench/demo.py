"""The tour: one stop after another over the built-in corpus and a tiny model, offline.

A stop is a title and a function of what the tour looks at; a new analysis adds its own line to
`STOPS`. Costs the sum of its stops, on a laptop some ten seconds, most of them imports.
"""

from collections.abc import Callable
from functools import cached_property

import torch
from spacy.tokens import Doc

from workbench import terminal
from workbench.corpora import Corpus, encode, read
from workbench.corpora.describe import describe
from workbench.corpora.show import shown
from workbench.engine.model import Model
from workbench.engine.statistics import confidence, count, together
from workbench.engine.taps import Reduce
from workbench.models.catalogue import facts
from workbench.models.huggingface import HuggingFace
from workbench.models.tiny import tiny_bert


class Tour:
    """What the stops look at, each made when it is first asked for."""

    @cached_property
    def corpus(self) -> Corpus:
        return read("primer")

    @cached_property
    def story(self) -> Doc:
        return next(read("primer", unit="document").docs("dev"))

    @cached_property
    def tiny(self) -> Model:
        words = (token.text for doc in self.corpus.docs("dev") for token in doc)
        return HuggingFace(*tiny_bert(words), "tiny BERT")


def tour() -> None:
    """Make every stop in turn."""
    state = Tour()
    for number, (title, stop) in enumerate(STOPS.items(), start=1):
        terminal.heading(f"{number}. {title}")
        stop(state)


def _describe(state: Tour) -> None:
    with terminal.progress("counting Docs") as progress:
        description = describe(state.corpus, progress)
    terminal.print_description(description)


def _story(state: Tour) -> None:
    terminal.out.print(shown(state.story), markup=False)


def _model(state: Tour) -> None:
    terminal.print_model(facts(state.tiny))


def _forward(state: Tour) -> None:
    model, reduce = state.tiny, Reduce(together([count, confidence]))
    with torch.no_grad():
        output = model.forward(model.encode(encode([state.story])), taps=[reduce])
    rows: list[tuple[object, ...]] = []
    for layer, states in enumerate(output.hidden["encoder"]):
        rows.append((f"layer {layer}", " × ".join(map(str, states.shape)), ""))
    for site, total in reduce.total.items():
        sure = (total[:, 1] / total[:, 0]).tolist()
        rows.append((site.name, "", ", ".join(f"{value:.2f}" for value in sure)))
    columns = ("", "states: batch × pieces × width", "confidence of each head")
    terminal.table("Inside a forward pass over the story", columns, rows)


STOPS: dict[str, Callable[[Tour], None]] = {
    "The built-in corpus": _describe,
    "A story from it": _story,
    "A tiny model": _model,
    "Inside a forward pass": _forward,
}
