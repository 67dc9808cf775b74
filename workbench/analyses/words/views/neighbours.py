"""The tab Neighbours of the page Words: the nearest occurrences of a word, by layer.

Costs: an index of the corpus, the first time (`words_index`); then tens of milliseconds for each
model and text.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import streamlit as st

from workbench.analyses.words.views import choices as words
from workbench.analyses.words.views import index as words_index
from workbench.analyses.words.views import results as words_results
from workbench.analyses.words.views.choices import Query, Searched
from workbench.analyses.words.views.results import AMONG, Search
from workbench.app import cache, choice, navigation
from workbench.app.downloads import downloads
from workbench.app.tables_and_figures import kind, select
from workbench.app.text import errors_shown, plain
from workbench.app.text_boxes import row, second_model
from workbench.app.token_views.component import Views, token_views
from workbench.app.token_views.views import Context, Contexts, contexts, index_in
from workbench.core.findings import of_all, verb_of
from workbench.core.groups import grouped
from workbench.core.head_names import at_state, state_name, state_number
from workbench.drawing.sentence import marked

if TYPE_CHECKING:
    from spacy.tokens import Doc

    from workbench.analyses.words.neighbours import Neighbours
    from workbench.engine.model import Model

COUNTS = ("10", "5", "20", "50")
ROOM = 36  # characters on either side of a word
TIP = 300  # characters of a sentence that is pointed at
TAGS = 3  # tags that are counted above a list
ALL = "all splits"


def searched() -> Searched:
    """Draw the boxes for the part of the corpus that is searched."""
    corpus = choice.corpus()
    with st.popover("Corpus", icon=":material/database:"):
        split = select(
            "Split",
            [ALL, *cache.corpus(corpus).splits],
            "in",
            help="The part of the corpus that is searched (default: all splits, in turn).",
        )
        most = select(
            "Maximum number of words",
            words.SIZES,
            "most",
            1,
            help="The first texts are searched, up to so many words (default 50,000). The index "
            "of 50,000 words takes about ten seconds with a small model, and 4 bytes on disk for "
            "each number of each state.",
        )
    return Searched(corpus, "" if split == ALL else split, int(most))


def models(ref: str, other: str) -> "list[tuple[str, Model]]":
    """The chosen model, and the second one if there is any."""
    found = [(ref, cache.model(ref))]
    if other and other != ref:
        with errors_shown():
            found.append((other, cache.model(other)))
    return found


def draw(ref: str, docs: "Sequence[Doc]", chosen: Sequence[int]) -> None:
    """Draw the tab: for each model and text the nearest occurrences, by layer."""
    first = cache.model(ref)
    with row("neighbours"):
        among = select(
            "Search",
            AMONG,
            "among",
            width=150,
            help="All words; only the same word, in any case; only words of the same lemma; or the "
            "nearest occurrence of each form.",
        )
        k = select("Neighbours", COUNTS, "k", width=100, help="Number of neighbours (default 10).")
        stack = stack_of(first)
        layers = _layers(first, stack)
        other = second_model(190)
        part = searched()
    queries = [
        Query(model_ref, model, doc, word, number)
        for model_ref, model in models(ref, other)
        for number, (doc, word) in enumerate(zip(docs, chosen, strict=True))
    ]
    for model in {query.ref: query.model for query in queries}.values():
        words_index.progress(model, part)
    found: list[tuple[Query, Neighbours]] = []
    for query in queries:
        with errors_shown():
            if (index := words_index.ready(query.model, part)) is None:
                return
            result = words_results.neighbours(
                query, index, _search(query, layers, stack, int(k), among)
            )
            found.append((query, result))
    if found:
        _draw_found(found, part, len({query.ref for query in queries}) > 1)


def stack_of(model: "Model") -> str:
    """Draw a box for the stack, if the model has several."""
    names = [stack.name for stack in model.stacks]
    if len(names) == 1:
        return ""
    return select(
        "Stack", names, "stack", width=120, help="The encoder reads the text; the decoder, too."
    )


def _layers(model: "Model", stack: str) -> tuple[int, ...]:
    """Draw buttons for the layers; by default the first, the middle and the last."""
    last = last_layer(model, stack)
    picked = st.pills(
        "Layers",
        [state_number(layer) for layer in range(last + 1)],
        default=[state_number(layer) for layer in sorted({0, last // 2, last})],
        selection_mode="multi",
        key="layers",
        bind="query-params",
        help="Layers to show next to each other (default: the embeddings, the middle and the "
        "last). Embeddings know no context; in some models they know the position.",
    )
    return tuple(layer for layer in range(last + 1) if state_number(layer) in (picked or ()))


def last_layer(model: "Model", name: str) -> int:
    """The index of the last layer of a stack."""
    return next(stack.layers for stack in model.stacks if name in ("", stack.name))


def _search(query: Query, layers: Sequence[int], stack: str, k: int, among: str) -> Search:
    """What is searched with this model, which may have other stacks and fewer layers."""
    own = stack if stack in [each.name for each in query.model.stacks] else ""
    return Search(tuple(n for n in layers if n <= last_layer(query.model, own)), own, k, among)


def _draw_found(
    found: "Sequence[tuple[Query, Neighbours]]", part: Searched, are_several: bool
) -> None:
    _compared(found)
    blocks: list[tuple[str, Views]] = []
    for query, result in found:
        token = query.doc[query.word]
        before, word, after = context(query.doc.text, token.idx, token.idx + len(token))
        name = f" · {plain(query.name)}" if are_several else ""
        st.markdown(f"{plain(before)}**{plain(word)}**{plain(after)}{name}")
        key = f"neighbours {query.ref} {query.number}"
        view = contexts("neighbours", lists(result), pickable=True, about="Opens the sentence.")
        token_views([view], key, opening)
        open_sentence(query.model, part, set(result.table["occurrence"]), key)
        _links(query, result)
        blocks.append((f"{query.name}: {before}{word}{after}", [view]))
    notes = [f"{query.name}: {note}" for query, result in found for note in result.notes]
    for note in dict.fromkeys(notes):
        st.caption(plain(note))
    _downloads(found, blocks)


def _links(query: Query, found: "Neighbours") -> None:
    """Draw links to the pages of the word, and of the layers in view."""
    if query.ref != choice.model():
        return
    stack = f"{found.stack} " if len(query.model.stacks) > 1 else ""
    text = {**choice.in_url(), "text": query.doc.text[:2000]}
    with st.container(horizontal=True):
        if "word" not in st.query_params:  # else it is the page of the word
            navigation.link(
                "word",
                f"All about “{plain(words.clipped(query.form, 20))}”",
                icon=":material/abc:",
                query_params={**text, "word": query.form},
            )
        for layer in filter(None, found.table["layer"].unique().tolist()):
            navigation.link(
                "layer",
                f"What {state_name(layer)} does",
                icon=":material/layers:",
                query_params={**text, "layer": f"{stack}{layer}"},
            )


def opening(pick: Mapping[str, Any]) -> None:
    if (index := index_in(pick, "i", 1 << 40)) is not None:
        words.open_occurrence(index)


def lists(found: "Neighbours") -> list[Contexts]:
    """A list for each layer, with what its neighbours have in common."""
    form = found.word.lower()
    opened = words.opened()
    columns = []
    for layer, own in found.table.groupby("layer", sort=False):
        rows = [context_of(each, opened, each["similarity"]) for each in own.to_dict("records")]
        n_same = int((own["form"].str.lower() == form).sum())
        tags = Counter(tag for tag in own["tag"] if tag).most_common(TAGS)
        same = {0: f"none of {len(own)} is", len(own): f"all {len(own)} are"}.get(
            n_same, f"{n_same} of {len(own)} {verb_of(n_same, 'is', 'are')}"
        )
        about = [f"{same} “{words.clipped(found.word, 20)}”"]
        about += [", ".join(f"{tag} {count}" for tag, count in tags)] if tags else []
        columns.append(Contexts(state_name(layer), rows, "; ".join(about)))
    return columns


def context_of(each: Mapping[Any, Any], opened: int | None, value: float | None = None) -> Context:
    """An occurrence as a row of a list."""
    before, word, after = context(each["sentence"], each["start"], each["end"], ROOM)
    index = int(each["occurrence"])
    tip = words.clipped(each["sentence"], TIP)
    return Context(index, before, word, after, value, str(each["tag"]), tip, index == opened)


def context(text: str, start: int, end: int, room: int = 2 * ROOM) -> tuple[str, str, str]:
    """The characters before a word, the word, and those after it."""
    from workbench.analyses.words.occurrences import around

    return around(text, start, end, room)


def _compared(found: "Sequence[tuple[Query, Neighbours]]") -> None:
    """Say how many neighbours the two texts have in common, by layer."""
    by_model = grouped((query.ref, result) for query, result in found)
    for ref, pair in by_model.items():
        if len(pair) == 2:
            st.markdown(plain(f"{choice.name_of(ref, 'models')}: {in_common(*pair)}"))


def in_common(first: "Neighbours", second: "Neighbours") -> str:
    """How many neighbours two words have in common, by layer, in a sentence."""
    forms = [words.clipped(each.word, 20) for each in (first, second)]
    who = f"“{forms[0]}” in the two texts shares"
    if forms[0].lower() != forms[1].lower():
        who = f"“{forms[0]}” and “{forms[1]}” share"
    k = int(first.table["rank"].max())
    names = {0: "none", k: "all"}
    counts = [
        f"{names.get(n, n) if place else of_all(n, k, 'neighbour')} at {at_state(layer)}"
        for place, (layer, n) in enumerate(shared(first, second).items())
    ]
    return f"{who} {', '.join(counts)}."


def shared(first: "Neighbours", second: "Neighbours") -> dict[int, int]:
    """The number of neighbours in common, by layer."""
    both = {}
    for layer in first.table["layer"].unique().tolist():
        own, other = (
            {*each.table["occurrence"][each.table["layer"] == layer]} for each in (first, second)
        )
        both[layer] = len(own & other)
    return both


# --- one sentence ---------------------------------------------------------------------------------


def open_sentence(model: Any, part: Searched, among: set[int], key: str) -> None:
    """Draw the opened sentence, if it is among these occurrences, with what one can do with it."""
    number = words.opened()
    if number is None or number not in among:
        return
    indexed = words_index.ready(model, part)
    if indexed is None or (each := words_results.occurrence(indexed.index, number)) is None:
        return
    with st.container(border=True):
        st.html(
            marked(
                each.sentence,
                [(each.start, each.end)],
                kind(),
                [dict(each.labels).get("tag", "")],
            )
        )
        labels = [f"{name} {value}" for name, value in each.labels]
        st.caption(plain(" · ".join([*labels, f"{each.document} ({each.split})"])))
        with st.container(horizontal=True, vertical_alignment="center"):
            st.button(
                "Search from here",
                icon=":material/my_location:",
                key=f"search from {key}",
                help="Makes this sentence the text, and this word the chosen one.",
                on_click=words.search_from,
                args=(each.sentence, each.start),
            )
            st.page_link(
                "pages/corpora.py",
                label="Open in Corpora",
                icon=":material/open_in_new:",
                query_params={**choice.in_url(), **choice.showing(each.split, each.text)},
            )
            st.button(
                "Close",
                icon=":material/close:",
                key=f"close {key}",
                on_click=words.open_occurrence,
                args=(number,),
            )


def _downloads(
    found: "Sequence[tuple[Query, Neighbours]]", blocks: Sequence[tuple[str, Views]]
) -> None:
    import pandas as pd

    from workbench.analyses.words.figures.words import nearest

    tables = []
    for query, result in found:
        table = result.table.copy()
        table.insert(0, "model", result.model)
        table.insert(1, "text", query.number + 1)
        tables.append(table)
    table = pd.concat(tables, ignore_index=True)
    title = f"Nearest to “{words.clipped(found[0][1].word)}” in {found[0][1].corpus}"
    downloads("neighbours", table, lambda: blocks, lambda: nearest(table), title)
