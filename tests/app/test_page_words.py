"""The page Words without a browser: tabs, addresses, the index behind it, and what it says."""

import threading
import time
from collections import OrderedDict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from streamlit.elements.lib import policies
from streamlit.testing.v1 import AppTest

import workbench as wb
from tests.analyses.words.test_figures_neighbours import tables_of
from tests.app.pages import home, opened, said, well  # noqa: F401
from tests.report.making import corpus, found, made, model
from workbench.analyses.words.occurrences import form_count, frequent_forms
from workbench.analyses.words.views import index as words_index
from workbench.analyses.words.views import results as words_results
from workbench.analyses.words.views.choices import REACH, Searched, _same_or_last
from workbench.analyses.words.views.index import Build, part_of
from workbench.analyses.words.views.neighbours import in_common, shared
from workbench.analyses.words.views.senses import occurrence_at, so_far, verdict
from workbench.analyses.words.views.tokenizers import steps_of, table_of
from workbench.app import foreground
from workbench.app.token_views.component import message_of, standalone
from workbench.app.token_views.views import (
    Box,
    Context,
    Contexts,
    Step,
    Steps,
    contexts,
    pieces,
    steps,
)
from workbench.corpora.encode import doc_of
from workbench.engine.model import Model
from workbench.experiment import Table
from workbench.runs import status
from workbench.runs.status import Status

SMALL = "primer:size=40"
TABS = ("Neighbours", "Senses", "Tokenizers")
SENSES = "accuracy of senses, minus permuted senses"  # the measure of a finding of `neighbours`


@pytest.fixture(scope="module")
def bert() -> Model:
    return wb.load("mini:bert", device="cpu")


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole index is made soon after that of the first words, or after a page."""
    monkeypatch.setattr(words_index, "SOON", 0.05)
    monkeypatch.setattr(foreground, "SENDING", 0.0)


def drawn(**query: str) -> AppTest:
    """The page once its index is there."""
    app = opened("words", **{"corpus": SMALL, "text": "Ben walks to the hill.", **query})
    while app.get("progress"):
        time.sleep(0.1)  # the index waits while pages are drawn
        well(app.run())
    return app


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("view", TABS)
def test_every_tab_is_drawn(view: str) -> None:
    app = drawn(view=view, text2="")
    assert not app.error
    expected = {
        "Neighbours": "Ben walks to the hill.",
        "Senses": "“hill” occurs",
        "Tokenizers": "Step by step: hill",
    }
    assert expected[view] in said(app).replace("**", "")


@pytest.mark.usefixtures("home")
def test_search_from_here_sets_the_text_without_a_warning(
    monkeypatch: pytest.MonkeyPatch, bert: Model
) -> None:
    corpus, text = wb.read(SMALL), "Ben walks to the hill."
    table = wb.neighbours(bert, corpus, text, "hill", layers=4).table
    sentence, nearest = table["sentence"].iloc[0], table["occurrence"].iloc[0]
    warnings: list[Any] = []
    monkeypatch.setattr(policies, "runtime", SimpleNamespace(exists=lambda: True))
    monkeypatch.setattr(policies, "_shown_default_value_warning", False)
    monkeypatch.setattr(policies._LOGGER, "warning", lambda *a, **more: warnings.append(a))
    app = drawn(view="Neighbours", text2="", open=str(nearest))
    (button,) = [each for each in app.button if each.label == "Search from here"]
    well(button.click().run())
    assert app.text_input(key="text").value == sentence and not warnings
    well(app.run())
    assert app.text_input(key="text").value == sentence and not warnings


@pytest.mark.usefixtures("home")
@pytest.mark.slow
@pytest.mark.parametrize("model", ["mini:gpt", "mini:t5", "mini:elmo", "mini:bert@random"])
@pytest.mark.parametrize("view", TABS)
def test_every_kind_of_model_has_every_tab(model: str, view: str) -> None:
    app = drawn(view=view, model=model, form="to", model2="mini:bert", corpus="primer:size=200")
    assert not app.error
    if view == "Senses":
        assert said(app).count("V-measure") >= 2


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize(
    ("query", "words"),
    [
        ({"text": "   "}, "text-empty"),
        ({"model": "vectors:nowhere.txt"}, "nowhere.txt"),
        ({"corpus": "nowhere.conllu"}, "corpus-not-found"),
        ({"among": "the same form", "text": "Zebras"}, "no 'Zebras' in other sentences"),
        ({"view": "Senses", "form": "zebra"}, "“zebra” occurs nowhere"),
        ({"view": "Tokenizers", "models": "nowhere"}, "nowhere"),
    ],
)
def test_what_cannot_be_shown_is_said(query: dict[str, str], words: str) -> None:
    assert words in said(drawn(**query))


@pytest.mark.usefixtures("home")
def test_a_rare_word_is_told_with_words_that_occur_often_enough() -> None:
    text = said(drawn(view="Senses", form="hill"))
    assert "needs 4 occurrences" in text and "to (" in text


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("view", TABS)
def test_nonsense_in_the_address_leaves_a_page_that_works(view: str) -> None:
    nonsense = {"at": "99999", "at2": "-1", "open": "x", "layers": "9", "k": "0", "among": "none",
                "most": "7", "in": "nowhere", "view": view, "model2": "", "layer": "77",
                "colour": "9", "clusters": "0", "form": "\x00", "stack": "third"}  # fmt: skip
    app = drawn(**nonsense)
    assert not app.error
    assert len(said(app)) > 100


# --- the index ------------------------------------------------------------------------------------


def test_an_index_reads_the_first_texts_up_to_a_maximum_of_words() -> None:
    corpus = wb.read(SMALL)
    read: list[int] = []
    part = part_of(corpus, "", 60, read.append)
    docs = [doc for name in part.splits for doc in part.docs(name)]
    whole = [doc for name in corpus.splits for doc in corpus.docs(name)]
    assert [doc.text for doc in docs] == [doc.text for doc in whole[: len(docs)]]
    assert sum(map(len, docs[:-1])) < 60 <= sum(map(len, docs))
    assert read[-1] == 60
    assert [*part_of(corpus, "test", 60, read.append).splits] == ["test"]


def test_another_maximum_is_another_index(bert: Model, tmp_path: Path) -> None:
    corpus = wb.read(SMALL)
    sizes = [
        len(
            wb.occurrences(
                bert, part_of(corpus, "", most, lambda n: None), max_occurrences=None,
                home=tmp_path,
            )
        )
        for most in (30, 90)
    ]  # fmt: skip
    assert 30 <= sizes[0] < 90 <= sizes[1]


def test_an_index_is_made_in_the_background_and_can_be_cancelled(
    bert: Model, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path))
    corpus = wb.read(SMALL)
    made = Build(bert, corpus, Searched(SMALL, "", 100))
    assert made.ended.wait(60)
    assert made.error is None and made.index is not None and len(made.index) >= 100
    assert made.share == 1.0 and "texts" in made.in_words()

    reached, go_on = threading.Event(), threading.Event()

    def wait(build: Build, n_words: int) -> None:
        reached.set()
        go_on.wait(60)
        build._check()

    monkeypatch.setattr(Build, "_read", wait)
    cancelled = Build(bert, corpus, Searched(SMALL, "", 110))
    assert reached.wait(60) and not cancelled.ended.is_set()
    cancelled.cancelled.set()
    go_on.set()
    assert cancelled.ended.wait(60)
    assert cancelled.index is None and cancelled.error is None
    from workbench.engine.forward_pass import ALONE

    assert ALONE.acquire(timeout=60)  # it is not kept
    ALONE.release()


def test_the_index_of_an_edit_ends_when_its_page_is_left_and_is_made_again(
    bert: Model, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path))
    builds: OrderedDict[Any, Build] = OrderedDict()
    monkeypatch.setattr(words_index, "_builds", lambda: (builds, threading.Lock()))
    edited, searched = bert.edited("1.1=0"), Searched(SMALL, "", 100)
    monkeypatch.setattr(words_index, "LEFT", 0.0)
    whole = Build(bert, wb.read(SMALL), searched)
    assert words_index.ready(edited, searched) is None
    (left,) = builds.values()
    assert left.ended.wait(60) and left.is_left and left.index is None
    assert whole.ended.wait(60) and whole.index is not None, "each model has one, page or no page"
    monkeypatch.setattr(words_index, "LEFT", 60.0)
    assert words_index.ready(edited, searched) is None
    (again,) = builds.values()
    assert again is not left and again.ended.wait(60) and again.index is not None


def test_an_index_says_what_it_waits_for(
    bert: Model, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from workbench.engine.forward_pass import ALONE

    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path))
    with ALONE:  # another visitor computes
        first = Build(bert, wb.read(SMALL), Searched(SMALL, "", 40))
        whole = Build(bert, wb.read(SMALL), Searched(SMALL, "", 120), after=first)
        while not (first.waits_for and whole.waits_for):
            time.sleep(0.01)
        assert first.in_words() == "waiting for another computation with a model to end"
        assert whole.in_words() == "waiting for the index of the first 2,000 words"
    assert first.ended.wait(60) and whole.ended.wait(60)
    assert first.error is None and not first.waits_for and "texts" in first.in_words()


def test_an_index_names_a_model_without_its_folders(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(Build, "_make", lambda build, model, corpus: None)
    (tmp_path / "small-bert").mkdir()
    folder: Any = SimpleNamespace(name=str(tmp_path / "small-bert"), edit="")
    build = Build(folder, wb.read(SMALL), Searched(SMALL, "", 40))
    build.total = 3
    assert build.in_words() == "computing states with small-bert, 0 of 3 texts"


def test_the_first_words_are_searched_while_the_others_are_read(
    bert: Model, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path))
    monkeypatch.setattr(words_index, "FIRST", 60)
    builds: OrderedDict[Any, Build] = OrderedDict()
    monkeypatch.setattr(words_index, "_builds", lambda: (builds, threading.Lock()))
    go_on = threading.Event()
    read = Build._read

    def wait(build: Build, n_words: int) -> None:
        if build.searched.most > 60:
            go_on.wait(60)
        read(build, n_words)

    monkeypatch.setattr(Build, "_read", wait)
    part = Searched(SMALL, "", 150)
    first = None
    while first is None:
        time.sleep(0.05)
        first = words_index.ready(bert, part)
    assert first.is_part and 60 <= len(first.index) < 150
    said_so_far = so_far("play", 0, first)
    assert f"nowhere in the first {len(first.index)} words" in said_so_far, "not an empty page"
    go_on.set()
    assert [*builds.values()][-1].ended.wait(60)
    whole = words_index.ready(bert, part)
    assert whole is not None and not whole.is_part and len(whole.index) >= 150
    same = [words_results.occurrence(each.index, 7) for each in (first, whole)]
    assert same[0] == same[1]  # an occurrence has one number in both


def test_an_error_of_an_index_is_a_users_error(
    bert: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*given: Any) -> None:
        raise ValueError("secret")

    monkeypatch.setattr(Build, "_indexed", fails)
    build = Build(bert, wb.read(SMALL), Searched(SMALL, "", 100))
    assert build.ended.wait(60)
    assert build.error is not None and build.error.code == "internal"
    assert "secret" not in str(build.error)


# --- the same over a corpus -----------------------------------------------------------------------


def test_the_last_run_of_the_model_and_the_corpus_is_shown(home: Path) -> None:  # noqa: F811
    for name in ("mini:bert", "mini:gpt"):
        run = made(
            home / "runs",
            experiment="neighbours",
            models=(model(name, ref=name),),
            corpora=(corpus(SMALL),),
            tables={"separation": (tables_of()["separation"], Table("Senses.", ()))},
            findings=[
                found("100 neighbours share the tag."),
                found(f"100 senses are separated by {name}.", measure=SENSES),
            ],
        )
        status.write(
            run.path, Status("done", experiment="neighbours", models=(name,), corpora=(SMALL,))
        )
    app = drawn(view="Senses", form="zebra")
    assert "senses are separated by mini:bert" in said(app)
    assert "separated by mini:gpt" not in said(app) and "share the tag" not in said(app)
    links = [link.proto for link in app.get("page_link")]
    (link,) = [each for each in links if each.label == "Open the result"]
    assert "neighbours" in link.query_string


# --- what is shown --------------------------------------------------------------------------------


def test_forms_with_a_frequent_second_tag_come_first(bert: Model, tmp_path: Path) -> None:
    index = wb.occurrences(bert, wb.read("primer:size=200"), home=tmp_path)
    found = frequent_forms(index, words_results.FEWEST)
    table = index.table
    forms = table["form"].astype(str).str.lower()
    counts = table.groupby([forms, table["tag"].astype(str)]).size().unstack(fill_value=0)
    second = np.sort(counts.to_numpy(), axis=1)[:, -2]
    best = counts[(counts.sum(axis=1) >= words_results.FEWEST).to_numpy()]
    assert found[0].form == "to" and found[0].second == second.max()
    assert {form.form for form in found} == {f for f in best.index if any(map(str.isalpha, f))}
    assert all(form.n == counts.loc[form.form].sum() for form in found)
    assert form_count(index, "TO") == found[0].n


def test_an_occurrence_has_its_place_in_its_split(bert: Model, tmp_path: Path) -> None:
    corpus = wb.read(SMALL)
    index = wb.occurrences(bert, corpus, home=tmp_path)
    for number in (0, len(index) // 2, len(index) - 1):
        each = words_results.occurrence(index, number)
        assert each is not None
        doc = [*corpus.docs(each.split)][each.text]
        assert doc.text == each.sentence
        assert each.sentence[each.start : each.end] == dict(each.labels)["form"]
    assert words_results.occurrence(index, len(index)) is None


def test_the_chosen_word_is_one_that_both_texts_share() -> None:
    doc = doc_of("They will play a game.")
    assert doc[_same_or_last(doc, {"the", "play", "a"})].text == "play"
    assert doc[_same_or_last(doc, {"a", "zebra"})].text == "game"
    assert _same_or_last(doc_of("?!"), set()) == 1
    assert (
        _same_or_last(doc_of(" ".join(["word"] * 2 * REACH)), set()) == REACH - 1
    )  # in reach of any model


def test_neighbours_in_common_are_counted_by_layer() -> None:
    class Found:
        def __init__(self, word: str, *rows: tuple[int, int]) -> None:
            self.word = word
            self.table = pd.DataFrame(rows, columns=["layer", "occurrence"]).assign(rank=2)

    first: Any = Found("Play", (0, 1), (0, 2), (4, 1), (4, 2))
    second: Any = Found("play", (0, 2), (0, 1), (4, 3), (4, 1))
    assert shared(first, second) == {0: 2, 4: 1}
    assert in_common(first, second) == (
        "“Play” in the two texts shares both neighbours at the embeddings, 1 at layer 4."
    )


def test_a_click_on_the_map_is_an_occurrence_or_nothing() -> None:
    table = pd.DataFrame({"x": [0.0, 1.0], "y": [0.0, 1.0], "occurrence": [7, 9]})
    assert occurrence_at(table, {"x": 0.9, "y": 1.0}) == 9
    assert occurrence_at(table, {"x": 0, "y": 0.1}) == 7
    for nonsense in (
        {},
        {"x": "a", "y": 1},
        None,
        {"x": None, "y": 0},
        {"x": float("nan"), "y": 0},
    ):
        assert occurrence_at(table, nonsense) is None


def test_the_verdict_names_the_null(bert: Model, tmp_path: Path) -> None:
    index = wb.occurrences(bert, wb.read("primer:size=200"), home=tmp_path)
    found = wb.senses(bert, index, "to", most=60, n_permutations=99)
    row = found.measures.iloc[0]
    assert verdict(found).startswith("The clusters fit the tag (ADP, PART): V-measure")
    assert f"permuted labels {row['v_chance']:.2f} (p = {row['v_p']:.3f})" in verdict(found)
    assert "All occurrences have the tag DET" in verdict(wb.senses(bert, index, "the", most=40))


# --- pieces and steps -----------------------------------------------------------------------------


def test_pieces_stand_in_the_row_of_their_word() -> None:
    doc = doc_of("Ben unlocks it.")
    found = wb.tokenizations(doc, "mini:bert", "mini:gpt")
    view = table_of(found.results, 1)
    assert view["rows"][:3] == ["(special)", "Ben", "unlocks"] and view["row"] == 2
    assert view["words"][:3] == [None, 0, 1]
    by_word = found["mini:bert"].by_word
    for row, word in enumerate(view["words"]):
        if word is not None:
            own = view["cells"][row][0]
            assert [each["t"] for each in own] == [piece.piece for piece in by_word[word]]
            assert [each["id"] for each in own] == [piece.id for piece in by_word[word]]
    assert view["cells"][0][0][0]["mark"] == "special" and not view["cells"][0][1]
    assert "2 special" in view["foot"][0]


def test_a_merge_is_marked_and_named_in_its_step() -> None:
    part = wb.tokenizations("The dog barks.", "mini:gpt").steps("dog").parts[0]
    found = steps_of("mini:gpt", part)
    assert found.ordered and len(found.rows) == len(part.steps)
    for row, step in zip(found.rows[1:], part.steps[1:], strict=True):
        assert [box.t for box in row.boxes if box.mark == "new"] == [step.made]
        assert row.about == f"{step.parts[0]} + {step.parts[1]} → {step.made}, merge {step.rank:,}"


@pytest.mark.parametrize("model", ["mini:bert", "mini:t5", "mini:elmo"])
def test_steps_end_in_the_pieces_of_the_tokenizer(model: str) -> None:
    part = wb.tokenizations("Ben unlocks it.", model).steps(1).parts[0]
    found = steps_of(model, part)
    last = found.rows[-1] if found.ordered else found.rows[0]  # candidates: the best is first
    assert [box.t for box in last.boxes] == list(part.pieces)
    assert all(row.about for row in found.rows)


# --- data of the views ----------------------------------------------------------------------------


def test_views_are_data_and_cannot_break_out_of_a_page() -> None:
    evil = "</script><script>alert(1)</script>"
    row = Context(1, evil, evil, evil, float("nan"), evil, evil)
    views = [
        contexts("c", [Contexts(evil, [row], evil)], pickable=True),
        pieces("p", evil, [evil], [evil], [[[Box(evil, tip=evil)]]], words=[0], foot=[evil]),
        steps("s", [Steps(evil, [Step([Box(evil)], evil, evil)])]),
    ]
    page = standalone("t", [(evil, views)]).decode()
    assert "<script>alert" not in page
    assert views[0]["lists"][0]["rows"][0]["value"] is None


def test_a_choice_of_another_list_is_not_taken() -> None:
    ids = [
        message_of([contexts("c", [Contexts("a", [Context(n, "", "w", "")])])])["id"]
        for n in (1, 2)
    ]
    assert ids[0] != ids[1]


def test_indexes_that_are_kept_open_are_few(bert: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    builds: OrderedDict[Any, Any] = OrderedDict()
    monkeypatch.setattr(words_index, "_builds", lambda: (builds, threading.Lock()))
    monkeypatch.setattr(words_index.cache, "corpus", lambda ref: None)

    class Done:
        def __init__(self, *given: Any) -> None:
            self.ended = threading.Event()
            self.ended.set()

    monkeypatch.setattr(words_index, "Build", Done)
    for number in range(9):
        words_index._build((number,), bert, Searched(SMALL, "", number))
    assert [*builds] == [(n,) for n in range(9 - words_index.KEPT, 9)]
