"""The precision that a question asks for where nobody says one."""

import pytest
import torch

from tests.night import mostly
from workbench.runs import request


@pytest.fixture(autouse=True)
def a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a machine with a GPU that computes in bf16."""
    monkeypatch.setattr(request, "_device", lambda asked, needed: asked or "cuda:0")
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda *_: True)


def _chosen(experiment: str, models: int = 1, **how: str) -> set[str]:
    asked = request.make_request(experiment, ["mini:bert"] * models, ["primer"], **how)  # type: ignore[arg-type]
    return {model.precision for model in asked.spec.models}


@pytest.mark.parametrize(
    ("experiment", "models"),
    mostly(
        [("heads", 1), ("attention-averages", 1), ("drift", 2), ("similarity", 2)]
        + [(f"head-{name}", 1) for name in ("importance", "ablation", "pruning", "gates")],
        ("heads", 1),
        ("drift", 2),
        ("head-importance", 1),
    ),
)
def test_what_tells_small_differences_is_exact_on_a_gpu(experiment: str, models: int) -> None:
    assert _chosen(experiment, models) == {"fp32"}
    assert _chosen(experiment, models, precision="bf16") == {"bf16"}


def test_others_are_in_bf16_there_and_exact_on_a_cpu() -> None:
    assert _chosen("edge-probing") == {"bf16"}
    assert _chosen("edge-probing", device="cpu") == {"fp32"}


@pytest.mark.parametrize(
    ("family", "parameters", "precision"),
    [("llama", 7e9, "bf16"), ("llama", 1e9, "fp32"), ("xlnet", 7e9, "fp32")],
)
def test_size_and_family_decide(
    family: str, parameters: float, precision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """XLNet's own code rounds probabilities before anyone sees them."""
    known = request.known

    def other(*about: object) -> object:
        found = known(*about)  # type: ignore[arg-type]
        return type(found)(
            **{**vars(found), "facts": {**found.facts, "family": family, "parameters": parameters}}
        )

    monkeypatch.setattr(request, "known", other)
    assert _chosen("heads") == {precision}
