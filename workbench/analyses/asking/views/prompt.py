"""The tab Prompt: labels as words after demonstrations, which one adds, flips, moves and removes.

The demonstrations are in the address, as JSON. Costs: `label_probabilities` for each change, and
once without each demonstration for a small model.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any

import streamlit as st

from workbench.analyses.asking.views import able, writing
from workbench.app import cache, choice
from workbench.app.runs import run_list
from workbench.app.text import errors_shown, lines, plain
from workbench.app.text_boxes import TYPED_AT
from workbench.app.token_views.component import token_views
from workbench.app.token_views.views import Choice, Predictions, bars
from workbench.core.errors import WorkbenchError
from workbench.core.files import parse_json
from workbench.core.objectives import PREDICTED

if TYPE_CHECKING:
    from workbench.engine.model import Model
    from workbench.models.scoring.prompts import Calibration, PromptDesign

DEMOS = "demos"  # in the address, without a box of its own
ROWS = "demonstrations"  # in the session
TEMPLATE, WORDS = "{text} It was {label}.", "good, bad"
TEXT = "The child was very sick."
EXAMPLE = (
    ("She laughed with joy.", 0),
    ("He wept in despair.", 1),
    ("They danced all night.", 0),
)
MOST = 32  # demonstrations
ADDRESS = 6_000  # characters of demonstrations that fit into an address
SHOWN = 40  # characters of a demonstration in a list
ENTRIES = 512
HEADINGS: "Mapping[Calibration, str]" = {
    "none": "Probability of the words",
    "contextual": "Contextual calibration",
    "domain": "Domain-conditional calibration",
    "length": "Mean over pieces",
}
_numbers = count()

Texts = tuple[tuple[str, str], ...]  # each with its label's word
Shares = Mapping["Calibration", Sequence[float]]  # by calibration, of each label


@dataclass
class Row:
    """A demonstration; `key` names its boxes while it moves."""

    text: str
    label: int
    key: str = field(default_factory=lambda: f"demo {next(_numbers)}")


def draw() -> None:
    """Draw the tab."""
    ref, model = able.model_for("score labels as words", PREDICTED)
    rows = _rows()
    with st.container(key="beside"):
        left, right = st.columns([7, 6], gap="medium")
    with left:
        with st.container(key="line-design", horizontal=True):
            template = _box("Template", TEMPLATE, "template", "Has {text} and {label}.")
            typed = _box("Words of the labels", WORDS, "words", "Two or more, with commas.")
        words = [word.strip() for word in typed.split(",") if word.strip()]
        st.markdown("**Demonstrations**")
        for n, row in enumerate(rows):
            _demonstration(rows, n, row, words)
        st.button(
            "Add a demonstration",
            icon=":material/add:",
            on_click=lambda: _save([*rows, Row("", len(rows) % max(1, len(words)))]),
            disabled=len(rows) >= MOST,
            key="add demo",
        )
        text = _box("Text to label", TEXT, "query", "The answers follow while you type.")
    with right, errors_shown():
        shown: Texts = tuple(
            (row.text.strip(), words[row.label % len(words)])
            for row in rows
            if row.text.strip() and words
        )
        _answers(ref, model, (template, tuple(words)), shown, cache.checked(text))
        able.draw_what_it_has_read(ref)


def _box(label: str, value: str, key: str, about: str) -> str:
    return (
        st.text_input(label, value, key=key, bind="query-params", live=TYPED_AT, help=about) or ""
    )


# --- the demonstrations ---------------------------------------------------------------------------


def _rows() -> list[Row]:
    """The demonstrations of the session, or of an address that another page or person has made."""
    address = st.query_params.get(DEMOS)
    known: tuple[str | None, list[Row]] | None = st.session_state.get(ROWS)
    if known is not None and address in (None, known[0]):
        return known[1]
    rows = [Row(*each) for each in (EXAMPLE if address is None else _of_address(address))]
    st.session_state[ROWS] = address, rows
    return rows


def _of_address(address: str) -> list[tuple[str, int]]:
    """The demonstrations of an address; what is nonsense is left out."""
    try:
        stored = parse_json(address)
    except ValueError:
        return []
    return [
        (each[0], each[1])
        for each in (stored[:MOST] if isinstance(stored, list) else [])
        if isinstance(each, list) and [*map(type, each)] == [str, int] and each[1] >= 0
    ]


def _save(rows: list[Row]) -> None:
    """Keep the demonstrations, in the address too if they fit."""
    address = json.dumps([[row.text, row.label] for row in rows], ensure_ascii=False)
    is_short = len(address) <= ADDRESS
    run_list.set_query(DEMOS, address if is_short else None)
    st.session_state[ROWS] = address if is_short else None, rows


def _demonstration(rows: list[Row], n: int, row: Row, words: Sequence[str]) -> None:
    """Draw one demonstration, with its label and what can be done with it."""

    def typed() -> None:
        row.text = st.session_state.get(row.key) or ""
        _save(rows)

    def flip() -> None:
        row.label = (row.label + 1) % len(words)
        _save(rows)

    def move(to: int) -> None:
        others = rows[:n] + rows[n + 1 :]
        _save([*others[:to], row, *others[to:]])

    def button(name: str, label: str, act: Callable[[], None], is_on: bool, about: str) -> None:
        st.button(
            label, key=f"{name} {row.key}", on_click=act, disabled=not is_on, help=about,
            type="secondary" if name == "flip" else "tertiary",
        )  # fmt: skip

    with st.container(
        key=f"line-{row.key}", horizontal=True, vertical_alignment="center", gap="small"
    ):
        st.text_input(
            f"Demonstration {n + 1}",
            row.text,
            key=row.key,
            live=TYPED_AT,
            on_change=typed,
            label_visibility="collapsed",
            placeholder="Type a text",
        )
        if words:
            word = plain(words[row.label % len(words)], 20)
            button("flip", word, flip, len(words) > 1, "Its label. Click for the next one.")
        button("up", "↑", partial(move, n - 1), n > 0, f"Move demonstration {n + 1} up")
        button(
            "down", "↓", partial(move, n + 1), n < len(rows) - 1, f"Move demonstration {n + 1} down"
        )
        button(
            "remove",
            "✕",
            partial(_save, rows[:n] + rows[n + 1 :]),
            True,
            f"Remove demonstration {n + 1}",
        )


# --- the labels -----------------------------------------------------------------------------------


def _answers(
    ref: str, model: "Model", design: tuple[str, tuple[str, ...]], shown: Texts, text: str
) -> None:
    """Draw the probabilities of the labels, and what the last change and each text change."""
    shares = _shares(model, design, shown, text)
    before = _before((ref, design[1], text), shares)
    best = max(range(len(design[1])), key=lambda n: shares["none"][n])
    lists = [
        Predictions(
            HEADINGS[name],
            [
                Choice(n, word, p, change=p - before[name][n] if name in before else 0.0)
                for n, (word, p) in enumerate(zip(design[1], each, strict=True))
            ],
        )
        for name, each in shares.items()
    ]
    name = choice.name_of(ref, "models")
    st.markdown(
        f"**{plain(name)}**: “{plain(design[1][best])}” · after {len(shown)} "
        f"demonstration{'' if len(shown) == 1 else 's'}"
    )
    token_views([bars("labels", lists)], "labels", writing.none_chosen)
    st.caption(
        "▲ and ▼: points that your last change added or took. A label is calibrated by what the "
        "model says for texts without content, or for the template alone."
    )
    if shown and model.parameters <= writing.SMALL:
        _without_each(model, design, shown, text, best, shares["none"][best])
    with st.expander("The prompt, as the model reads it"):
        before_label, after = _design(design).prompt(_demonstrations(shown), text)
        lines([f"{before_label}▁{after if model.objective != 'causal' else ''}"])


def _before(key: tuple[object, ...], shares: Shares) -> Shares:
    """The probabilities before the last change; forgotten when the text or the words change."""
    slot = "labels before"
    known = st.session_state.get(slot)
    if known is None or known[0] != key:
        known = key, shares, {}
    elif known[1] != shares:
        known = key, shares, known[1]
    st.session_state[slot] = known
    return known[2]


def _without_each(
    model: "Model",
    design: tuple[str, tuple[str, ...]],
    shown: Texts,
    text: str,
    best: int,
    share: float,
) -> None:
    """Draw the probability of the first label without each demonstration."""
    rows = []
    for n, (each, word) in enumerate(shown):
        p = _shares(model, design, shown[:n] + shown[n + 1 :], text)["none"][best]
        rows.append(Choice(n, f"{n + 1} {word}: {each[:SHOWN]}", p, change=p - share))
    name = f"“{design[1][best]}” without each demonstration"
    token_views([bars("without", [Predictions(name, rows)])], "without", writing.none_chosen)


def _shares(model: "Model", design: tuple[str, tuple[str, ...]], shown: Texts, text: str) -> Shares:
    key = f"{model.content_hash} {model.precision} {model.device}"
    return _probabilities(key, design, shown, text, model)


@st.cache_data(max_entries=ENTRIES, show_spinner=False)
def _probabilities(
    key: str, design: tuple[str, tuple[str, ...]], shown: Texts, text: str, _model: "Model"
) -> Shares:
    """The probabilities of the labels by each calibration that the template allows."""
    from math import isfinite

    from workbench.engine.forward_pass import ALONE
    from workbench.models.scoring.prompts import label_probabilities

    with ALONE:
        found = label_probabilities(_model, _design(design), _demonstrations(shown), [text])
    shares = {name: found.probabilities(name)[0].tolist() for name in HEADINGS}
    if len(set(found.pieces.tolist())) == 1:
        del shares["length"]  # of words of equal length it is the same as none
    return {name: each for name, each in shares.items() if all(map(isfinite, each))}


def _design(design: tuple[str, tuple[str, ...]]) -> "PromptDesign":
    from workbench.models.scoring.prompts import PromptDesign

    template, words = design
    if len(set(words)) < 2:
        raise WorkbenchError(
            "There are fewer than two different words for the labels.",
            code="label-words-invalid",
            remedy="Write two or more, with commas between them.",
        )
    return PromptDesign(template, {word: word for word in words})


def _demonstrations(shown: Texts) -> list[Any]:
    from workbench.models.scoring.prompts import Demonstration

    return [Demonstration(text, label) for text, label in shown]
