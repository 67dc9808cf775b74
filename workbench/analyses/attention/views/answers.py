"""What the attention browser asks of the model and the corpus: edits, predictions, similar pairs.

Each function answers one request of `browser/MESSAGES.md`. Costs: a forward pass for a prediction
or an edit, and one over some sentences for a step of a search.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import streamlit as st

from workbench.analyses.attention.edits import (
    edited,
    hidden_words,
    mask_of,
    predicted_at,
    with_mask,
    word_in,
)
from workbench.analyses.attention.views import choices as attention
from workbench.app import cache, choice
from workbench.core.errors import WorkbenchError

if TYPE_CHECKING:
    from spacy.tokens import Doc

    from workbench.analyses.attention.browser.requests import Answers, Request
    from workbench.analyses.attention.browser.scene import Predicts
    from workbench.analyses.attention.grids import Group, Options
    from workbench.analyses.attention.patterns import OnCorpus
    from workbench.analyses.predictions.views.results import Top
    from workbench.engine.model import Model

TOP = 5  # predictions in view


def answers(
    ref: str, model: "Model", doc: "Doc", group: "Group", options: "Options", has_order: bool
) -> "Answers":
    """The functions that answer requests about this text, by request.

    Similar sentences are read without a prediction order, so they are not offered with one.
    """
    known: dict[str, Callable[[Request], Mapping[str, Any]]] = {
        "edit": partial(_edit, model, doc),
        "show": _show,
        "predict": partial(_predict, ref, model, doc),
    }
    if options.together == "each head" and group[1] != "cross" and not has_order:
        known["similar"] = partial(_similar, model, doc, group)
    return known


# --- edits ----------------------------------------------------------------------------------------


def _edit(model: "Model", doc: "Doc", request: "Request") -> Mapping[str, Any]:
    word, how = word_in(doc, request.get("word")), str(request.get("how"))
    text = edited(doc, word, how, str(request.get("text", ""))[: cache.LONGEST], mask_of(model))
    attention.choose_text(text, before=doc.text, word=None if how == "delete" else word)
    st.rerun()


def _show(request: "Request") -> Mapping[str, Any]:
    """Open a sentence of the corpus."""
    split, index = request.get("split"), request.get("sentence")
    if split not in cache.corpus(choice.corpus()).splits or type(index) is not int or index < 0:
        raise WorkbenchError(
            "There is no such sentence.",
            code="sentence-not-found",
            remedy="Reload the page: it is older than the state of the app.",
        )
    attention.choose_sentence(str(split), index)
    st.rerun()


# --- predictions ----------------------------------------------------------------------------------


def predicts(ref: str, model: "Model", doc: "Doc") -> "Predicts | None":
    """The places of the text that the model predicts; None if it predicts no words."""
    from workbench.analyses.attention.browser.scene import predicts_at
    from workbench.analyses.predictions.views.results import places

    if not model.objective or model.task_head is not None:
        return None
    found = places(model, doc)
    words = [place.index for place in found if place.kind == "word"]
    after = len(doc) if any(place.kind == "next" for place in found) else None
    return predicts_at(words, hidden_words(model, doc), after)


def _predict(ref: str, model: "Model", doc: "Doc", request: "Request") -> Mapping[str, Any]:
    """The most probable words at a place, with their probabilities before an edit."""
    place = request.get("word")
    is_next = place == len(doc) and model.objective in ("causal", "bidirectional")
    place = len(doc) if is_next else word_in(doc, request.get("word"))
    found, note = _top(ref, model, doc, place)
    choices = [] if found is None else [*zip(found.texts, found.probabilities, strict=True)]
    was: list[float] = []
    before = st.query_params.get(attention.BEFORE, "")
    if before and found is not None:
        former_doc = with_mask(model, cache.typed(before))
        former_place = place_before(doc, former_doc, place)
        if former_place is not None:
            former, _ = _top(ref, model, former_doc, former_place, found.choices)
            was = [] if former is None else [former.known[choice] for choice in found.choices]
    return {
        "title": predicted_at(model, doc, place) if choices else "",
        "choices": choices,
        "was": was,
        "note": note,
    }


def place_before(doc: "Doc", former: "Doc", place: int) -> int | None:
    """The index of a word in the text before an edit; None if the edit made it."""
    words, before = [token.text for token in doc], [token.text for token in former]
    same = next(
        (n for n, (one, other) in enumerate(zip(words, before, strict=False)) if one != other),
        min(len(words), len(before)),
    )
    if place < same or len(words) == len(before):
        return place
    moved = place - len(words) + len(before)
    return moved if moved >= same else None


def _top(
    ref: str, model: "Model", doc: "Doc", place: int, also: tuple[int, ...] = ()
) -> "tuple[Top | None, str]":
    """The most probable choices, and why there are none."""
    from workbench.analyses.predictions.views.choices import Place
    from workbench.analyses.predictions.views.results import Side, top

    if not model.objective or model.task_head is not None:
        return None, "This model has no language-model head, so it predicts no words."
    at = Place("next") if place == len(doc) else Place("word", place)
    try:
        return top(Side(ref, model, doc, at), TOP, also=also), ""
    except WorkbenchError as error:
        return None, str(error).splitlines()[0]


# --- similar sentences ----------------------------------------------------------------------------


def _similar(model: "Model", doc: "Doc", group: "Group", request: "Request") -> Mapping[str, Any]:
    """One step of a search through the current split of the corpus."""
    from workbench.analyses.attention.similar import KEPT, MAX_SENTENCES, STEP, similar, tags_of

    tags = tags_of(doc, word_in(doc, request.get("word")), word_in(doc, request.get("to")))
    first, layer, head = (request.get(name) for name in ("first", "row", "column"))
    sites = [site for site in model.sites if (site.stack, site.kind) == group]
    are_numbers = all(type(number) is int and number >= 0 for number in (first, layer, head))
    site = next((site for site in sites if site.layer == layer), None)
    if not are_numbers or site is None or head >= site.heads:  # type: ignore[operator]
        raise WorkbenchError(
            "There is no such head.",
            code="request-invalid",
            remedy="Reload the page: it is older than the state of the app.",
        )
    corpus, start = choice.corpus(), int(first or 0)
    splits = list(cache.corpus(corpus).splits)
    split = str(st.session_state.get(choice.SPLIT) or splits[0])
    split = split if split in splits else splits[0]
    count = min(STEP, MAX_SENTENCES - start)
    docs = cache.sentences(corpus, split, start, count) if count > 0 else []
    found = similar(model, docs, site, int(head or 0), tags, start)
    hits = []
    for hit in found[:KEPT]:
        sentence = docs[hit.sentence - start]
        hits.append(
            {
                "sentence": hit.sentence,
                "split": split,
                "word": hit.word,
                "to": hit.to,
                "weight": hit.weight,
                "words": [[token.text, bool(token.whitespace_)] for token in sentence],
            }
        )
    done = len(docs) < count or start + len(docs) >= MAX_SENTENCES or not docs
    return {
        "hits": hits, "next": start + len(docs), "done": done, "of": MAX_SENTENCES, "most": KEPT,
        "tags": list(tags), "name": f"{choice.chip(corpus, 'corpora')} {split}",
    }  # fmt: skip


# --- what heads do on the corpus ------------------------------------------------------------------


def on_corpus(ref: str) -> "OnCorpus | None":
    """The most thorough result of the experiment `heads` for the model and the corpus."""
    from workbench.app.runs.context import best_result

    corpus = choice.corpus()
    run = best_result("heads", ref, corpus)
    if run is None:
        return None
    name = " ".join([choice.chip(corpus, "corpora"), *([run.spec.split] if run.spec.split else [])])
    return _on_corpus(name, run.name)


@st.cache_resource(max_entries=16, show_spinner=False)
def _on_corpus(name: str, run: str) -> "OnCorpus | None":
    from workbench.analyses.attention.patterns import on_corpus
    from workbench.runs.run import open_run

    tables = open_run(run).tables
    if not {"heads", "offsets"} <= set(tables):
        return None
    return on_corpus(name, run, tables["heads"], tables["offsets"])
