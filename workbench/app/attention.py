"""The choices of the page Attention: text, kind of attention, and how it is displayed.

Every choice is in the address. `workbench.attention_maps` computes what the choices mean. Costs:
listing the tables of the latest runs, for badges.
"""

from dataclasses import replace
from typing import TYPE_CHECKING, Literal, get_args

import streamlit as st

from workbench.app import cache, choice
from workbench.app.tables_and_figures import segment
from workbench.core.files import open_regular, parse_json

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pandas as pd
    from spacy.tokens import Doc
    from streamlit.delta_generator import DeltaGenerator

    from workbench.attention_browser.scene import Side
    from workbench.attention_maps.capture import AttentionMaps
    from workbench.attention_maps.grids import Group, Options
    from workbench.engine.model import Model

    Tables = list[tuple[str, pd.DataFrame]]  # each with its label

OWN, CORPUS = "Your own text", "Corpus sentence"
EXAMPLE = "The old captain saw the ship that she had sold to her brother."
NAMES = {"self": "self-attention", "causal": "causal attention", "cross": "cross-attention"}
SPECIAL = {
    "shown": "shown",
    "hidden": "hidden",
    "renormalised": "hidden, rows renormalised",
}
WEIGH = {"attention": "attention", "norms": "attention × value norm"}
MAX_RUNS = 100  # of the latest runs, whose tables are offered
Comparison = Literal["nothing", "value norms", "another model", "another text"]


def row() -> "DeltaGenerator":
    """A container for boxes next to each other, as many as fit."""
    return st.container(horizontal=True, vertical_alignment="bottom")


def text(suffix: str = "") -> "Doc":
    """Draw the boxes for a text and return it; `suffix` separates the keys of a second text."""
    corpus = choice.corpus()
    source = segment(f"Text {suffix}".strip(), [CORPUS, OWN], f"from{suffix}")
    if source == OWN:
        typed = st.text_area(
            "Input text",
            value=EXAMPLE,
            key=f"text{suffix}",
            bind="query-params",
            height=80,
            max_chars=cache.LONGEST,
            help="Parsed by an installed spaCy pipeline. Without one, words are split by rules "
            "and there is no dependency tree.",
        )
        return cache.typed(typed or "")
    splits = list(cache.corpus(corpus).splits)
    split = st.selectbox("Split", splits, key=f"split{suffix}", bind="query-params", width=120)
    index = st.number_input(
        "Sentence",
        min_value=0,
        max_value=999_999_999,
        step=1,
        key=f"sentence{suffix}",
        bind="query-params",
        width=130,
        help="Number of the sentence, counted from 0. Search for a sentence on the page Corpora.",
    )
    return cache.sentence(corpus, split, int(index or 0))


def target(doc: "Doc") -> "Doc":
    """Draw a box for the decoder's text; the default is the input text."""
    typed = st.text_input(
        "Decoder text",
        key="target",
        bind="query-params",
        placeholder="same as the input",
        max_chars=cache.LONGEST,
        help="The text that the decoder writes while it attends to the input: for example a "
        "translation or a summary (default: the input text). It is read shifted by one piece.",
    )
    return cache.typed(typed) if typed and typed.strip() else doc


def display_options(maps: "AttentionMaps") -> "tuple[Group, Options, Tables]":
    """Draw the display options; return the attention group, the options and tables for badges."""
    from workbench.attention_maps.grids import TOGETHER, Options, Special, Unit, Weigh, numbers

    with row():
        group = _group(maps)
        unit: Unit = st.segmented_control(
            "Unit",
            get_args(Unit),
            default="pieces",
            required=True,
            key="unit",
            bind="query-params",
            help="Pieces are the subword tokens that the model reads. For words, attention is "
            "summed over the pieces of the attended word and averaged over the pieces of the "
            "attending word.",
        )
        special: Special = st.selectbox(
            "Special tokens",
            get_args(Special),
            format_func=lambda name: SPECIAL[name],
            key="special",
            bind="query-params",
            width=265,
            help="Tokens such as [CLS], [SEP] and </s>. Renormalised: the remaining weights of "
            "each row sum to 1.",
        )
        together = st.selectbox(
            "Heads",
            TOGETHER,
            key="together",
            bind="query-params",
            width=190,
            help="Show each head, or combine several. Rollout multiplies the layers from the "
            "lowest up, each mixed half and half with the identity (Abnar and Zuidema 2020).",
        )
        more = st.popover("More", icon=":material/tune:")
    with more:
        weigh: Weigh = st.selectbox(
            "Value",
            get_args(Weigh),
            format_func=lambda name: WEIGH[name],
            key="weigh",
            bind="query-params",
            help="A head can attend strongly to a token and take little from it. The norm of the "
            "weighted value vector shows how much the attention contributes.",
        )
        layers, heads = numbers(maps, group)
        chosen_layers = _subset("Layers", layers, "layers")
        chosen_heads = _subset("Heads", heads, "heads")
        tables = _badges()
    return group, Options(unit, special, weigh, together, chosen_layers, chosen_heads), tables


def _group(maps: "AttentionMaps") -> "Group":
    """The stack and kind of attention to show; a box is drawn if there are several."""
    from workbench.attention_maps.grids import groups

    options = {f"{stack} {NAMES[kind]}": (stack, kind) for stack, kind in groups(maps)}
    if len(options) == 1:
        return next(iter(options.values()))
    about = (
        "Self-attention: within the encoder. Causal attention: within the decoder, to earlier "
        "pieces only. Cross-attention: from the decoder to the encoder."
    )
    return options[segment("Attention", list(options), "attention", help=about)]


def _subset(label: str, options: list[int], key: str) -> tuple[int, ...]:
    picked = st.pills(
        label,
        [str(number) for number in options],
        selection_mode="multi",
        key=key,
        bind="query-params",
        help=f"{label} to show (default: all).",
    )
    return tuple(int(number) for number in picked if int(number) in options)


def comparison() -> Comparison:
    """Draw a box for what the attention is compared with."""
    chosen: Comparison = st.selectbox(
        "Compare with",
        get_args(Comparison),
        key="compare",
        bind="query-params",
        width=165,
        help="Value norms: the same heads, weighted by the norm of the value vectors. Another "
        "model: a second model or checkpoint on the same text. Another text: the same model. "
        "If the words align, the difference is shown too.",
    )
    return chosen


def _badges() -> "Tables":
    """Tables of runs with one row for each head, to sort and filter the heads by."""
    from workbench.attention_browser.scene import HEAD_COLUMNS

    options = _tables_of_heads(frozenset(HEAD_COLUMNS))
    if not options:
        return []
    picked = st.multiselect(
        "Scores from runs",
        list(options),
        key="badges",
        bind="query-params",
        help="Tables of runs with one row for each head. Heads can be sorted and filtered by "
        "these scores.",
    )
    from workbench.runs.run import open_run

    return [
        (label, open_run(run).tables[table]) for label in picked for run, table in [options[label]]
    ]


def _tables_of_heads(required: frozenset[str]) -> dict[str, tuple[str, str]]:
    """Tables of the latest runs with one row for each head: label -> run and table."""
    import pyarrow.parquet as pq

    from workbench.runs.run import all_runs

    tables = {}
    done = [run for run, now in all_runs() if now.state == "done"][:MAX_RUNS]
    for run in done:
        for path in sorted((run.path / "tables").glob("*.parquet")):
            try:
                with open_regular(path) as file:
                    schema = pq.read_schema(file)
            except (OSError, ValueError):
                continue  # the page Runs shows what is damaged
            keys = _keys(schema.metadata or {})
            if set(schema.names) >= required and (not keys or keys == required):
                tables[f"{run.name}: {path.stem}"] = (run.name, path.stem)
    return tables


def _keys(metadata: "Mapping[bytes, bytes]") -> set[str]:
    """The key columns that a table declares: a table by relation has more than one row per head."""
    try:
        attributes = parse_json(metadata.get(b"PANDAS_ATTRS", b"{}"))
    except ValueError:
        return set()
    keys = attributes.get("keys") if isinstance(attributes, dict) else None
    return {str(key) for key in keys} if isinstance(keys, list) else set()


def second(
    what: Comparison,
    ref: str,
    doc: "Doc",
    target: "Doc | None",
    group: "Group",
    options: "Options",
    tables: "Tables",
) -> "list[Side]":
    """The second side of the comparison: another model, another text or value norms; or none."""
    from workbench.attention_browser.scene import side_of
    from workbench.attention_maps.capture import attention
    from workbench.attention_maps.grids import Weigh, groups

    if what == "nothing":
        return []
    if what == "value norms":
        maps = attention(cache.model(ref), doc, target)
        other: Weigh = "attention" if options.weigh == "norms" else "norms"
        queries = doc if group[0] == "encoder" or target is None else target
        return [side_of(maps, group, replace(options, weigh=other), queries, tables)]
    if what == "another model":
        model = cache.model(_second_model())
        if not model.sites:
            without_heads(model)
            return []
        target = doc if target is None and len(model.stacks) > 1 else target
    else:
        model = cache.model(ref)
        with row():
            doc = text("2")
        target = doc if target is not None else None
    with st.spinner("Computing attention …"):
        maps = attention(model, doc, target if len(model.stacks) > 1 else None)
    second_group = group if group in groups(maps) else groups(maps)[0]
    queries = doc if second_group[0] == "encoder" or target is None else target
    suffix = ", text 2" if what == "another text" else ""
    return [side_of(maps, second_group, options, queries, tables, suffix)]


def _second_model() -> str:
    """Draw a box for the second model; return its reference."""
    current = st.session_state.get("model2")
    return str(
        st.selectbox(
            "Second model",
            list(dict.fromkeys([*choice.models(), *([str(current)] if current else [])])),
            index=1,
            key="model2",
            bind="query-params",
            accept_new_options=True,
            width=420,
            help="A built-in model, a run that trained a model, a folder, or a hub id.",
        )
    )


def link_to_averages() -> None:
    """Draw a link to the experiment that averages attention over a corpus."""
    st.page_link(
        "pages/experiments.py",
        label="Average every head over the whole corpus",
        icon=":material/functions:",
        query_params={**choice.in_url(), "experiment": "attention-averages"},
        help="Runs attention-averages: attention by relative offset and by pairs of tags. You can "
        "then choose its table of heads under More, as badges.",
    )


def without_heads(model: "Model") -> None:
    """Draw what a model without attention has instead, with links to other pages."""
    layers = model.stacks[0].layers
    has = f"{layers} layers above its word layer" if layers else "one layer"
    st.info("This model has no attention.", icon=":material/visibility_off:")
    st.text(f"{model.without_heads}. It has {has}, which experiments can analyse.")
    with st.container(horizontal=True):
        st.page_link("pages/experiments.py", label="Run an experiment on its layers")
        st.page_link("pages/models.py", label="About this model")
        st.button(
            "Use mini:bert", on_click=choice.choose_model, args=("mini:bert",), type="tertiary"
        )
