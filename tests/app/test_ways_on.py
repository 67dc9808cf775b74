"""A model that predicts nothing is no dead end: pages say why, and what can be done with it."""

from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

import workbench as wb
from tests.app.pages import home, opened, said  # noqa: F401
from workbench.runs.request import make_request

pytestmark = pytest.mark.usefixtures("home")
TUNE = "Fine-tune it with a head"


@pytest.fixture
def encoder(tmp_path: Path) -> str:
    """An encoder as it is without a language-model head."""
    model: Any = wb.load("mini:bert", device="cpu")
    model.net.base_model.save_pretrained(tmp_path / "encoder")
    model.tokenizer.save_pretrained(tmp_path / "encoder")
    return str(tmp_path / "encoder")


def links(app: AppTest) -> dict[str, str]:
    """The labels of the links of a page, and what they have in the address."""
    found: list[Any] = list(app.get("page_link"))
    return {each.proto.label: each.proto.query_string for each in found}


@pytest.mark.parametrize("page", ["predict", "home"])
def test_a_page_of_predictions_offers_what_an_encoder_has(page: str, encoder: str) -> None:
    app = opened(page, model=encoder)
    assert not app.error, "it is no mistake of the visitor"
    assert "saved without a head" in said(app)
    assert {TUNE, "Nearest words", "Heads", "Probe its layers"} <= links(app).keys()
    assert "analysis=Fine-tuning" in links(app)[TUNE] and "encoder" in links(app)[TUNE]


@pytest.mark.parametrize("analysis", ["Importance", "Curves"])
def test_pruning_an_encoder_is_refused_with_a_way_on(analysis: str, encoder: str) -> None:
    app = opened("pruning", model=encoder, analysis=analysis, new="1")
    assert "needs a language-model head" in said(app).replace("\\", "")
    assert TUNE in links(app)


def test_the_ways_that_are_offered_can_be_gone(encoder: str) -> None:
    texts = ("primer/sentiment:size=60",)
    for experiment, settings in (
        ("finetune", {}),
        ("head-pruning", {"task": "sentiment"}),
        ("heads", {}),
        ("neighbours", {}),
        ("edge-probing", {}),
    ):
        corpora = texts if experiment in ("finetune", "head-pruning") else ("primer",)
        request = make_request(experiment, (encoder,), corpora, settings)
        assert not list(request.unmet_requirements()), experiment


def test_a_model_that_predicts_keeps_its_page() -> None:
    assert TUNE not in links(opened("predict", model="mini:bert", text="The girls were tall."))
