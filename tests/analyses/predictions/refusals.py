"""Which methods of attribution each family refuses: the table of docs/decisions/attribution.md."""

from tests.models.test_logits import HEADED
from workbench.analyses.attribution.methods import METHODS, Method, attribute_prediction
from workbench.analyses.predictions.prediction import Prediction
from workbench.analyses.predictions.target import Target
from workbench.core.errors import WorkbenchError

WITHOUT_VALUES = ("head-conductance", "attention-norms")  # families that show no value vectors
LAYERS = ("layer-integrated-gradients", "layer-conductance", "head-conductance")
NAMES = ("mini:bert", "mini:gpt", "mini:t5", "mini:elmo", *HEADED)

_OF_FAMILY: dict[str, tuple[str, ...]] = {
    "mini:elmo": (*LAYERS, "attention-rollout", "attention-norms", "attention"),
    "xlnet": (*LAYERS, "attention-norms"),
    **dict.fromkeys(("deberta-v2", "longformer", "openai-gpt", "bloom"), WITHOUT_VALUES),
}
REFUSALS = {name: (*_OF_FAMILY.get(name, ()), "deeplift") for name in NAMES}


def outcome(prediction: Prediction, target: Target, method: Method) -> str:
    """`runs`, or `refused` with one sentence and a remedy."""
    try:
        found = attribute_prediction(prediction, target, method, max_steps=4, samples=2)
    except WorkbenchError as error:
        assert error.remedy and str(error).count("Traceback") == 0
        return "refused"
    assert len(found.scores) == len(found.units)
    assert all(
        score == 0 for unit, score in zip(found.units, found.scores, strict=True) if unit.fixed
    )
    return "runs" if bool(abs(found.scores).sum() > 0) else "nothing"


def table() -> str:
    """The table in Markdown: a row for each model, `—` where a method is refused."""
    columns = [method for method in METHODS if method not in ("random",)]
    lines = [f"| model | {' | '.join(columns)} |", f"|---|{'---|' * len(columns)}"]
    for name in NAMES:
        cells = ["—" if method in REFUSALS[name] else "✓" for method in columns]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)
