"""Sentences of a split, ten at a time, one of them open with all its annotation.

Costs: reading the sentences before those shown, a passage at a time, which is cached.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import streamlit as st

from workbench.app import cache, choice, navigation
from workbench.app.text import captions, plain

if TYPE_CHECKING:
    from workbench.corpora.browse import Size

_STYLE = """<style>
.st-key-sentences button { text-align: left; min-height: 1.75rem; }
.st-key-opened-sentence {
  border: solid var(--shell-line); border-width: 1px 0; padding: 8px 0 16px;
}
</style>"""
_OF = "corpus of the split"  # in the session: the corpus whose split is in the address
PAGE = 10  # sentences listed at a time
SHOWN = 110  # characters of a sentence in the list


def draw(ref: str, sizes: "Sequence[Size]") -> None:
    """Draw the controls (split, sentence, search) and the sentences."""
    st.html(_STYLE)
    is_other = st.session_state.get(_OF, ref) != ref  # then the address is of the one before
    st.session_state[_OF] = ref
    split, index, query = draw_controls([size.split for size in sizes], is_other)
    if query:
        draw_matches(ref, split, query, index)
    else:
        draw_sentences(ref, split, next(size for size in sizes if size.split == split), index)


def go(index: int) -> None:
    """Open the sentence with this index."""
    st.session_state["sentence"] = max(0, index)


def draw_controls(splits: list[str], is_other: bool) -> tuple[str, int, str]:
    """Draw the controls; return the split, the index of the sentence and the search query.

    `is_other`: the visitor came from another corpus, whose split needs no words here.
    """
    in_address = st.query_params.get("split")
    if st.session_state.get("split", splits[0]) not in splits:
        st.session_state["split"] = splits[0]  # deleted, it would stay in the box of the browser
    if in_address and in_address not in splits and not is_other:
        st.warning(f"This corpus has no split {plain(in_address, 60)}. Showing {plain(splits[0])}.")
    sentence = st.query_params.get("sentence", "0")
    if not (sentence.isascii() and sentence.isdecimal() and len(sentence) < 10):
        st.warning(f"{plain(sentence, 60)} is not a sentence number. Sentences are counted from 0.")
    columns = st.columns([1, 1, 2])
    split = columns[0].selectbox(
        "Split",
        splits,
        key="split",
        bind="query-params",
        help="Part of the corpus: train for training, dev and test for evaluation.",
    )
    index = columns[1].number_input(
        "Sentence",
        min_value=0,
        step=1,
        key="sentence",
        bind="query-params",
        help="Number of the sentence within the split, counted from 0.",
    )
    query = columns[2].text_input(
        "Find a word",
        key="find",
        placeholder="a word or consecutive words",
        help="Upper and lower case are treated as equal.",
        max_chars=200,
    )
    return str(split), int(index or 0), str(query or "").strip()


def draw_sentences(ref: str, split: str, size: "Size", index: int) -> None:
    """Draw ten sentences, one of them open."""
    if not size.docs:
        st.info("This split has no sentences.")
        return
    if size.whole and index >= size.docs:
        last = size.docs - 1
        st.warning(f"There is no sentence {index:,} in {plain(split)}. The last is {last:,}.")
        st.button(f"Go to sentence {last:,}", on_click=go, args=(last,))
        return
    first = index // PAGE * PAGE
    docs = cache.sentences(ref, split, first, PAGE)
    if index - first >= len(docs):
        st.warning(f"There is no sentence {index:,} in {plain(split)}.")
        st.button("Go to the first sentence", on_click=go, args=(0,))
        return
    at_end = size.whole and first + PAGE >= size.docs
    draw_pager(first, first + len(docs) - 1, size, at_end)
    with st.container(gap="xsmall", key="sentences"):
        for number, doc in enumerate(docs, start=first):
            draw_row(ref, split, number, doc.text, number == index)


def draw_pager(first: int, last: int, size: "Size", at_end: bool) -> None:
    """Draw the buttons for the previous and next page, and which sentences are shown."""
    with st.container(horizontal=True, vertical_alignment="center"):
        st.button(
            "Previous",
            icon=":material/chevron_left:",
            disabled=first == 0,
            on_click=go,
            args=(first - PAGE,),
        )
        st.button(
            "Next",
            icon=":material/chevron_right:",
            icon_position="right",
            disabled=at_end,
            on_click=go,
            args=(first + PAGE,),
        )
        whole = f"{size.docs:,}" if size.whole else f"more than {size.docs:,}"
        st.caption(f"Sentences {first:,} to {last:,} of {whole}", width="content")


def draw_row(ref: str, split: str, index: int, text: str, opened: bool) -> None:
    """Draw a sentence of the list; the open one with all its annotation."""
    shown = plain(text.strip() or "(no text)", SHOWN)
    if not opened:
        st.button(
            f"{index:,}\u2002{shown}",
            key=f"open-{index}",
            type="tertiary",
            on_click=go,
            args=(index,),
        )
        return
    with st.container(key="opened-sentence"):
        st.markdown(f"{index:,}\u2002**{plain(text.strip() or '(no text)', 4000)}**")
        from workbench.app.dependency_tree import draw

        doc = cache.sentences(ref, split, index, 1)[0]
        if doc._.document:
            name = doc._.sent_ids[0] if len(doc._.sent_ids) == 1 else ""
            source = f"From {plain(doc._.document, 80)}"
            st.caption(f"{source}, sentence {plain(name, 80)}" if name else source)
        draw(doc)
        navigation.link(
            "attention",
            "Show attention on this sentence",
            icon=":material/visibility:",
            query_params=choice.showing(split, index),
        )


def draw_matches(ref: str, split: str, query: str, index: int) -> None:
    """Draw the sentences that contain the query, ten at a time, one of them open."""
    from workbench.corpora.browse import REACH

    reach = int(st.session_state.get("reach", REACH))
    matches = cache.search(ref, split, query, reach)
    count = f"{len(matches.numbers):,}" if matches.numbers else "No"
    noun = "match" if len(matches.numbers) == 1 else "matches"
    searched = "all" if matches.whole else "the first"
    st.markdown(f"{count} {noun} in {searched} {matches.looked:,} sentences.")
    if not matches.whole:
        st.button(
            "Search further",
            on_click=lambda: st.session_state.update(reach=reach * 2),
            help=f"Searches up to sentence {reach * 2:,}.",
        )
    start = sum(hit < index for hit in matches.numbers) // PAGE * PAGE
    if matches.numbers and start >= len(matches.numbers):
        start = (len(matches.numbers) - 1) // PAGE * PAGE
    hits = list(zip(matches.numbers, matches.texts, strict=True))
    if len(hits) > PAGE:
        with st.container(horizontal=True, vertical_alignment="center"):
            before = hits[max(0, start - PAGE)][0]
            after = hits[min(len(hits) - 1, start + PAGE)][0]
            st.button("Previous", disabled=start == 0, on_click=go, args=(before,))
            st.button("Next", disabled=start + PAGE >= len(hits), on_click=go, args=(after,))
            last = min(start + PAGE, len(hits))
            st.caption(f"Matches {start + 1:,} to {last:,} of {len(hits):,}", width="content")
    with st.container(gap="xsmall", key="sentences"):
        for number, text in hits[start : start + PAGE]:
            draw_row(ref, split, number, text, number == index)


# --- the chosen corpus: its splits, their sizes, its annotation layers ----------------------------
#
# Costs: counting a bounded part of the corpus once; all of it if the user asks for it.

LAYERS = {
    "words": "words",
    "sentences": "sentence boundaries",
    "pos": "parts of speech",
    "tags": "treebank-specific tags",
    "lemmas": "lemmas (dictionary forms)",
    "morphs": "morphological features",
    "dependencies": "dependency trees",
    "entities": "named entities",
    "constituents": "constituents (phrases)",
    "coreference": "coreference chains",
    "segments": "the two texts of a pair",
    "answers": "answers to questions",
}


def draw_chosen(ref: str) -> "Sequence[Size]":
    """Draw the splits and layers of the chosen corpus; return the sizes of its splits."""
    with st.spinner("Opening the corpus …"):
        corpus = cache.corpus(ref)
        sizes = cache.sizes(ref, bool(st.session_state.get(f"count {ref}")))
        layers = cache.layers(ref)
    st.table(
        [
            {
                "split": plain(size.split),
                "sentences": _at_least(size.docs, size.whole),
                "words": _at_least(size.words, size.whole),
            }
            for size in sizes
        ],
        border="horizontal",
        hide_index=True,
    )
    if not all(size.whole for size in sizes):
        st.button(
            "Count all sentences",
            help="Reads the whole corpus: about 10 seconds for 100,000 sentences.",
            on_click=lambda: st.session_state.update({f"count {ref}": True}),
        )
    names = [LAYERS.get(layer, layer.replace("label:", "the label ")) for layer in layers]
    st.markdown(
        f"**Annotation layers:** {plain(', '.join(names))}.",
        help="Annotation found in the first sentences of every split. An experiment that needs an "
        "annotation layer not listed here shows an error.",
    )
    captions(corpus.notes)
    return sizes


def _at_least(count: int, whole: bool) -> str:
    return f"{count:,}" if whole else f"more than {count:,}"


def draw_fetch(ref: str) -> None:
    """Draw the question whether the network may be used."""
    st.warning("This corpus is on the Hugging Face hub and not on this machine.")
    st.button(
        "Download from the hub",
        icon=":material/download:",
        help="Downloads the rows that are shown from huggingface.co. Nothing else on this page "
        "uses the network.",
        on_click=lambda: st.session_state.setdefault("hub-corpora", set()).add(ref),
    )
