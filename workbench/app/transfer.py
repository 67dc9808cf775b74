"""Frozen or fine-tuned: five questions, of which one is open, and runs that told before.

Costs a look at the runs' statuses.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import streamlit as st

from workbench.app import (
    cache,
    run_form,
    run_view,
    settings_form,
    sidebar,
    tables_and_figures,
    text,
)
from workbench.app.analysis import TABLES, Analysis, View, figure_view
from workbench.app.text import plain, told
from workbench.core import machine
from workbench.core.errors import WorkbenchError
from workbench.core.experiment import EXPERIMENTS, Experiment
from workbench.figures import drift, pretraining, transfer
from workbench.figures.transfer import delta, way
from workbench.models.references import TRAINED, trained_by

if TYPE_CHECKING:
    from workbench.runs.run import Run
    from workbench.transfer.checkpoints import Thought
    from workbench.transfer.tasks import Task

OWN = ("task", "adapted", "one", "other", "pair")  # choices of a run, in the address


def ask(kind: Experiment[Any], run: "Run | None") -> None:
    """The question, beginning with the models of the run."""
    if run is not None and kind.models[1] not in (0, 1):
        _further(kind, run)
    run_form.ask(kind, run, kind.about)


def _further(kind: Experiment[Any], run: "Run") -> None:
    """To ask again, one begins with the models that the run looked at."""
    first = sidebar.model()
    known = [known_as(model.ref) for model in run.spec.models if model.ref is not None]
    refs = [ref for ref in known if ref != first]
    most = kind.models[1]
    st.session_state.setdefault(
        f"further {kind.name} model", refs if most is None else refs[: most - 1]
    )


def known_as(ref: str) -> str:
    """A reference by the name of the run that made the model, where it lies among the runs here."""
    folder = Path(ref)
    name = trained_by(folder)
    return name if name and folder.parent == machine.runs() / name else ref


# --- models next to each other --------------------------------------------------------------------
#
# The model before and after: a way into the attention browser with both, and to ask what changed.
#
# Costs nothing; asking what changed is a run of its own.

CHANGED = "drift"


def beside(run: "Run") -> None:
    """The way to where every head of both looks, and to what has changed."""
    models = [model.ref for model in run.spec.models]
    if run.spec.experiment != CHANGED:
        if not (run.path / TRAINED).is_dir():
            st.text("The run kept no model: ask it with keep, and by a method that can be kept.")
            return
        models = [models[0], run.name]
    corpus = run.spec.corpora[0].ref
    if None in models or corpus is None:
        st.text("The run was asked of objects, not of files: they cannot be opened again here.")
        return
    before, after = (known_as(str(model)) for model in models[:2])
    st.markdown(f"Before: **{plain(before)}** · after: **{plain(after)}**")
    st.page_link(
        "pages/attention.py",
        label="Look at the attention of both",
        icon=":material/compare:",
        query_params={
            sidebar.MODEL: sidebar.named(before, "models"),
            sidebar.CORPUS: sidebar.named(corpus, "corpora"),
            "beside": "another model",
            "model2": after,
        },
        help="The attention browser with the model before and, beside it, the one after; head by "
        "head, in step, with the difference.",
    )
    if run.spec.experiment != CHANGED and st.button(
        "Ask what has changed",
        icon=":material/science:",
        help="A run of drift on the same corpus: states, weights, attention and forgetting, layer "
        "by layer.",
    ):
        run_form.start((CHANGED, (before, after), (corpus,), {}, {}))


# --- trying a text on two adapted models ----------------------------------------------------------
#
# The models are those that runs of `finetune` have kept. Costs opening them, which the app
# remembers, and a forward pass of each a text.

FINETUNE = "finetune"
NONE = (
    "There is no model to try: none was kept that has a head of its own. Set keep, and a method "
    "other than adapters, prefix or prompt."
)


def trying(run: "Run") -> None:
    """Boxes for the text and both models, and what each thinks."""
    names = _adapted(run)
    if not names:
        st.text(NONE)
        return
    one, other = _two(names, run)
    task = _task(one)
    texts = _texts(task, run)
    with told():
        docs = tuple(" ".join(text.split()) for text in texts)
        for text in docs:
            cache.typed(text)  # an empty one, or one too long, is told once
        sides = dict.fromkeys((one, other))
        thoughts = [_thought(name, cache.model_stamp(name), docs) for name in sides]
        if len(thoughts) == 2:
            alike = thoughts[0].guess == thoughts[1].guess
            st.badge(
                "Both think the same" if alike else "They differ",
                icon=":material/check:" if alike else ":material/call_split:",
                color="gray" if alike else "orange",
            )
        for place, name, found in zip(st.columns(len(sides)), sides, thoughts, strict=True):
            with place, st.container(border=True):
                _show(names[name], name, found, task)


# --- which models ---------------------------------------------------------------------------------


def _adapted(run: "Run") -> dict[str, str]:
    """Runs that kept a model of the run's task, and what each is: its own first."""
    from workbench.runs.run import open_run

    if run.spec.experiment == FINETUNE:
        there = [run.name, *run_form.titles(FINETUNE)]
        task, corpora = run.settings.get("task"), _hashes(run)
    else:
        cells = tables_and_figures.table_of(run, "cells")
        tasks = [str(task) for task in dict.fromkeys(cells["task"])]
        picked = tables_and_figures.one("Task", tasks, "task", width=240)
        there = [str(name) for name in cells.loc[cells["task"] == picked, "run"]]
        task, corpora = None, None
    found = {}
    for name in dict.fromkeys(there):
        try:
            own = open_run(name)
            settings = own.settings
            if corpora and (settings.get("task") != task or _hashes(own) != corpora):
                continue
        except WorkbenchError:
            continue  # it was removed meanwhile
        if (own.path / TRAINED / "task").is_dir():
            model = own.spec.models[0].name
            found[name] = f"{model}, {way(settings)} ({name.rpartition('-')[2][:6]})"
    return found


def _hashes(run: "Run") -> list[str]:
    return [corpus.hash for corpus in run.spec.corpora]


def _two(names: dict[str, str], run: "Run") -> tuple[str, str]:
    """Two of them; the second adapted otherwise, where there is such a one."""
    there = list(names)
    look: dict[str, Any] = {"format_func": names.__getitem__, "width": 340}
    about = "What a run of finetune has kept; of the seed that dev liked best."
    with st.container(horizontal=True):
        one = tables_and_figures.one("Model", there, "one", help=about, **look)
        return one, tables_and_figures.one(
            "Beside it", there, "other", min(1, len(there) - 1), **look
        )


# --- which text -----------------------------------------------------------------------------------


def _task(name: str) -> "Task":
    from workbench.models.references import folder_of
    from workbench.transfer.checkpoints import asked_of

    folder = folder_of(name)
    assert folder is not None, "a run that kept a model has its folder"
    return asked_of(folder)


def _texts(task: "Task", run: "Run") -> tuple[str, ...]:
    """What is typed; to begin with, the first text of the corpus."""
    first = _first(run, task.name)
    labels = ("First text", "Second text") if task.pairs else ("Text",)
    if task.pairs and task.kind == "answers":
        labels = ("Question", "Text")
    return tuple(
        st.text_area(
            label,
            first[place] if place < len(first) else "",
            key=key,
            bind="query-params",
            height=80,
            max_chars=cache.LONGEST,
            help="Read by an installed spaCy pipeline; where there is none, words come from rules.",
        )
        or ""
        for place, (key, label) in enumerate(zip(("text", "text2"), labels, strict=False))
    )


def _first(run: "Run", name: str) -> tuple[str, ...]:
    """The first text of the task in the corpus, or both of a pair; nothing where it is gone."""
    from contextlib import suppress

    from workbench.corpora.layers import mentions
    from workbench.corpora.primer.tasks import TASKS

    ref = run.spec.corpora[0].ref
    with suppress(WorkbenchError, OSError):
        if ref == "primer" and name in TASKS:
            ref = f"primer/{name}"
        there = cache.corpus(ref or "")
        split = next(each for each in ("test", "dev", *there.splits) if each in there.splits)
        doc = cache.sentence(ref or "", split, 0)
        parts = sorted(mentions(doc, "segments")) if "segments" in doc.spans else []
        if len(parts) == 2:
            return tuple(doc[part.start : part.end].text for part in parts)
        return (doc.text,)
    return ()


# --- what is thought of it ------------------------------------------------------------------------


@st.cache_data(max_entries=64, show_spinner="Thinking …")
def _thought(name: str, stamp: str, texts: tuple[str, ...]) -> "Thought":
    """`stamp` changes when the model does."""
    from workbench.models.references import folder_of
    from workbench.transfer.checkpoints import pair_of, thought

    docs = [cache.typed(text) for text in texts]
    folder = folder_of(name)
    assert folder is not None, "a run that kept a model has its folder"
    doc = docs[0] if len(docs) == 1 else pair_of(*docs)
    return thought(cache.model(name), folder, doc)


def _show(title: str, name: str, found: "Thought", task: "Task") -> None:
    """One model's guess, and how likely it holds it to be."""
    st.caption(plain(title))
    st.markdown(f"**{plain(found.guess, 400)}**")
    if found.cut:
        st.text("The text is too long for this model: its end was not read.")
    share = st.column_config.ProgressColumn(
        "probability", min_value=0.0, max_value=1.0, format="percent",
        help="What the head gives it, after a softmax; models are often surer than they are right.",
    )  # fmt: skip
    rows: list[Any] = list(found.classes or found.words)
    if found.answer is not None:
        st.text(f"Probability of its start times that of its end: {found.answer:.1%}")
    if not rows:
        return
    what = [task.name] if found.classes else ["word", "tag"]
    table = pd.DataFrame(rows, columns=[*what, "probability"])
    st.dataframe(
        table, hide_index=True, column_config={"probability": share}, key=f"thought {name}"
    )


# --- what a run on transfer found: views of it one by one, each in the address --------------------
#
# Only the view that is open is drawn. Costs milliseconds, but for trying a sentence.

EVERY = "all pairs"
SEEDS = "Fewer than three seeds"


def look(run: "Run") -> "Run":
    """What stands above the views: with what was set otherwise than by default, for runs of one
    model differ in little else."""
    run_view.heading(run)
    own = settings_form.chosen(EXPERIMENTS[run.spec.experiment], run.settings)
    chosen = ", ".join(
        f"{name} {' '.join(map(str, value)) if isinstance(value, list) else value}"
        for name, value in own.items()
    )
    if chosen:
        text.facts([("with", chosen)])
    run_view.caveats(run, (SEEDS,))
    return run


def who_gains(run: "Run") -> None:
    """The table of Peters et al. (2019), as a picture and in numbers."""
    tables_and_figures.view_of(run, "delta", delta)
    tables_and_figures.draw_table(tables_and_figures.table_of(run, "delta"), f"delta {run.name}")


def cost(run: "Run") -> None:
    """What each way costs, as a picture and in numbers."""
    tables_and_figures.view_of(run, "cost", transfer.cost)
    tables_and_figures.draw_table(transfer.costs(run.tables), f"cost {run.name}")


def curves(run: "Run") -> None:
    """The loss and dev's score, of one task and one model."""
    parts = {name: tables_and_figures.table_of(run, name) for name in ("learning", "epochs")}
    with st.container(horizontal=True):
        chosen = [
            _one(parts["learning"], "task", "task", "Task"),
            _one(parts["learning"], "model", "adapted", "Model adapted"),
        ]
    own = {
        name: table[(table[["task", "model"]] == chosen).all(axis=1)]
        for name, table in parts.items()
    }
    tables_and_figures.view_of(run, "learning", transfer.learning, own)
    tables_and_figures.view_of(run, "epochs", transfer.epochs, own)


def _one(table: "pd.DataFrame", column: str, key: str, label: str) -> str:
    """A value of a column; a box where there are several."""
    there = [str(value) for value in dict.fromkeys(table[column])]
    return tables_and_figures.one(label, there, key, width=240) if len(there) > 1 else there[0]


def by_seed(run: "Run") -> None:
    """Scores, and what was thought of each text."""
    tables_and_figures.view_of(run, "scores by seed", transfer.by_seed)
    st.subheader("What was thought of each text", anchor=False)
    table = tables_and_figures.table_of(run, "predictions")
    if st.toggle("Only what is wrong", key="wrong", bind="query-params"):
        table = table[table["gold"] != table["guess"]]
    shown = table[["said", "gold", "guess", "seed"]]
    tables_and_figures.draw_table(shown.rename(columns={"said": "text"}), f"predictions {run.name}")


def alike(run: "Run") -> None:
    """Layers by layers: all pairs of models, or one of them, which a narrow screen has room for."""
    table = tables_and_figures.table_of(run, "similarity")
    pairs = {
        f"{first} × {second}": own
        for (first, second), own in table.groupby(["model_a", "model_b"], sort=False)
    }
    picked = EVERY
    if len(pairs) > 1:
        picked = tables_and_figures.one("Models", [EVERY, *pairs], "pair", width=400)
    shown = {"similarity": pairs.get(picked, table)}
    tables_and_figures.view_of(run, "similarity", drift.similarity, shown)


QUESTIONS = {
    "Who gains": "frozen-vs-finetuned",
    "One method": "finetune",
    "What changed": "drift",
    "How alike": "similarity",
    "Pretraining": "pretraining",
}
TRY = View(trying)
BESIDE = View(beside)
VIEWS = {
    "frozen-vs-finetuned": {
        "Table": View(who_gains),
        "Scores": figure_view("scores", "means", transfer.scores),
        "Cost": View(cost),
        "Learning": View(curves),
        "Try a text": TRY,
        "Tables": TABLES,
    },
    "finetune": {
        "Scores": View(by_seed),
        "Learning": View(curves),
        "Try a text": TRY,
        "Two side by side": BESIDE,
        "Tables": TABLES,
    },
    "drift": {
        "By layer": figure_view("drift", "drift", drift.layers),
        "Modules": figure_view("modules", "modules", drift.modules),
        "Heads": figure_view(
            "heads",
            "heads",
            drift.heads,
            "Attention was not compared: the model has no heads, or the two read other pieces.",
        ),
        "Forgetting": figure_view(
            "losses",
            "losses",
            drift.losses,
            "What it forgot is not known: the two are no language models of the same kind.",
        ),
        "Probing": figure_view(
            "probing",
            "probing",
            drift.probing,
            "Probes were not asked for: set probe, which takes minutes.",
        ),
        "Put back": figure_view(
            "rewound",
            "rewound",
            drift.rewound,
            "Layers were not put back: name a model that finetune has kept as the second, and the "
            "corpus of its task.",
        ),
        "CKA": View(alike),
        "In the browser": BESIDE,
        "Tables": TABLES,
    },
    "similarity": {"CKA": View(alike), "Tables": TABLES},
    "pretraining": {
        "Scores": figure_view("table", "table", pretraining.scores),
        "Sizes": figure_view("sizes", "sizes", pretraining.sizes, "There is one size alone."),
        "Tables": TABLES,
    },
}
TRANSFER = Analysis(
    "Transfer",
    "Who gains from fine-tuning, and on what; one model adapted by one method; what that has "
    "changed, layer by layer; how alike the layers of any models are; and what models are worth "
    "that learnt by other means.",
    QUESTIONS,
    VIEWS,
    look,
    ask,
    OWN,
    "Who gains: every task and model, frozen and fine-tuned. One method: one model, one task. "
    "What changed: a model before and after. How alike: the layers of any models. Pretraining: "
    "what models are worth that learnt by other means, or are larger.",
)
