"""The page Transfer in a real browser: ask, watch, try a text on two models, see both side by side;
every view on a desk and on a phone, in light and in dark."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

import workbench as wb
from tests.app.drive import still, typed
from workbench import Run
from workbench.app.runs.settings_form import sentence_of
from workbench.experiment.definition import EXPERIMENTS

pytestmark = pytest.mark.browser
SMALL: dict[str, Any] = {
    "max_train": 60,
    "max_dev": 20,
    "max_test": 20,
    "seeds": [0],
    "learning_rates": [1e-3],
    "max_epochs": 1,
}
DRAWN = ".js-plotly-plot .main-svg"


@pytest.fixture
def frozen(runs: Callable[..., Run]) -> Run:
    """A model that stayed as it was under a head, where the app finds it."""
    settings: dict[str, Any] = {**SMALL, "method": "frozen"}
    return wb.run("finetune", model="mini:bert", corpus="primer/sentiment", **settings)


@pytest.mark.slow  # each view without a browser is in test_pages_transfer, the page in test_pages
def test_a_model_is_adapted_and_a_text_tried_on_it_and_on_a_frozen_one(
    page: Page, app_url: str, frozen: Run
) -> None:
    page.goto(f"{app_url}/transfer?analysis=Fine-tuning&corpus=primer/sentiment&new=1")
    expect(page.get_by_text("Ready to run")).to_be_visible()
    page.get_by_text("Advanced").click()
    for name in ("max_train", "max_dev", "max_test", "seeds", "learning_rates", "max_epochs"):
        value = SMALL[name]
        field = EXPERIMENTS["finetune"].settings.model_fields[name]
        typed(
            page,
            sentence_of(field.description or ""),
            str(value[0] if isinstance(value, list) else value),
        )
    page.get_by_role("button", name="Run", exact=True).click()
    expect(page.get_by_text("Score of each seed on the scored texts").first).to_be_visible()
    expect(page).to_have_url(re.compile("run=finetune-"))
    still(page)

    page.get_by_role("tab", name="Learning").click()
    expect(page.get_by_text("Training loss of each step")).to_be_visible()
    page.get_by_role("tab", name="Try a text").click()
    expect(page.get_by_text(re.compile("Same prediction|Different predictions"))).to_be_visible()
    for method in ("fine-tuned", "frozen"):
        expect(page.get_by_text(re.compile(rf"mini:bert, {method} \(")).first).to_be_visible()
    still(page)
    text = page.get_by_label("Text", exact=True)
    text.fill("The hat was lovely.")
    text.press("Control+Enter")
    expect(page).to_have_url(re.compile("text=The(%20|[+])hat"))
    still(page)
    address = page.url
    page.goto("about:blank")
    page.goto(address)
    expect(page.get_by_label("Text", exact=True)).to_have_value("The hat was lovely.")
    expect(page.get_by_test_id("stDataFrame")).to_have_count(2)

    page.get_by_role("tab", name="Compare models").click()
    page.get_by_role("link", name="Compare the attention of both").click()
    expect(page).to_have_url(re.compile("attention.*compare=another(%20|[+])model"))
    expect(page).to_have_url(re.compile("model2=finetune-"))
    expect(page.get_by_text("attends to").or_(page.get_by_text("difference")).first).to_be_visible()
    expect(page.get_by_test_id("stException")).to_have_count(0)


@pytest.mark.slow
def test_drift_is_started_from_a_finetuned_model(page: Page, app_url: str, frozen: Run) -> None:
    page.goto(f"{app_url}/transfer?run={frozen.name}&view=Compare+models")
    page.get_by_role("button", name="Run drift").click()
    expect(page.get_by_text("Change of each layer by training")).to_be_visible()
    expect(page).to_have_url(re.compile("run=drift-"))
    still(page)
    page.get_by_role("tab", name="Attention").click()
    expect(page.get_by_text(f"after: {frozen.name}")).to_be_visible()
    page.get_by_role("tab", name="CKA").click()
    expect(page.get_by_text("debiased linear CKA")).to_be_visible()


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
@pytest.mark.slow
def test_every_view_stays_within_the_screen(
    browser: Browser, app_url: str, runs: Callable[..., Run], width: int, scheme: str
) -> None:
    settings: dict[str, Any] = {
        **SMALL,
        "tasks": ["sentiment"],
        "save_models": True,
        "lstm_baseline": False,
    }
    gains = wb.run("frozen-vs-finetuned", model="mini:bert", corpus="primer", **settings)
    context = browser.new_context(
        viewport={"width": width, "height": 900},
        color_scheme=scheme,  # type: ignore[arg-type]
    )
    page = context.new_page()
    wrong: list[str] = []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    for view in ("Gain", "Scores", "Cost", "Learning", "Try a text"):
        page.goto(f"{app_url}/transfer?run={gains.name}&view={view.replace(' ', '+')}")
        seen = page.get_by_test_id("stDataFrame") if view == "Try a text" else page.locator(DRAWN)
        expect(seen.first).to_be_visible()
        still(page)
        for part in ("html", "[data-testid=stMain]"):
            wide, room = page.eval_on_selector(part, "node => [node.scrollWidth, node.clientWidth]")
            assert wide <= room + 1, (view, part)
        if view == "Table":
            expect(page.locator(DRAWN).get_by_text("Δ").first).to_be_visible()
    assert not wrong
    expect(page.get_by_test_id("stException")).to_have_count(0)
    context.close()


@pytest.mark.slow
def test_a_touch_screen_shows_no_buttons_over_a_figure(browser: Browser, app_url: str) -> None:
    size: Any = {"width": 1180, "height": 820}
    context = browser.new_context(viewport=size, has_touch=True, is_mobile=True)
    page = context.new_page()
    page.goto(f"{app_url}/transfer?run=built-in/frozen-vs-finetuned-mini-bert")
    expect(page.locator(".modebar").first).to_be_attached()
    expect(page.locator(".modebar").first).to_be_hidden()
    context.close()
