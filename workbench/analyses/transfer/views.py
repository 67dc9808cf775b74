"""The page Transfer: five analyses of frozen and fine-tuned models, and views of their runs.

Costs: one look at the status file of each run.
"""

from typing import TYPE_CHECKING, Any

import pandas as pd
import streamlit as st

from workbench.analyses.transfer.figures import drift, pretraining, transfer
from workbench.analyses.transfer.figures.transfer import delta, way
from workbench.app import cache, choice, navigation, tables_and_figures
from workbench.app.runs import context, new_run, run_form, run_list
from workbench.app.runs.result_page import ResultPage, View, figure_view
from workbench.app.text import errors_shown, plain
from workbench.core.errors import WorkbenchError
from workbench.core.findings import percent
from workbench.experiment.definition import Experiment
from workbench.models.references import TRAINED

if TYPE_CHECKING:
    from workbench.corpora.text_prediction import TextPrediction
    from workbench.engine.task import Task
    from workbench.runs.run import Run

QUERY_KEYS = ("task", "adapted", "one", "other", "pair")  # choices of a run, in the address


def _preselect_models(experiment: Experiment[Any], run: "Run") -> None:
    """Preselect the models of the run as further models."""
    if experiment.models[1] in (0, 1):
        return
    first = choice.model()
    all_refs = [context.known_as(model.ref) for model in run.spec.models if model.ref is not None]
    refs = [ref for ref in all_refs if ref != first]
    maximum = experiment.models[1]
    st.session_state.setdefault(
        f"further {experiment.name} model", refs if maximum is None else refs[: maximum - 1]
    )


# --- comparison of two models ---------------------------------------------------------------------
#
# Links from the model before and after training to the attention browser and to a run of drift.

DRIFT = "drift"


def comparison(run: "Run") -> None:
    """Draw links to the attention of both models, and to a run of drift."""
    models = [model.ref for model in run.spec.models]
    if run.spec.experiment != DRIFT:
        if not (run.path / TRAINED).is_dir():
            _offer_model(run, str(run.settings.get("task")))
            return
        models = [models[0], run.name]
    corpus = run.spec.corpora[0].ref
    if None in models or corpus is None:
        st.text("The run's model or corpus is a Python object, which cannot be opened again.")
        return
    before, after = (context.known_as(str(model)) for model in models[:2])
    st.markdown(f"Before: **{plain(before)}** · after: **{plain(after)}**")
    navigation.link(
        "attention",
        "Compare the attention of both",
        icon=":material/compare:",
        query_params={
            choice.MODEL: choice.named(before, "models"),
            choice.CORPUS: choice.named(corpus, "corpora"),
            "compare": "another model",
            "model2": after,
        },
        help="Opens the attention browser with the model before and after training, head by head, "
        "with the difference.",
    )
    if run.spec.experiment != DRIFT and st.button(
        "Run drift",
        icon=":material/science:",
        help="Compares both models on the same corpus, layer by layer: states, weights, attention "
        "and forgetting.",
    ):
        run_form.start((DRIFT, (before, after), (corpus,), {}, {}))


# --- trying a text on two adapted models ----------------------------------------------------------
#
# The models are those saved by runs of `finetune`. Costs: loading them, which is cached, and one
# forward pass of each for a text.

FINETUNE = "finetune"
WRITES = (
    "There is no model to try: a model that writes its labels has no task head. Run finetune with "
    "a head other than text."
)
REMOVED = "The model of this run was removed. Remove the run, too, and run it again."


def try_text(run: "Run") -> None:
    """Draw boxes for a text and two models, and the prediction of each."""
    picked = _picked_task(run)
    labels = _saved_models(run, picked)
    if not labels:
        _offer_model(run, picked)
        return
    first, second = _select_two(labels)
    task = _task(first)
    texts = _texts(task, run)
    with errors_shown():
        docs = tuple(" ".join(text.split()) for text in texts)
        for text in docs:
            cache.typed(text)  # an empty or too long text is one error, not one for each model
        sides = dict.fromkeys((first, second))
        predictions = [_prediction(name, cache.model_stamp(name), docs) for name in sides]
        if len(predictions) == 2:
            agree = predictions[0].guess == predictions[1].guess
            st.badge(
                "Same prediction" if agree else "Different predictions",
                icon=":material/check:" if agree else ":material/call_split:",
                color="gray" if agree else "orange",
            )
        for column, name, prediction in zip(
            st.columns(len(sides)), sides, predictions, strict=True
        ):
            with column, st.container(border=True):
                _show(labels[name], name, prediction, task)


def _offer_model(run: "Run", task: str) -> None:
    """Draw a button that trains the best model for a task again, and saves it."""
    settings = _settings_of_best(run, task)
    if settings["head"] == "text":
        st.text(WRITES)
        return
    if run.settings.get("save_model"):
        reasons = [each.text for each in run.caveats if each.text.startswith("No model")]
        st.text(reasons[0] if reasons else REMOVED)
        return
    ref = run.spec.models[settings.pop("model")].ref
    model = None if ref is None else context.known_as(ref)
    corpus, reading = run.spec.corpora[0].ref, run.spec.corpora[0].options
    if model is None or corpus is None:
        st.text("The run saved no model, and its model or corpus is a Python object.")
        return
    st.text("This run saved no model to try.")
    if st.button(
        f"Train and save: {plain(choice.name_of(model, 'models'))}, {settings['method']}, "
        f"{plain(settings['task'])}",
        icon=":material/save:",
        type="primary",
        key="train and save",
        help="Trains this model again with the same settings, as a run of finetune, and saves it. "
        "Then a text can be tried here.",
    ):
        with errors_shown(), st.spinner("Starting …"):
            options = {"seed": run.spec.seed, "split": run.spec.split, "reading": reading}
            name = run_form.begin((FINETUNE, (model,), (corpus,), settings, options))
            query = {run_list.OPENED: name, "analysis": "Fine-tuning"}
            navigation.switch("transfer", query)


def _settings_of_best(run: "Run", task: str) -> dict[str, Any]:
    """The settings of `finetune` for the best cell of a task, and the index of its `model`."""
    from workbench.analyses.transfer.experiments import Adapting

    if run.spec.experiment == FINETUNE:
        return {**run.settings, "save_model": True, "model": 0}
    shared = {name: run.settings[name] for name in Adapting.model_fields if name in run.settings}
    means = tables_and_figures.table_of(run, "means")
    tuned = means[(means["task"] == task) & (means["method"] != "frozen")]
    best = tuned.iloc[int((tuned["value"] - tuned["baseline"]).abs().argmax())]
    cell = {name: str(best[name]) for name in ("task", "method", "head")}
    index = list(dict.fromkeys(means["model"])).index(best["model"])  # in the order of the run
    return {**shared, **cell, "save_model": True, "model": index}


# --- choice of models -----------------------------------------------------------------------------


def _picked_task(run: "Run") -> str:
    """The task of a run; of several, a box is drawn."""
    if run.spec.experiment == FINETUNE:
        return str(run.settings.get("task"))
    return _select_value(tables_and_figures.table_of(run, "cells"), "task", "task", "Task")


def _saved_models(run: "Run", task: str) -> dict[str, str]:
    """Labels of runs that saved a model for the task; the run itself is first."""
    from workbench.runs.run import open_run

    if run.spec.experiment == FINETUNE:
        names = [run.name, *run_form.titles(FINETUNE)]
        corpora = _hashes(run)
    else:
        cells = tables_and_figures.table_of(run, "cells")
        names = [str(name) for name in cells.loc[cells["task"] == task, "run"]]
        corpora = None
    labels = {}
    for name in dict.fromkeys(names):
        try:
            candidate = open_run(name)
            settings = candidate.settings
            if corpora and (settings.get("task") != task or _hashes(candidate) != corpora):
                continue
        except WorkbenchError:
            continue  # it was removed meanwhile
        if (candidate.path / TRAINED / "task").is_dir():
            model = candidate.spec.models[0].name
            labels[name] = f"{model}, {way(settings)} ({name.rpartition('-')[2][:6]})"
    return labels


def _hashes(run: "Run") -> list[str]:
    return [corpus.hash for corpus in run.spec.corpora]


def _select_two(labels: dict[str, str]) -> tuple[str, str]:
    """Draw boxes for two models; the second is another one if there is one."""
    names = list(labels)
    style: dict[str, Any] = {"format_func": labels.__getitem__, "width": 340}
    about = "A model saved by a run of finetune, of the seed with the best dev score."
    with st.container(horizontal=True):
        first = tables_and_figures.select("Model", names, "one", help=about, **style)
        return first, tables_and_figures.select(
            "Compare with", names, "other", min(1, len(names) - 1), **style
        )


# --- choice of text -------------------------------------------------------------------------------


def _task(name: str) -> "Task":
    task: Task = cache.model(name).task_head.task
    return task


def _texts(task: "Task", run: "Run") -> tuple[str, ...]:
    """Draw boxes for the text or both of a pair; the default is the first text of the corpus."""
    defaults = _first_texts(run, task.name)
    labels = ("First text", "Second text") if task.pairs else ("Text",)
    if task.pairs and task.kind == "answers":
        labels = ("The question", "Text")
    return tuple(
        st.text_area(
            label,
            defaults[i] if i < len(defaults) else "",
            key=key,
            bind="query-params",
            height=80,
            help="Parsed by an installed spaCy pipeline. Without one, words are split by rules.",
        )
        or ""
        for i, (key, label) in enumerate(zip(("text", "text2"), labels, strict=False))
    )


def _first_texts(run: "Run", name: str) -> tuple[str, ...]:
    """The first text of the task in the corpus, or both of a pair; empty if it cannot be read."""
    from contextlib import suppress

    from workbench.corpora.layers import mentions
    from workbench.corpora.primer.tasks import TASKS

    ref, reading = run.spec.corpora[0].ref, run.spec.corpora[0].options
    with suppress(WorkbenchError, OSError):
        if ref == "primer" and name in TASKS:
            ref = f"primer/{name}"
        splits = cache.corpus(ref or "", reading).splits
        split = next(each for each in ("test", "dev", *splits) if each in splits)
        doc = cache.sentence(ref or "", split, 0, reading)
        parts = sorted(mentions(doc, "segments")) if "segments" in doc.spans else []
        if len(parts) == 2:
            return tuple(doc[part.start : part.end].text for part in parts)
        return (doc.text,)
    return ()


# --- predictions ----------------------------------------------------------------------------------


@st.cache_data(max_entries=64, show_spinner="Predicting …")
def _prediction(name: str, stamp: str, texts: tuple[str, ...]) -> "TextPrediction":
    """The prediction of a saved model; `stamp` changes when the model's files do."""
    from workbench.corpora.text_prediction import pair_of, predict_text

    docs = [cache.typed(text) for text in texts]
    doc = docs[0] if len(docs) == 1 else pair_of(*docs)
    return predict_text(cache.model(name), doc)


def _show(title: str, name: str, prediction: "TextPrediction", task: "Task") -> None:
    """Draw one model's prediction with its probabilities."""
    st.caption(plain(title))
    st.markdown(f"**{plain(prediction.guess, 400)}**")
    if prediction.cut:
        st.text("The text is too long for this model: its end was cut off.")
    share = st.column_config.ProgressColumn(
        "probability", min_value=0.0, max_value=1.0, format="percent",
        help="Softmax probability of the task head. Models are often overconfident.",
    )  # fmt: skip
    rows: list[Any] = list(prediction.classes or prediction.words)
    if prediction.answer is not None:
        st.text(f"Probability of the start times that of the end: {percent(prediction.answer, 1)}")
    if not rows:
        return
    columns = [task.name] if prediction.classes else ["word", "tag"]
    table = pd.DataFrame(rows, columns=[*columns, "probability"])
    st.dataframe(
        table, hide_index=True, column_config={"probability": share}, key=f"thought {name}"
    )


# --- views ----------------------------------------------------------------------------------------
#
# Costs: milliseconds, except for trying a text.

ALL_PAIRS = "all pairs"
FEW_SEEDS = "Fewer than three seeds"  # words of a caveat that stays in view


def gain(run: "Run") -> None:
    """Draw the gain of fine-tuning over frozen models, as in Peters et al. (2019)."""
    tables_and_figures.view_of(run, "delta", delta)


def cost(run: "Run") -> None:
    """Draw the cost of each method, as a figure and a table."""
    tables_and_figures.view_of(run, "cost", transfer.cost)
    tables_and_figures.draw_table(transfer.costs(run.tables), f"cost {run.name}")


def curves(run: "Run") -> None:
    """Draw the loss and the dev score of one task and one model."""
    tables = {name: tables_and_figures.table_of(run, name) for name in ("learning", "epochs")}
    with st.container(horizontal=True):
        chosen = [
            _select_value(tables["learning"], "task", "task", "Task"),
            _select_value(tables["learning"], "model", "adapted", "Model"),
        ]
    rows = {
        name: table[(table[["task", "model"]] == chosen).all(axis=1)]
        for name, table in tables.items()
    }
    rows["scores"] = tables_and_figures.table_of(run, "scores")
    tables_and_figures.view_of(run, "learning", transfer.learning, rows)
    tables_and_figures.view_of(run, "epochs", transfer.epochs, rows)


def _select_value(table: "pd.DataFrame", column: str, key: str, label: str) -> str:
    """A value of a column; a box is drawn if there are several."""
    values = [str(value) for value in dict.fromkeys(table[column])]
    if len(values) == 1:
        return values[0]
    return tables_and_figures.select(label, values, key, width=240)


def by_seed(run: "Run") -> None:
    """Draw the scores of each seed."""
    tables_and_figures.view_of(run, "scores by seed", transfer.by_seed)


def predictions(run: "Run") -> None:
    """Draw the prediction for each text."""
    table = tables_and_figures.table_of(run, "predictions")
    if st.toggle("Only wrong predictions", key="wrong", bind="query-params"):
        table = table[table["gold"] != table["guess"]]
    shown = table[["said", "gold", "guess", "seed"]]
    tables_and_figures.draw_table(
        shown.rename(columns={"said": "text", "guess": "predicted"}), f"predictions {run.name}"
    )


def similarity(run: "Run") -> None:
    """Draw the similarity of layers, for all pairs of models or for one pair."""
    table = tables_and_figures.table_of(run, "similarity")
    pairs = {
        f"{first} × {second}": rows
        for (first, second), rows in table.groupby(["model_a", "model_b"], sort=False)
    }
    picked = ALL_PAIRS
    if len(pairs) > 1:
        picked = tables_and_figures.select("Models", [ALL_PAIRS, *pairs], "pair", width=400)
    shown = {"similarity": pairs.get(picked, table)}
    tables_and_figures.view_of(run, "similarity", drift.similarity, shown)


ANALYSES = {
    "Frozen vs fine-tuned": "frozen-vs-finetuned",
    "Fine-tuning": "finetune",
    "Drift": "drift",
    "Similarity": "similarity",
    "Pretraining": "pretraining",
}
TRY = View(try_text)
COMPARE = View(comparison)
VIEWS = {
    "frozen-vs-finetuned": {
        "Gain": View(gain),
        "Scores": figure_view("scores", "means", transfer.scores),
        "Cost": View(cost),
        "Learning": View(curves),
        "Try a text": TRY,
    },
    "finetune": {
        "Scores": View(by_seed),
        "Predictions": View(predictions),
        "Learning": View(curves),
        "Try a text": TRY,
        "Compare models": COMPARE,
    },
    "drift": {
        "By layer": figure_view("drift", "drift", drift.layers),
        "Modules": figure_view("modules", "modules", drift.modules),
        "Heads": figure_view(
            "heads",
            "heads",
            drift.heads,
            "Attention was not compared: a model has no heads, or the tokenizers differ.",
        ),
        "Forgetting": figure_view(
            "losses",
            "losses",
            drift.losses,
            "Forgetting was not measured: the two are not language models of the same kind.",
        ),
        "Probing": figure_view(
            "probing",
            "probing",
            drift.probing,
            "Probing was not compared. Run drift again with compare probing (takes minutes).",
        ),
        "Layer reset": figure_view(
            "rewound",
            "rewound",
            drift.rewound,
            "No layer was reset. As the second model, name one saved by finetune; as the corpus, "
            "that of its task.",
        ),
        "CKA": View(similarity),
        "Attention": COMPARE,
    },
    "similarity": {"CKA": View(similarity)},
    "pretraining": {
        "Scores": figure_view("table", "table", pretraining.scores),
        "Sizes": figure_view("sizes", "sizes", pretraining.sizes, "This run has only one size."),
    },
}
TRANSFER = ResultPage(
    "Transfer",
    "What fine-tuning gains over a frozen model, what it changes, and how pretraining matters.",
    ANALYSES,
    VIEWS,
    form=new_run.Form(prepare=_preselect_models),
    query_keys=QUERY_KEYS,
    help="Frozen vs fine-tuned: several tasks and models, both ways. Fine-tuning: one model on one "
    "task. Drift: a model before and after training. Similarity: the layers of any models. "
    "Pretraining: models of different objectives or sizes.",
    first_cautions=(FEW_SEEDS,),
)
