"""What the page Predict & explain computes: edits, places, scores and hidden words follow the text.

Heads of fine-tuned models have random weights: nothing is trained. No page is run.
"""

from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pytest

import workbench as wb
from tests.analyses.predictions.task_folders import doc_of, with_head
from workbench import Model, WorkbenchError
from workbench.analyses.attribution import views as predict_explain
from workbench.analyses.lenses.views import layers as predict_layers
from workbench.analyses.patching import views as predict_patching
from workbench.analyses.predictions.views import page as predict_views
from workbench.analyses.predictions.views import results as predict_results
from workbench.analyses.predictions.views.choices import Place
from workbench.analyses.predictions.views.edits import Edit, before_and_after, edited_side, slots
from workbench.analyses.predictions.views.results import COUNT, Explained, Side
from workbench.analyses.predictions.views.target import named_for
from workbench.corpora.encode import doc_of as typed
from workbench.corpora.text_prediction import predict_text

TEXT = "Anna walks to the old hill ."
REL = "The girls went to the river .", "The boys walked to the hill ."


@cache
def model_of(name: str) -> Model:
    return wb.load(name, device="cpu")


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    made = {}
    for kind in ("score", "tags", "answers"):
        made[kind] = tmp_path_factory.mktemp(kind)
        with_head(model_of("mini:bert"), made[kind], kind, kind != "tags")  # type: ignore[arg-type]
    return made


def side_of(model: str, text: str, place: Place) -> Side:
    loaded = model_of(model)
    doc, _ = predict_results.with_gaps(loaded, typed(text))
    return Side(model, loaded, doc, place)


def after(side: Side, *edits: Edit) -> Sequence[tuple[str, float, float]]:
    found = slots([token.text for token in side.doc], edits)
    _, _, table = before_and_after(side, found)
    return list(table[["choice", "before", "after"]].itertuples(index=False, name=None))


# --- what if --------------------------------------------------------------------------------------


def test_an_edit_that_changes_nothing_changes_no_written_piece() -> None:
    side = side_of("mini:t5", "The girls did not visit it.", Place("next"))
    written = predict_results.written(side, 6).choices
    side = Side(side.ref, side.model, side.doc, Place("written", 2), written)
    rows = after(side, Edit("replace", 1, "girls"))
    assert len(rows) == COUNT
    assert [before for _, before, _ in rows] == pytest.approx([now for _, _, now in rows])


def test_a_tag_is_that_of_its_word_after_a_deletion(folders: dict[str, Path]) -> None:
    model = model_of(str(folders["tags"]))
    side = Side("tags", model, doc_of(TEXT), Place("label", 4))
    found = slots(TEXT.split(), [Edit("delete", 0)])
    moved, _ = edited_side(side, found)
    assert moved.doc[moved.place.index].text == side.doc[4].text
    expected = predict_text(model, moved.doc).words[3]
    top = predict_results.top(moved, 1)
    assert (top.texts[0], top.probabilities[0]) == (expected[1], pytest.approx(expected[2]))
    with pytest.raises(WorkbenchError, match="deleted"):
        edited_side(side, slots(TEXT.split(), [Edit("delete", 4)]))


@pytest.mark.parametrize("model", ["mini:bert", "mini:t5", "mini:elmo"])
def test_a_hidden_word_keeps_its_place_when_another_one_is_filled(model: str) -> None:
    side = side_of(model, "The girls ___ tall and ___ .", Place("gap", 1))
    words = [token.text for token in side.doc]
    moved, hidden = edited_side(side, slots(words, [Edit("replace", 2, "were")]))
    assert (moved.place, hidden) == (Place("gap", 0), ())
    own = wb.fill(model_of(model), "The girls were tall and ___ .", 1).places[0]
    assert predict_results.top(moved, 1).texts[0] == own.choices[0].text
    with pytest.raises(WorkbenchError, match="replaced"):
        edited_side(side, slots(words, [Edit("replace", 5, "old")]))


def test_a_deleted_word_leaves_the_number_of_the_hidden_word() -> None:
    side = side_of("mini:bert", "The ___ girls ___ tall and ___.", Place("gap", 1))
    moved, _ = edited_side(side, slots([token.text for token in side.doc], [Edit("delete", 1)]))
    assert moved.place == Place("gap", 0)
    assert moved.doc.text == "The girls [MASK] tall and [MASK]."


def test_the_words_of_an_answer_are_followed_to_where_they_are(folders: dict[str, Path]) -> None:
    model = model_of(str(folders["answers"]))
    doc = doc_of("Who went there ?", TEXT)
    side = Side("answers", model, doc, Place("label", 0))
    found = slots([token.text for token in doc], [Edit("delete", 0)])
    before, _, table = before_and_after(side, found)
    moved, _ = edited_side(side, found)
    now = predict_results.prediction_at(moved).logits()[0].detach().softmax(-1)
    rows = table.set_index("id")
    for choice, text, p in zip(before.choices, before.texts, before.probabilities, strict=True):
        assert choice >= 4 or choice == len(doc)  # not a word of the question
        assert rows.loc[choice, "choice"] == text
        assert rows.loc[choice, "before"] == pytest.approx(p)
        assert rows.loc[choice, "after"] == pytest.approx(float(now[choice - 1]))


def test_three_underscores_hide_a_word() -> None:
    side = side_of("mini:bert", "The girls were tall .", Place("word", 2))
    assert after(side, Edit("replace", 1, "___")) == after(side, Edit("hide", 1))
    assert slots(["a"], [Edit("replace", 0, "[MASK]")])[0].mark == "hidden"


# --- scores ---------------------------------------------------------------------------------------


def test_a_probability_is_written_like_those_beside_it() -> None:
    side = side_of("mini:bert", "The girls did not visit it because they ___ tall.", Place("gap"))
    explained = predict_explain.Explanation("", "", "probability", "leave-one-out")
    found = predict_explain.attribution(side, explained)
    shown = f"{100 * found.value:.1f} %"
    assert predict_explain.in_words(found).startswith(f"Explained: probability {shown}")


def test_a_score_is_on_the_scale_of_the_scores(folders: dict[str, Path]) -> None:
    model = model_of(str(folders["score"]))
    doc = doc_of(*REL)
    side = Side("score", model, doc, Place("label"))
    rounded = float(predict_text(model, doc).guess)
    expected = predict_results.top(side, COUNT).probabilities[0]
    assert expected == pytest.approx(rounded, abs=0.051)
    explained = predict_explain.Explanation("", "", "probability", "occlusion")
    found = predict_explain.attribution(side, explained)
    assert found.target.measure == "logit"
    assert found.value == pytest.approx(expected, abs=1e-3)
    assert abs(found.scores).max() > 0.01
    assert predict_explain.in_words(found).startswith("Explained: score ")
    table = predict_results.effects(side, "hide")
    assert table["before"].tolist() == pytest.approx([expected] * len(table), abs=1e-3)
    ((_, before, now),) = after(side, Edit("hide", 1))
    assert before == pytest.approx(expected, abs=1e-3)
    assert now == pytest.approx(table.set_index("word").loc[1, "after"], abs=1e-4)


# --- hidden words and layers ----------------------------------------------------------------------


@pytest.mark.parametrize("model", ["mini:bert", "mini:t5", "mini:elmo"])
def test_every_hidden_word_has_a_column_that_ends_in_its_prediction(model: str) -> None:
    text = "The girls ___ tall and ___ ."
    side = side_of(model, text, Place("gap", 0))
    found = predict_layers.layers(side, False, True)
    places = found.final.drop_duplicates("place")
    assert places["word"].tolist() == ["hidden word 1", "hidden word 2"]
    last = found.choices.drop_duplicates(["place", "stack", "layer", "sublayer"])
    for n in range(2):
        own = predict_results.top(
            side_of(model, "The girls ___ tall and ___ .", Place("gap", n)), 1
        )
        row = last[last["place"] == n].iloc[-1]
        assert row["choice"] == own.texts[0]
        assert row["probability"] == pytest.approx(own.probabilities[0], abs=1e-4)


# --- other models ---------------------------------------------------------------------------------


def test_each_model_predicts_what_it_can(
    folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(predict_views.cache, "model", model_of)
    tagger, doc = str(folders["tags"]), typed("The girls were tall.")
    first = Side("mini:bert", model_of("mini:bert"), doc, Place("word", 2))
    second = predict_views._second(tagger, doc, first)
    assert second.place == Place("label", 2)
    assert predict_results.top(second, 1).texts[0] in {"ADJ", "NOUN", "VERB"}
    back = predict_views._second("mini:bert", doc, second)
    assert back.place == Place("word", 2)
    assert named_for(second, first, "were", "was") == ("", "")
    assert named_for(first, first, "were", "was") == ("were", "was")
    with pytest.raises(WorkbenchError, match="two texts"):
        predict_views._second(str(folders["score"]), doc, first)


def test_a_word_of_the_question_is_no_choice(folders: dict[str, Path]) -> None:
    side = Side(
        "qa", model_of(str(folders["answers"])), doc_of("Who went ?", TEXT), Place("label", 0)
    )
    assert "Who" not in predict_results.top(side, 24).texts
    with pytest.raises(WorkbenchError):
        predict_results.targets(side, Explained("Who", ""))


@pytest.mark.parametrize(
    ("model", "place", "said"),
    [
        ("mini:bert", Place("word", 3), "only the first"),
        ("mini:gpt", Place("next"), "only the last"),
    ],
)
def test_a_text_that_is_cut_is_said_to_be(model: str, place: Place, said: str) -> None:
    note = predict_results.cut_note(side_of(model, "girls walk " * 300, place))
    assert said in note and "of the 600 words" in note
    assert not predict_results.cut_note(side_of(model, "The girls walk to it .", place))


def test_the_map_of_where_says_shares_in_percent_and_tiny_effects_in_nats() -> None:
    side = side_of("mini:bert", "The girls were tall .", Place("word", 2))
    corrupt = predict_patching.corrupt_side(side, typed("The girl were tall ."))
    found = predict_patching.patching(side, corrupt, "states", "were", "was")
    (shares,) = predict_patching.grids(found.table, "states")
    assert (
        shares["percent"] and shares["tips"][-1][2] == "embeddings, girl ← girls: 100.0 % restored"
    )
    (nats,) = predict_patching.grids(found.table, "states", found.corrupt)
    gap = found.clean - found.corrupt
    assert nats["tips"][-1][2] == f"embeddings, girl ← girls: {gap:+.3f} nats"


def test_experiments_that_refuse_a_model_are_not_offered(folders: dict[str, Path]) -> None:
    bert, elmo, tags = (model_of(n) for n in ("mini:bert", "mini:elmo", str(folders["tags"])))
    labels = dict.fromkeys(("lens", "tuned-lens", "contributions", "patching"), "")
    assert "contributions" not in predict_views.offered(labels, elmo)
    assert "tuned-lens" not in predict_views.offered(labels, tags)
    assert predict_views.offered(labels, bert) == labels


def test_a_continuation_is_shown_without_signs_of_markdown() -> None:
    side = side_of("mini:gpt", "Ben *walks*", Place("next"))
    shown = predict_views._continued(side, " to <b>\n")
    assert "<b> to &lt;b&gt;↵</b>" in shown and "**" not in shown and "U+" not in shown


def test_the_downloads_of_edits_have_a_figure() -> None:
    from workbench.analyses.predictions import figures

    side = side_of("mini:bert", "The girls were tall .", Place("word", 2))
    _, _, table = before_and_after(side, slots([t.text for t in side.doc], [Edit("delete", 1)]))
    assert len(figures.before_and_after(table).data) == 2
    effects = predict_results.effects(side, "hide")
    assert sorted(figures.word_effects(effects).data[0].x) == sorted(effects["change"])
