"""From a head to the same head on the page Attention: its model, its text, its cell, its scores.

Costs nothing.
"""

import streamlit as st

from workbench.view.heads_names import GROUP
from workbench.view.heads_sentences import Case
from workbench.view.parts import chosen
from workbench.view.parts.attention import NAMES
from workbench.view.parts.heads_run import Looked
from workbench.view.parts.plain import plain


def link(seen: Looked, case: Case | None = None) -> None:
    """A link, where the model can be opened again; a button, where another one is chosen now."""
    query = address(seen, case)
    if not query:
        return
    label = "Look at it in Attention" if case is None else "The first of these in Attention"
    about = "The same head on a sentence of the corpus, with this run's scores as badges."
    icon = ":material/open_in_new:"
    chosen_here = {key: query[key] for key in chosen.in_url()}
    if chosen.in_url() == chosen_here:
        st.page_link("pages/attention.py", label=label, icon=icon, query_params=query, help=about)
    elif st.button(
        label,
        icon=icon,
        help=f"{about} Chooses {plain(query[chosen.MODEL])} as the model.",
        type="tertiary",
        key=f"attention {case}",
    ):
        chosen.choose_model(str(seen.run.spec.models[0].ref))
        chosen.choose_corpus(str(seen.run.spec.corpora[0].ref))
        rest = {key: value for key, value in query.items() if key not in chosen_here}
        st.switch_page("pages/attention.py", query_params=rest)


def address(seen: Looked, case: Case | None = None) -> dict[str, str]:
    """What the page Attention has to be told; nothing where the model cannot be opened."""
    spec, here = seen.run.spec, seen.here
    model, corpus = spec.models[0].ref, spec.corpora[0].ref if spec.corpora else None
    if model is None or corpus is None:
        return {}
    stack, kind = str(here["stack"]), str(here["kind"])
    own = seen.heads[(seen.heads[GROUP] == [stack, kind]).all(axis=1)]
    row = sorted(set(own["layer"])).index(here["layer"])
    query = {
        chosen.MODEL: chosen.named(model, "models"),
        chosen.CORPUS: chosen.named(corpus, "corpora"),
        "unit": "words",
        "cell": f"{row}.{here['head']}",
        "badges": f"{seen.run.name}: heads",
    }
    if seen.several:
        query["attention"] = f"{stack} {NAMES.get(kind, kind)}"
    if spec.split:
        query |= chosen.showing(spec.split, case.sentence if case else 0)
        if case and case.looks_at >= 0 and kind != "cross":  # items are the words
            query |= {"special": "hidden", "pin": f"{case.word}.{case.looks_at}.row"}
    return query
