"""Every page on everything that leaves a model: it is drawn, or it says truly why it cannot be.

Each page is opened with the model in its address, each analysis and each tab of it too. What a page
refuses is said by an error with a code and a remedy, never by a traceback. By day the tests of the
pages in `tests/app` and `tests/analyses` open the built-in models.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.app.conftest import components_known  # noqa: F401
from tests.app.pages import drawn, home, said  # noqa: F401
from tests.composition.producers import Producer
from tests.composition.test_matrix import PRODUCERS, WITH_MODEL
from workbench.analyses.asking.views import page as asking_views
from workbench.analyses.pruning import views as pruning
from workbench.analyses.transfer import views as transfer
from workbench.analyses.words.views import page as words_views
from workbench.app import navigation

BY_REF = {name: producer for name, producer in PRODUCERS.items() if name != "object-edited"}
TABS = {
    "predict": ("Why?", "What if?", "When?", "Who?", "Where?"),
    "ask": tuple(asking_views.TABS),
    "words": tuple(words_views.TABS),
}
ANALYSES = {"pruning": pruning.ANALYSES, "transfer": transfer.ANALYSES}
FIRST = (
    "models", "attention", "predict", "ask", "words", "heads", "probing", "pruning", "transfer",
)  # fmt: skip
REFUSAL = re.compile(r"\[(?!internal\b)[a-z-]+\]\s+\S")  # a code, then what to do
pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("home", "warm_workers")]


def addresses() -> Iterator[tuple[str, dict[str, str]]]:
    """The pages with their choices in the address: each analysis and tab of each."""
    yield from ((page, {}) for page in FIRST)
    for page, tabs in TABS.items():
        yield from ((page, {"view": tab}) for tab in tabs[1:])
    for page, labels in ANALYSES.items():
        yield from ((page, {"analysis": label}) for label in list(labels)[1:])
    yield "attention", {"compare": "value norms"}
    yield from (
        ("experiments", {"experiment": name})
        for name in WITH_MODEL
        if navigation.page_of(name) == navigation.ANY
    )


def wrong_page(page: str, query: dict[str, str]) -> str:
    """ "" if a page is drawn or refuses truly, else what is wrong with it."""
    app = drawn(page, **query)
    where = " ".join([page, *query.values()])
    if app.exception:
        return f"{where}: {app.exception[0].message}"
    shown = [box.value for box in app.selectbox if box.label == "Model"]
    if query.get("model", shown[0]) != shown[0]:
        return f"{where}: it shows {shown[0]}"
    for error in app.error:
        words = re.sub(r"\\(.)", r"\1", str(error.value))
        if not REFUSAL.search(words) or "Traceback" in words:
            return f"{where}: {words}"
    if "Traceback" in said(app):
        return f"{where}: it shows a traceback"
    return ""


def wrong_pages(producer: Producer, folder: Path) -> list[str]:
    """What is wrong with the pages on the model that a producer makes."""
    made = producer.make(folder)
    chosen = {"model": made, "corpus": producer.corpus}
    found = [wrong_page(page, {**chosen, **query}) for page, query in addresses()]
    if not Path(made).is_absolute():  # the result that left it
        found.append(wrong_page(navigation.page_of(made.rpartition("-")[0]), {"run": made}))
    return [each for each in found if each]


@pytest.mark.parametrize("name", BY_REF)
def test_every_producer_on_every_page(name: str, home: Path) -> None:  # noqa: F811
    assert not wrong_pages(BY_REF[name], home)
