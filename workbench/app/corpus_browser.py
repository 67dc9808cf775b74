"""Sentences of a split, ten at a time, one of them open with all that is known of it.

Costs the reading of the sentences before those that are shown, a passage at a time, which is kept.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import streamlit as st

from workbench.app import cache, sidebar
from workbench.app.text import plain

if TYPE_CHECKING:
    from workbench.corpora.browse import Size

TO_THE_LEFT = "<style>.st-key-sentences button {text-align: left}</style>"
PAGE = 10  # sentences listed at a time
SHOWN = 110  # characters of a sentence in the list


def draw(ref: str, sizes: "Sequence[Size]") -> None:
    """Which split and sentence, or which word to find; and the sentences."""
    st.html(TO_THE_LEFT)
    split, number, wanted = draw_controls([size.split for size in sizes])
    if wanted:
        draw_found(ref, split, wanted, number)
    else:
        draw_sentences(ref, split, next(size for size in sizes if size.split == split), number)


def go(number: int) -> None:
    """Open the sentence with this number."""
    st.session_state["sentence"] = max(0, number)


def draw_controls(splits: list[str]) -> tuple[str, int, str]:
    """Which split, which sentence, and what to find."""
    asked = st.query_params.get("split")
    if st.session_state.get("split", splits[0]) not in splits:
        del st.session_state["split"]
    if asked and asked not in splits:
        st.warning(f"There is no split {plain(asked, 60)} here; this is {plain(splits[0])}.")
    place = st.query_params.get("sentence", "0")
    if not (place.isascii() and place.isdecimal() and len(place) < 10):
        st.warning(f"{plain(place, 60)} is no number of a sentence; they count from 0.")
    columns = st.columns([1, 1, 2])
    split = columns[0].selectbox(
        "Split",
        splits,
        key="split",
        bind="query-params",
        help="A corpus has parts: train to learn from, dev and test to measure on.",
    )
    number = columns[1].number_input(
        "Sentence",
        min_value=0,
        step=1,
        key="sentence",
        bind="query-params",
        help="Its number within the split, counted from 0. The address of this page has it too.",
    )
    wanted = columns[2].text_input(
        "Find a word",
        key="find",
        placeholder="a word, or several that stand together",
        help="Upper and lower case are the same.",
        max_chars=200,
    )
    return str(split), int(number or 0), str(wanted or "").strip()


def draw_sentences(ref: str, split: str, size: "Size", number: int) -> None:
    """Ten sentences, one of them open."""
    if not size.docs:
        st.info("There are no sentences in this split.")
        return
    if size.whole and number >= size.docs:
        last = size.docs - 1
        st.warning(f"There is no sentence {number:,} in {plain(split)}; the last is {last:,}.")
        st.button(f"Go to sentence {last:,}", on_click=go, args=(last,))
        return
    first = number // PAGE * PAGE
    docs = cache.sentences(ref, split, first, PAGE)
    if number - first >= len(docs):
        st.warning(f"There is no sentence {number:,} in {plain(split)}.")
        st.button("Go to the first", on_click=go, args=(0,))
        return
    at_end = size.whole and first + PAGE >= size.docs
    draw_pager(first, first + len(docs) - 1, size, at_end)
    with st.container(gap="xsmall", key="sentences"):
        for place, doc in enumerate(docs, start=first):
            draw_row(ref, split, place, doc.text, place == number)


def draw_pager(first: int, last: int, size: "Size", at_end: bool) -> None:
    """Where in the split one is, and on to the next."""
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


def draw_row(ref: str, split: str, number: int, text: str, opened: bool) -> None:
    """A sentence in the list; the open one with all that is known of it."""
    shown = plain(text.strip() or "(no text)", SHOWN)
    if not opened:
        st.button(
            f"{number:,}\u2002{shown}",
            key=f"open-{number}",
            type="tertiary",
            on_click=go,
            args=(number,),
        )
        return
    with st.container(border=True):
        st.markdown(f"{number:,}\u2002**{plain(text.strip() or '(no text)', 4000)}**")
        from workbench.app.dependency_tree import draw

        doc = cache.sentences(ref, split, number, 1)[0]
        if doc._.document:
            name = doc._.sent_ids[0] if len(doc._.sent_ids) == 1 else ""
            told = f"From {plain(doc._.document, 80)}"
            st.caption(f"{told}, sentence {plain(name, 80)}" if name else told)
        draw(doc)
        st.page_link(
            "pages/attention.py",
            label="See its attention",
            icon=":material/visibility:",
            query_params=sidebar.showing(split, number),
        )


def draw_found(ref: str, split: str, wanted: str, number: int) -> None:
    """Sentences with a word in them, ten at a time, the open one as in the list."""
    from workbench.corpora.browse import REACH

    reach = int(st.session_state.get("reach", REACH))
    found = cache.found(ref, split, wanted, reach)
    if found.whole:
        where = f"all {found.looked:,} sentences"
    else:
        where = f"the first {found.looked:,} sentences"
    many = f"{len(found.numbers):,}" if found.numbers else "None"
    st.markdown(f"{many} found in {where}.")
    if not found.whole:
        st.button(
            "Look further",
            on_click=lambda: st.session_state.update(reach=reach * 2),
            help=f"Reads on to sentence {reach * 2:,}.",
        )
    at = sum(hit < number for hit in found.numbers) // PAGE * PAGE
    if found.numbers and at >= len(found.numbers):
        at = (len(found.numbers) - 1) // PAGE * PAGE
    hits = list(zip(found.numbers, found.texts, strict=True))
    if len(hits) > PAGE:
        with st.container(horizontal=True, vertical_alignment="center"):
            before, after = hits[max(0, at - PAGE)][0], hits[min(len(hits) - 1, at + PAGE)][0]
            st.button("Previous", disabled=at == 0, on_click=go, args=(before,))
            st.button("Next", disabled=at + PAGE >= len(hits), on_click=go, args=(after,))
            last = min(at + PAGE, len(hits))
            st.caption(f"{at + 1:,} to {last:,} of {len(hits):,} found", width="content")
    with st.container(gap="xsmall", key="sentences"):
        for place, text in hits[at : at + PAGE]:
            draw_row(ref, split, place, text, place == number)


# --- what the chosen corpus is: its splits, their sizes, what is known of its sentences -----------
#
# Costs the counting of a bounded part of it, once; all of it where that is asked for.

LAYERS = {
    "words": "words",
    "sentences": "sentence boundaries",
    "pos": "parts of speech",
    "tags": "the treebank's own tags",
    "lemmas": "lemmas (dictionary forms)",
    "morphs": "grammatical features",
    "dependencies": "dependency trees",
    "entities": "names (entities)",
    "constituents": "phrases (constituents)",
    "coreference": "coreference chains",
    "segments": "the two texts of a pair",
    "answers": "answers to questions",
}


def draw_chosen(ref: str) -> "Sequence[Size]":
    """What the chosen corpus is; a corpus that cannot be read ends here."""
    with st.spinner("Opening the corpus …"):
        corpus = cache.corpus(ref)
        found = cache.sizes(ref, bool(st.session_state.get(f"count {ref}")))
        known = cache.layers(ref)
    st.table(
        [
            {
                "split": plain(size.split),
                "sentences": _at_least(size.docs, size.whole),
                "words": _at_least(size.words, size.whole),
            }
            for size in found
        ],
        border="horizontal",
        hide_index=True,
    )
    if not all(size.whole for size in found):
        st.button(
            "Count all of it",
            help="Reads the corpus to its end: about 10 seconds for 100,000 sentences.",
            on_click=lambda: st.session_state.update({f"count {ref}": True}),
        )
    said = [LAYERS.get(layer, layer.replace("label:", "the label ")) for layer in known]
    st.markdown(
        f"**What is known of it:** {plain(', '.join(said))}.",
        help="The layers found in the first sentences of every split. An analysis that needs "
        "another says so.",
    )
    for note in corpus.notes:
        st.caption(plain(note))
    return found


def _at_least(number: int, whole: bool) -> str:
    return f"{number:,}" if whole else f"more than {number:,}"


def draw_fetch(ref: str) -> None:
    """Ask before the network is used."""
    st.warning("This corpus is on the hub, and not on this machine.")
    st.button(
        "Fetch it from the hub",
        icon=":material/download:",
        help="Asks huggingface.co for the rows that are shown: the only thing here that uses the "
        "network.",
        on_click=lambda: st.session_state.setdefault("hub-corpora", set()).add(ref),
    )
