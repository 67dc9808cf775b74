"""The choices of the attention page: which text, which kind of attention, how it is shown.

Every choice is in the address. Boxes are drawn here; what they mean is worked out by
`workbench.attention_maps`. Costs nothing but the look into the folder of runs that lists tables for
badges.
"""

from dataclasses import replace
from typing import TYPE_CHECKING, Literal, get_args

import streamlit as st

from workbench.app import cache, sidebar
from workbench.app.tables_and_figures import segment
from workbench.core.files import open_regular, parsed_json

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pandas as pd
    from spacy.tokens import Doc
    from streamlit.delta_generator import DeltaGenerator

    from workbench.attention_browser.scene import Side
    from workbench.attention_maps.capture import Look
    from workbench.attention_maps.grids import Group, Options
    from workbench.engine.model import Model

    Tables = list[tuple[str, pd.DataFrame]]  # each with what it is called

OWN, CORPUS = "Your own text", "A sentence of the corpus"
EXAMPLE = "The old captain saw the ship that she had sold to her brother."
NAMES = {"self": "self-attention", "causal": "causal attention", "cross": "cross-attention"}
SPECIAL = {
    "shown": "shown",
    "hidden": "hidden",
    "renormalised": "hidden, rows renormalised",
}
WEIGH = {"attention": "attention", "norms": "attention × value norm"}
RUNS = 100  # of the newest, whose tables are offered
Beside = Literal["nothing", "value norms", "another model", "another text"]


def row() -> "DeltaGenerator":
    """Boxes side by side, as many as fit."""
    return st.container(horizontal=True, vertical_alignment="bottom")


def text(which: str = "") -> "Doc":
    """The text that is looked at; `which` tells a second one's boxes apart."""
    corpus = sidebar.corpus()
    source = segment(f"Text {which}".strip(), [CORPUS, OWN], f"from{which}")
    if source == OWN:
        said = st.text_area(
            "What to read",
            value=EXAMPLE,
            key=f"text{which}",
            bind="query-params",
            height=80,
            max_chars=cache.LONGEST,
            help="Read by an installed spaCy pipeline; where there is none, words come from rules "
            "and there are no trees to lay over the maps.",
        )
        return cache.typed(said or "")
    splits = list(cache.corpus(corpus).splits)
    split = st.selectbox("Split", splits, key=f"split{which}", bind="query-params", width=120)
    number = st.number_input(
        "Sentence",
        min_value=0,
        max_value=999_999_999,
        step=1,
        key=f"sentence{which}",
        bind="query-params",
        width=130,
        help="Counted from 0. The page Corpora finds sentences by their words.",
    )
    return cache.sentence(corpus, split, int(number or 0))


def target(doc: "Doc") -> "Doc":
    """What the decoder beside an encoder writes; the text itself, unless something is typed."""
    said = st.text_input(
        "What the decoder writes",
        key="target",
        bind="query-params",
        placeholder="the same text",
        max_chars=cache.LONGEST,
        help="The decoder reads this one piece late, and looks at the text above: for a "
        "translation or a summary, give the output here.",
    )
    return cache.typed(said) if said and said.strip() else doc


def shown(look: "Look") -> "tuple[Group, Options, Tables]":
    """Which attention, how it is shown, and tables of runs to sort the heads by."""
    from workbench.attention_maps.grids import TOGETHER, Options, Special, Unit, Weigh, numbers

    with row():
        kind = _group(look)
        unit: Unit = st.segmented_control(
            "By",
            get_args(Unit),
            default="pieces",
            required=True,
            key="unit",
            bind="query-params",
            help="Pieces are what the model reads. By words, attention is summed over the pieces "
            "of the word looked at and averaged over those that look.",
        )
        special: Special = st.selectbox(
            "Special tokens",
            get_args(Special),
            format_func=lambda name: SPECIAL[name],
            key="special",
            bind="query-params",
            width=265,
            help="[CLS], [SEP], </s> and the like. Renormalised, what is left of each row sums "
            "to 1 again.",
        )
        together = st.selectbox(
            "Heads",
            TOGETHER,
            key="together",
            bind="query-params",
            width=190,
            help="Each head by itself, or what several come to. Rollout multiplies layers from "
            "the lowest up, half of each passed straight on (Abnar and Zuidema 2020).",
        )
        more = st.popover("More", icon=":material/tune:")
    with more:
        weigh: Weigh = st.selectbox(
            "Value",
            get_args(Weigh),
            format_func=lambda name: WEIGH[name],
            key="weigh",
            bind="query-params",
            help="A head may look hard at a token and take nothing from it. The norm of what it "
            "would write tells how much the look counts.",
        )
        layers, heads = numbers(look, kind)
        chosen_layers = _some("Layers", layers, "layers")
        chosen_heads = _some("Heads", heads, "heads")
        tables = _badges()
    return kind, Options(unit, special, weigh, together, chosen_layers, chosen_heads), tables


def _group(look: "Look") -> "Group":
    """Which stack's attention, of which kind; a box where there are several."""
    from workbench.attention_maps.grids import groups

    there = {f"{stack} {NAMES[kind]}": (stack, kind) for stack, kind in groups(look)}
    if len(there) == 1:
        return next(iter(there.values()))
    about = (
        "Within the encoder; within the decoder, which cannot look ahead; from the decoder to the "
        "encoder."
    )
    return there[segment("Attention", list(there), "attention", help=about)]


def _some(label: str, there: list[int], key: str) -> tuple[int, ...]:
    found = st.pills(
        label,
        [str(number) for number in there],
        selection_mode="multi",
        key=key,
        bind="query-params",
        help="All, where none is chosen. They keep their numbers.",
    )
    return tuple(int(number) for number in found if int(number) in there)


def beside() -> Beside:
    """What stands beside it."""
    found: Beside = st.selectbox(
        "Beside it",
        get_args(Beside),
        key="beside",
        bind="query-params",
        width=165,
        help="The same heads weighted by the norm of what they would write; a second model or "
        "checkpoint on the same text; or the same model on another text. In step, with the "
        "difference where the words align.",
    )
    return found


def _badges() -> "Tables":
    """Tables of runs that say something of each head, to sort and filter the heads by."""
    from workbench.attention_browser.scene import HEAD_COLUMNS

    there = _tables_of_heads(frozenset(HEAD_COLUMNS))
    if not there:
        return []
    picked = st.multiselect(
        "Scores from runs",
        list(there),
        key="badges",
        bind="query-params",
        help="Heads can be sorted and filtered by any table of a run that has a row for each.",
    )
    from workbench.runs.run import open_run

    return [(name, open_run(run).tables[table]) for name in picked for run, table in [there[name]]]


def _tables_of_heads(wanted: frozenset[str]) -> dict[str, tuple[str, str]]:
    """Tables of the newest runs with a row a head: what each is called, its run and its name."""
    import pyarrow.parquet as pq

    from workbench.runs.run import all_runs

    found = {}
    done = [run for run, now in all_runs() if now.state == "done"][:RUNS]
    for run in done:
        for path in sorted((run.path / "tables").glob("*.parquet")):
            try:
                with open_regular(path) as file:
                    schema = pq.read_schema(file)
            except (OSError, ValueError):
                continue  # the page Runs tells what is damaged
            keys = _keys(schema.metadata or {})
            if set(schema.names) >= wanted and (not keys or keys == wanted):
                found[f"{run.name}: {path.stem}"] = (run.name, path.stem)
    return found


def _keys(told: "Mapping[bytes, bytes]") -> set[str]:
    """Of what a row of a table speaks, where it says so: a row a relation is no row a head."""
    try:
        said = parsed_json(told.get(b"PANDAS_ATTRS", b"{}"))
    except ValueError:
        return set()
    keys = said.get("keys") if isinstance(said, dict) else None
    return {str(key) for key in keys} if isinstance(keys, list) else set()


def second(
    what: Beside,
    ref: str,
    doc: "Doc",
    written: "Doc | None",
    kind: "Group",
    options: "Options",
    tables: "Tables",
) -> "list[Side]":
    """The side beside it: another model on the same text, or the same on another; or none."""
    from workbench.attention_browser.scene import side_of
    from workbench.attention_maps.capture import attention
    from workbench.attention_maps.grids import Weigh, groups

    if what == "nothing":
        return []
    if what == "value norms":
        seen = attention(cache.model(ref), doc, written)
        other: Weigh = "attention" if options.weigh == "norms" else "norms"
        read = doc if kind[0] == "encoder" or written is None else written
        return [side_of(seen, kind, replace(options, weigh=other), read, tables)]
    if what == "another model":
        model = cache.model(_other())
        if not model.sites:
            without_heads(model)
            return []
        written = doc if written is None and len(model.stacks) > 1 else written
    else:
        model = cache.model(ref)
        with row():
            doc = text("2")
        written = doc if written is not None else None
    with st.spinner("Looking …"):
        seen = attention(model, doc, written if len(model.stacks) > 1 else None)
    own = kind if kind in groups(seen) else groups(seen)[0]
    read = doc if own[0] == "encoder" or written is None else written
    which = ", other text" if what == "another text" else ""
    return [side_of(seen, own, options, read, tables, which)]


def _other() -> str:
    """The reference of the second model."""
    now = st.session_state.get("model2")
    return str(
        st.selectbox(
            "The other model",
            list(dict.fromkeys([*sidebar.models(), *([str(now)] if now else [])])),
            index=1,
            key="model2",
            bind="query-params",
            accept_new_options=True,
            width=420,
            help="As in the sidebar: a built-in model, a run, a folder, a hub id.",
        )
    )


def onwards() -> None:
    """From one text to a whole corpus."""
    st.page_link(
        "pages/experiments.py",
        label="Average every head over the whole corpus",
        icon=":material/functions:",
        query_params={**sidebar.in_url(), "experiment": "attention-averages"},
        help="A run: attention by relative offset and by pairs of tags. Its table of heads can "
        "then be chosen under More, as badges.",
    )


def without_heads(model: "Model") -> None:
    """What a model without attention has instead, and where to look at it."""
    layers = model.stacks[0].layers
    there = f"{layers} layers above its word layer" if layers else "one layer"
    why = f"{model.without_heads}, and there is nothing to draw here. It has {there}"
    st.info("This model has no attention.", icon=":material/visibility_off:")
    st.text(f"{why}, which experiments look into.")
    with st.container(horizontal=True):
        st.page_link("pages/experiments.py", label="Run an experiment on its layers")
        st.page_link("pages/models.py", label="What the model is")
        st.button(
            "Look at mini:bert", on_click=sidebar.choose_model, args=("mini:bert",), type="tertiary"
        )
