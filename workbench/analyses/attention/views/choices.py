"""The choices of the page Attention: text, kind of attention, and how it is displayed.

Every choice is in the address. Costs: listing the tables of the latest runs, for badges.
"""

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, get_args

import streamlit as st

from workbench.analyses.attention.edits import with_mask
from workbench.app import cache, choice, navigation, selection
from workbench.app.runs import run_list
from workbench.app.tables_and_figures import draw_figure, segment
from workbench.app.text import plain
from workbench.app.text_boxes import CORPUS, OWN
from workbench.core.errors import WorkbenchError
from workbench.core.files import open_regular, parse_json
from workbench.core.head_names import FIRST, KIND_NAMES

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pandas as pd
    from spacy.tokens import Doc
    from streamlit.delta_generator import DeltaGenerator

    from workbench.analyses.attention.browser.scene import Side
    from workbench.analyses.attention.capture import AttentionMaps
    from workbench.analyses.attention.grids import Group, Options
    from workbench.engine.model import Model

    Tables = list[tuple[str, pd.DataFrame]]  # each with its label
    Reading = dict[str, Any]  # the arguments `order`, `seed` and `layers` of `attention`, if any

FROM, TEXT, BEFORE = "from", "text", "before"  # in the address; `before`: the text before an edit
OF_HEAD = ("pin", "word", *selection.OF_TEXT)  # in the address, and of one text
EXAMPLE = "The old captain saw the ship that she had sold to her brother."
TYPED_AT = "600ms"  # pause after which a typed text is read
SPECIAL = {
    "shown": "shown",
    "hidden": "hidden",
    "renormalised": "hidden, rows renormalised",
}
WEIGH = {"attention": "attention", "norms": "attention × value norm"}
ORDERED = {
    "left to right": "order left to right",
    "random": "random order",
    "as in training": "order as in training",
}
BLOCK = "block"  # of layers, in the address
MANY_BUTTONS = 16  # layers or heads; more are in a list
MAX_RUNS = 100  # of the latest runs, whose tables are offered
Comparison = Literal["nothing", "value norms", "another model", "another text"]


def draw_style() -> None:
    """Place the toolbar: one line above the figure, or below it on a phone."""
    st.html(_STYLE)


_STYLE = """<style>
.st-key-controls-attention { flex-wrap: nowrap; }
.st-key-controls-attention > * { flex-shrink: 0; }
.st-key-controls-attention > :has([data-testid="stTextInput"]) {
  flex: 1 1 160px; min-width: 160px;
}
.st-key-previous p, .st-key-next p {
  position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%);
}
@media (max-width: 1000px) {
  .st-key-controls-attention { flex-wrap: wrap; }
  .st-key-controls-attention > :has([data-testid="stTextInput"]) { flex-basis: 100%; order: -1; }
}
@media (max-width: 640px) {
  [data-testid="stLayoutWrapper"]:has(> [class*="st-key-controls-attention"]) { order: 9; }
}
</style>"""


def toolbar() -> "DeltaGenerator":
    """The container of the toolbar; a presentation hides it."""
    return st.container(
        key="controls-attention", horizontal=True, vertical_alignment="center", gap="xsmall"
    )


def second_toolbar(is_needed: bool) -> "DeltaGenerator":
    """The container below the toolbar, for a decoder's text and what is compared."""
    if not is_needed:
        return st.container()
    return st.container(
        key="controls-attention-second", horizontal=True, vertical_alignment="center", gap="xsmall"
    )


def sentence() -> "Doc":
    """Draw the text, which can be edited, and buttons for sentences of the corpus; return it."""
    is_own = _source() == OWN
    splits = _splits("")
    st.button(
        "Previous sentence", icon=":material/chevron_left:", key="previous", on_click=_step,
        args=(-1,), help="The previous sentence of the corpus.", type="tertiary",
    )  # fmt: skip
    with st.popover(_place(is_own), help="Which sentence of the corpus."):
        split, index = _sentence_boxes(splits, "")
        st.page_link(
            "pages/corpora.py", label="Search the corpus", query_params=choice.in_url(),
            icon=":material/search:",
        )  # fmt: skip
    st.button(
        "Next sentence", icon=":material/chevron_right:", key="next", on_click=_step,
        args=(1,), help="The next sentence of the corpus.", type="tertiary",
    )  # fmt: skip
    doc, error = None, None
    if not is_own:
        try:
            doc = cache.sentence(choice.corpus(), split, index)
        except WorkbenchError as found:
            error = found
    _draw_text("" if doc is None else doc.text, is_own)
    if error is not None:
        raise error
    return doc if doc is not None else cache.typed(st.query_params.get(TEXT, EXAMPLE))


def _source() -> str:
    """Whose text is shown; an address that has a text but not whose it is means that text."""
    address = st.query_params
    return OWN if address.get(FROM, OWN if TEXT in address else CORPUS) == OWN else CORPUS


def _draw_text(of_corpus: str, is_own: bool) -> None:
    """The box with the text: what one types there replaces the sentence of the corpus."""
    current = st.query_params.get(TEXT, EXAMPLE) if is_own else of_corpus
    if st.session_state.get("_shown text") != current or "sentence text" not in st.session_state:
        st.session_state["sentence text"] = st.session_state["_shown text"] = current
    st.text_input(
        "Sentence to look at",
        key="sentence text",
        label_visibility="collapsed",
        placeholder="Type a sentence",
        live=TYPED_AT,
        on_change=_typed,
        help="Type your own text. Parsed by an installed spaCy pipeline; without one, words are "
        "split by rules and there is no dependency tree.",
    )


def _typed() -> None:
    """The visitor typed: from now on the text is their own."""
    typed = str(st.session_state.get("sentence text") or "")
    st.session_state["_shown text"] = typed
    choose_text(typed)


def choose_text(text: str, before: str = "", word: int | None = None) -> None:
    """Show this text; `before` is the text before an edit, and `word` the edited word."""
    run_list.set_query(TEXT, text or " ", (*OF_HEAD, FROM, BEFORE))
    if before:
        st.query_params[BEFORE] = before
    if word is not None:
        st.query_params["word"] = str(word)


def choose_sentence(split: str, index: int) -> None:
    """Show this sentence of the corpus when the page is next drawn."""
    _of_corpus()
    st.session_state[_NEXT_SENTENCE] = (split, index)


_NEXT_SENTENCE = "next sentence of attention"


def _step(by: int) -> None:
    """Go to the next or the previous sentence; stay at the ends."""
    split = str(st.session_state.get(choice.SPLIT) or "")
    index = int(st.session_state.get(choice.SENTENCE) or 0)
    new = index if _source() == OWN else index + by
    if new >= 0 and (new < index or cache.sentences(choice.corpus(), split, new, 1)):
        choose_sentence(split, new)


def _place(is_own: bool) -> str:
    if is_own:
        return "own text"
    split = st.session_state.get(choice.SPLIT) or st.query_params.get(choice.SPLIT, "")
    index = st.session_state.get(choice.SENTENCE)
    index = st.query_params.get(choice.SENTENCE, "0") if index is None else index
    return plain(f"{split} {index}".strip(), 16)


def _splits(suffix: str) -> list[str]:
    """The splits of the corpus; a chosen split that it does not have is let go of."""
    if not suffix and _NEXT_SENTENCE in st.session_state:
        chosen = st.session_state.pop(_NEXT_SENTENCE)
        st.session_state[choice.SPLIT], st.session_state[choice.SENTENCE] = chosen
    splits = list(cache.corpus(choice.corpus()).splits)
    key = f"{choice.SPLIT}{suffix}"
    current = st.session_state.get(key) or st.query_params.get(key)
    if current not in splits:
        st.session_state[key] = splits[0]
        if current is not None:
            st.session_state[f"{choice.SENTENCE}{suffix}"] = 0
    return splits


def _sentence_boxes(splits: list[str], suffix: str) -> tuple[str, int]:
    change = None if suffix else _of_corpus
    split = st.selectbox(
        "Split",
        splits,
        key=f"{choice.SPLIT}{suffix}",
        bind="query-params",
        width=120,
        on_change=change,
        label_visibility="collapsed" if suffix else "visible",
    )
    index = st.number_input(
        "Sentence",
        min_value=0,
        max_value=999_999_999,
        step=1,
        key=f"{choice.SENTENCE}{suffix}",
        bind="query-params",
        width=130,
        on_change=change,
        label_visibility="collapsed" if suffix else "visible",
        help="Number of the sentence, counted from 0.",
    )
    return str(split), int(index or 0)


def _of_corpus() -> None:
    """A sentence of the corpus was chosen: the visitor's own text is forgotten."""
    run_list.set_query(FROM, None, (*OF_HEAD, TEXT, BEFORE))


def text(suffix: str) -> "Doc":
    """Draw the boxes for a second text and return it; `suffix` separates its keys."""
    source = segment(f"Text {suffix}", [CORPUS, OWN], f"from{suffix}", label_visibility="collapsed")
    if source == OWN:
        typed = st.text_input(
            "Input text",
            value=EXAMPLE,
            key=f"text{suffix}",
            bind="query-params",
            label_visibility="collapsed",
        )
        return cache.typed(typed or "")
    return cache.sentence(choice.corpus(), *_sentence_boxes(_splits(suffix), suffix))


def maps_before(model: "Model", target: "Doc | None", reading: "Reading") -> "AttentionMaps | None":
    """The maps of the text before an edit; None if the text was not edited."""
    from workbench.analyses.attention.capture import attention

    former = st.query_params.get(BEFORE, "")
    if not former.strip() or _source() != OWN:
        return None
    return attention(model, with_mask(model, cache.typed(former)), target, **reading)


def target(doc: "Doc") -> "Doc":
    """Draw a box for the decoder's text; the default is the input text."""
    typed = st.text_input(
        "Decoder text",
        key="target",
        bind="query-params",
        label_visibility="collapsed",
        placeholder="Decoder text: same as the input",
        help="The text that the decoder writes while it attends to the input: for example a "
        "translation or a summary (default: the input text). It is read shifted by one piece.",
    )
    return cache.typed(typed) if typed and typed.strip() else doc


def block(model: "Model", doc: "Doc", target: "Doc | None") -> range | None:
    """Draw which layers are read, if the maps of all would be too large; None if all are."""
    from workbench.analyses.attention.capture import blocks

    found = blocks(model, doc, target)
    if len(found) == 1:
        return None
    last = found[-1][-1] + FIRST
    names = {f"{each[0] + FIRST}–{each[-1] + FIRST}": each for each in found}
    layer = st.query_params.get("head", "").partition(".")[0]
    own = [n for n, each in enumerate(found) if layer in {str(index + FIRST) for index in each}]
    chosen = st.selectbox(
        "Layers",
        list(names),
        own[0] if own else 0,
        format_func=lambda name: f"layers {name} of {last}",
        key=f"{BLOCK}{len(found)}",
        label_visibility="collapsed",
        width=190,
        help="The maps of this text are large, so some layers are read at a time.",
    )
    return names[str(chosen)]


def prediction_order(bar: "DeltaGenerator") -> "Reading":
    """Draw the order in which an XLNet predicts pieces."""
    from workbench.analyses.attention.orders import ORDERS, OrderName

    with bar:
        order: OrderName | None = st.selectbox(
            "Prediction order",
            [None, *ORDERS],
            format_func=lambda name: ORDERED[name] if name else "Prediction order …",
            key="predicted",
            bind="query-params",
            label_visibility="collapsed",
            width=230,
            help="This model was trained to predict pieces in random orders. By an order, a piece "
            "sees only what comes before it; what the order hides is hatched. The content stream "
            "also sees the piece itself, the query stream, which predicts, does not. As in "
            "training: a sixth of the pieces is predicted, from all others.",
        )
        if order is None:
            return {}
        seed = 0
        if order != "left to right":
            drawn = st.number_input(
                "Seed", min_value=0, max_value=999_999_999, step=1, key="seed", width=130,
                bind="query-params", label_visibility="collapsed", help="Seed of the order.",
            )  # fmt: skip
            seed = int(drawn or 0)
    return {"order": order, "seed": seed}


def masks(maps: "AttentionMaps", bar: "DeltaGenerator") -> None:
    """Draw which piece may see which in both streams, by the prediction order."""
    from workbench.analyses.attention.figures import masks_of_order
    from workbench.drawing.sanitize import harmless
    from workbench.report.content import Drawing, words_of

    if maps.places:
        with bar.popover("Both masks", icon=":material/grid_on:", width="content"):
            words = words_of(masks_of_order)
            draw_figure(Drawing("masks", "", *words, harmless(maps.masks_figure())), "masks")


def display_options(
    maps: "AttentionMaps", bar: "DeltaGenerator", second_bar: "DeltaGenerator"
) -> "tuple[Group, Options, Tables]":
    """Draw the display options; return the attention group, the options and tables for badges."""
    from workbench.analyses.attention.grids import TOGETHER, Options, Special, Unit, Weigh, numbers

    with second_bar:
        group = _group(maps)
    with bar:
        unit: Unit = st.segmented_control(
            "Unit",
            get_args(Unit),
            format_func=lambda name: {"pieces": "tokens"}.get(name, name),
            default="pieces",
            required=True,
            key="unit",
            bind="query-params",
            label_visibility="collapsed",
        )
        more = st.popover("More", icon=":material/tune:")
    with more:
        special: Special = st.selectbox(
            "Special tokens",
            get_args(Special),
            format_func=lambda name: SPECIAL[name],
            key="special",
            bind="query-params",
            help="Tokens such as [CLS], [SEP] and </s>. Renormalised: the remaining weights of "
            "each row sum to 1.",
        )
        together = st.selectbox(
            "Heads",
            TOGETHER,
            key="together",
            bind="query-params",
            help="Show each head, or combine several. Rollout multiplies the layers from the "
            "lowest up, each mixed half and half with the identity (Abnar and Zuidema 2020).",
        )
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
        st.caption(
            "Tokens are the subword pieces that the model reads. For words, attention is summed "
            "over the tokens of the attended word and averaged over those of the attending word."
        )
        link_to_averages()
    return group, Options(unit, special, weigh, together, chosen_layers, chosen_heads), tables


def _group(maps: "AttentionMaps") -> "Group":
    """The stack and kind of attention to show; a box is drawn if there are several."""
    from workbench.analyses.attention.grids import groups
    from workbench.analyses.attention.orders import STREAMS

    names = STREAMS if maps.places else KIND_NAMES
    options = {f"{stack} {names[kind]}": (stack, kind) for stack, kind in groups(maps)}
    if len(options) == 1:
        return next(iter(options.values()))
    about = (
        "Self-attention: within the encoder. Causal attention: within the decoder, to earlier "
        "pieces only. Cross-attention: from the decoder to the encoder."
    )
    if maps.places:
        about = (
            "Content stream: it reads pieces. Query stream: it predicts them without seeing them."
        )
    return options[
        segment("Attention", list(options), "attention", help=about, label_visibility="collapsed")
    ]


def _subset(label: str, options: list[int], key: str) -> tuple[int, ...]:
    names, about = [str(index + FIRST) for index in options], f"{label} to show (default: all)."
    if len(options) > MANY_BUTTONS:
        picked = st.multiselect(label, names, key=key, bind="query-params", help=about)
    else:
        picked = st.pills(
            label, names, selection_mode="multi", key=key, bind="query-params", help=about
        )
    return tuple(index for index in options if str(index + FIRST) in picked)


def comparison() -> Comparison:
    """Draw a box for what the attention is compared with."""
    chosen: Comparison = st.selectbox(
        "Compare with",
        get_args(Comparison),
        format_func=lambda name: "Compare with …" if name == "nothing" else name,
        key="compare",
        bind="query-params",
        label_visibility="collapsed",
        width=160,
        help="Value norms: the same heads, weighted by the norm of the value vectors. Another "
        "model: a second model or checkpoint on the same text. Another text: the same model. "
        "If the words align, the difference is shown too.",
    )
    return chosen


def _badges() -> "Tables":
    """Tables of runs with one row for each head, to sort and filter the heads by."""
    from workbench.analyses.attention.browser.scene import HEAD_COLUMNS

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
    bar: "DeltaGenerator",
    reading: "Reading",
) -> "list[Side]":
    """The second side of the comparison: another model, another text or value norms; or none."""
    from workbench.analyses.attention.browser.scene import side_of
    from workbench.analyses.attention.capture import attention
    from workbench.analyses.attention.grids import Weigh, groups
    from workbench.models.scoring.lm_scoring import predicts_in_order

    if what == "nothing":
        return []
    if what == "value norms":
        maps = attention(cache.model(ref), doc, target, **reading)
        other: Weigh = "attention" if options.weigh == "norms" else "norms"
        queries = doc if group[0] == "encoder" or target is None else target
        name = choice.name_of(ref, "models")
        return [side_of(maps, group, replace(options, weigh=other), queries, tables, model=name)]
    if what == "another model":
        with bar:
            chosen = _second_model()
        model = cache.model(chosen)
        if not model.sites:
            without_heads(model)
            return []
        target = doc if target is None and len(model.stacks) > 1 else target
    else:
        chosen, model = ref, cache.model(ref)
        with bar:
            doc = with_mask(model, text("2"))
        target = doc if target is not None else None
    with st.spinner("Computing attention …"):
        if not predicts_in_order(model):
            reading = {name: value for name, value in reading.items() if name == "layers"}
        maps = attention(model, doc, target if len(model.stacks) > 1 else None, **reading)
    second_group = group if group in groups(maps) else groups(maps)[0]
    queries = doc if second_group[0] == "encoder" or target is None else target
    suffix = ", text 2" if what == "another text" else ""
    name = choice.name_of(chosen, "models")
    return [side_of(maps, second_group, options, queries, tables, suffix, model=name)]


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
            label_visibility="collapsed",
            width=420,
            help="A built-in model, a run that trained a model, a folder, a hub id, "
            "or a .gguf file.",
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


def link_to_head(model: "Model", group: "Group", text: str) -> None:
    """Draw a link to the page of the open head, with the same text."""
    if head := st.query_params.get("head"):
        is_several = len({(site.stack, site.kind) for site in model.sites}) > 1
        name = f"{' '.join(group)} {head}" if is_several else head
        navigation.link(
            "head",
            f"Turn head {plain(head)} off",
            icon=":material/toggle_off:",
            query_params={**choice.in_url(), "head": name, TEXT: text},
            help="The page of this head: its role, and the predictions without it.",
        )


def without_heads(model: "Model") -> None:
    """Draw what a model without attention has instead, with links to other pages."""
    layers = model.stacks[0].layers
    has = f"{layers} layers above its word layer" if layers else "one layer"
    st.header("This model has no attention", anchor=False)
    st.text(f"{model.without_heads}. It has {has}, which experiments can analyse.")
    with st.container(horizontal=True, vertical_alignment="center"):
        if model.objective:
            navigation.link("predict", "What it predicts", query_params=choice.in_url())
        st.page_link("pages/experiments.py", label="Run an experiment on its layers")
        st.page_link("pages/models.py", label="About this model")
        st.button(
            "Use mini:bert", on_click=choice.choose_model, args=("mini:bert",), type="tertiary"
        )
