"""The boxes for the choice that is explained, and for one that it is compared with.

The tabs that explain a prediction share them. Costs: the predictions, which are cached.
"""

from collections.abc import Sequence

import streamlit as st

from workbench.analyses.predictions.views import choices as predict
from workbench.analyses.predictions.views import results as predict_results
from workbench.analyses.predictions.views.results import Side
from workbench.app.runs import run_list
from workbench.app.text import plain
from workbench.app.text_boxes import NOTHING
from workbench.drawing.sanitize import spaced


def target_boxes(side: Side, nothing: str = NOTHING, about: str = "none") -> tuple[str, str]:
    """Draw the boxes for the explained choice and a second one; "" for the defaults.

    `nothing` is the default of the second in its box, and `about` in its help. A score of a
    regression is the only choice, so there are no boxes.
    """
    if predict_results.is_score(side):
        return "", ""
    offered = predict_results.top(side, predict_results.LISTED).texts
    target = _choice(
        "Explain",
        predict.TOP,
        offered,
        predict.TARGET,
        "The choice that is explained (default: the most probable one). You can type another one.",
    )
    against = _choice(
        "Rather than",
        nothing,
        offered,
        predict.AGAINST,
        "A second choice: what speaks for the first rather than the second, such as for “is” "
        f"rather than “are” (default: {about}).",
    )
    return "" if target == predict.TOP else target, "" if against == nothing else against


def _choice(label: str, first: str, texts: Sequence[str], key: str, about: str) -> str:
    """Draw a box for a choice of the model; any text can be typed.

    A click on a prediction changes the address, too, so the box follows it and is not bound to it.
    """
    current = st.query_params.get(key, "")
    options = list(dict.fromkeys([first, *texts, *([current] if current else [])]))
    box = f"{key} {current} or {first}"

    def changed() -> None:
        picked = st.session_state.get(box)
        run_list.set_query(key, None if picked in (None, first) else str(picked))

    picked = st.selectbox(
        label,
        options,
        options.index(current or first),
        key=box,
        format_func=spaced,
        on_change=changed,
        accept_new_options=True,
        width=150,
        help=about,
    )
    return str(picked or first)


def named_for(side: Side, first: Side, target: str, against: str) -> tuple[str, str]:
    """The chosen choices for a side: of another kind of prediction, its own top prediction."""
    kinds = {(each.place.kind == "label", predict_results.is_score(each)) for each in (side, first)}
    return (target, against) if len(kinds) == 1 else ("", "")


def shown(text: str) -> str:
    """A choice in a sentence, with a sign for a line break."""
    return plain(text.replace("\n", "↵"))
