"""The tour: one stop after another over the built-in corpus and a tiny model, offline.

A stop is a title and a function of what the tour looks at; a new analysis adds its own line to
`STOPS`. Costs the sum of its stops, on a laptop some ten seconds, most of them imports.
"""

from collections.abc import Callable
from functools import cached_property

import torch
from spacy.tokens import Doc
from transformers import BertModel, BertTokenizer

from workbench import terminal
from workbench.corpora import Corpus, read
from workbench.corpora.describe import describe
from workbench.corpora.show import shown
from workbench.models.tiny import facts, tiny_bert


class Tour:
    """What the stops look at, each made when it is first asked for."""

    @cached_property
    def corpus(self) -> Corpus:
        return read("primer")

    @cached_property
    def story(self) -> Doc:
        return next(read("primer", unit="document").docs("dev"))

    @cached_property
    def tiny(self) -> tuple[BertModel, BertTokenizer]:
        return tiny_bert(token.text for doc in self.corpus.docs("dev") for token in doc)


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
    model, _ = state.tiny
    terminal.table("A random BERT over the words of the split dev", ("", ""), facts(model).items())


def _forward(state: Tour) -> None:
    model, tokenizer = state.tiny
    inputs = tokenizer(state.story.text, truncation=True, return_tensors="pt")
    with torch.inference_mode():
        hidden = model(**inputs, output_hidden_states=True).hidden_states
    rows = [(layer, " × ".join(map(str, states.shape))) for layer, states in enumerate(hidden)]
    terminal.table("Hidden states of the story", ("layer", "batch × pieces × width"), rows)


STOPS: dict[str, Callable[[Tour], None]] = {
    "The built-in corpus": _describe,
    "A story from it": _story,
    "A tiny model": _model,
    "Inside a forward pass": _forward,
}
