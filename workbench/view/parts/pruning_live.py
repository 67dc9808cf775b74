"""A slider that takes heads away: losses, guesses and written text of a few sentences, both ways.

Costs opening the model once, and two passes over the sentences for each place of the slider, which
are kept.
"""

from typing import TYPE_CHECKING

import pandas as pd
import streamlit as st

from workbench.view import pruning as drawn
from workbench.view.parts import sources, tables
from workbench.view.parts.plain import plain, shortened

if TYPE_CHECKING:
    from workbench.pruning.live import Live, Text
    from workbench.runs.run import Run

MOST = 8  # sentences
GUESSES = 12  # of a sentence


def slider(run: "Run") -> None:
    """How many heads go, in which order, and what that does to these sentences."""
    spec = run.spec
    model, corpus = spec.models[0].ref, spec.corpora[0].ref
    if spec.settings.get("task"):
        st.text(
            "The run fitted a classifier first, and kept only the smaller one: choose the run as "
            "the model to look into that."
        )
        return
    if model is None or corpus is None:
        st.text("The run was asked of objects, not of files: they cannot be opened again here.")
        return
    order = tables.of(run, "order")
    ways = order[["method", "rescored", "seed"]].drop_duplicates().to_dict("records")
    names = [
        drawn.NAMES[way["method"]] + (", rescored" if way["rescored"] else "")
        + (f" {way['seed'] + 1}" if way["method"] == "random" else "")
        for way in ways
    ]  # fmt: skip
    with st.container(horizontal=True, vertical_alignment="bottom"):
        name = st.selectbox("Heads go", names, key="order", bind="query-params", width=260)
        first = st.number_input(
            "From sentence", 0, 999_999_999, key="sentence", bind="query-params", width=150
        )
        number = st.number_input("Sentences", 1, MOST, 3, key="several", width=130)
    way = ways[names.index(name) if name in names else 0]
    own = order[(order[list(way)] == list(way.values())).all(axis=1)]
    places = int(own["place"].max()) + 1
    gone = st.slider("Heads gone", 0, places, key="gone", bind="query-params")
    heads = own[own["place"] < gone]
    found = _live(
        str(model), str(corpus), spec.split or "", int(first or 0), int(number or 1),
        tuple(heads[["stack", "kind", "layer", "head"]].itertuples(index=False, name=None)),
    )  # fmt: skip
    if found is None:
        st.text("There is no sentence there.")
        return
    _values(found)
    for text in found.texts:
        _text(text)


def _values(found: "Live") -> None:
    loss, right = found.values["loss"], found.values["accuracy"]
    with st.container(horizontal=True):
        st.metric(
            f"Loss, nats a {found.unit}", f"{loss[1]:.3f}", _change(loss[1] - loss[0], "+.3f"),
            delta_color="inverse", width="content",
        )  # fmt: skip
        st.metric(
            "Right", f"{right[1]:.0%}", _change(100 * (right[1] - right[0]), "+.0f", " points"),
            width="content",
        )  # fmt: skip
        st.metric(
            "Parameters", f"{found.parameters[1]:,}",
            f"{found.parameters[1] - found.parameters[0]:+,}", delta_color="off", width="content",
        )  # fmt: skip


def _change(value: float, form: str, unit: str = "") -> str | None:
    """None where nothing changed, which then has no arrow."""
    told = format(value, form)
    return f"{told}{unit}" if float(told) else None


def _text(text: "Text") -> None:
    with st.container(border=True):
        st.markdown(f"**{plain(shortened(text.text, 400))}**")
        st.caption(
            f"loss {text.before:.3f} → {text.after:.3f}; of {text.asked} guesses "
            f"{len(text.guesses)} changed"
        )
        if text.guesses:
            st.dataframe(
                pd.DataFrame(
                    [(g.gold, g.before, g.after) for g in text.guesses[:GUESSES]],
                    columns=["what stands there", "all heads", "without them"],
                ),
                hide_index=True,
            )
        if text.wrote is not None:
            for name, said in zip(("all heads", "without them"), text.wrote, strict=True):
                st.text(f"written, {name}: {' '.join(said.split())}")


@st.cache_data(max_entries=64, show_spinner="Taking heads out …")
def _live(
    model: str,
    corpus: str,
    split: str,
    first: int,
    number: int,
    gone: tuple[tuple[str, str, int, int], ...],
) -> "Live | None":
    from workbench.pruning.live import live

    named = split or next(iter(sources.corpus(corpus).splits))
    docs = sources.sentences(corpus, named, first, number)
    if not docs:
        return None
    opened = sources.model(model)
    place = {(str(s.stack), str(s.kind), s.layer): s.index for s in opened.sites}
    return live(opened, docs, [(place[stack, kind, layer], head)
                               for stack, kind, layer, head in gone])  # fmt: skip
