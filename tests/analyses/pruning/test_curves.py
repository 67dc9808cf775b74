"""Order of removal and pruning curves, against known results."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AlbertForMaskedLM, AutoConfig, LlamaForCausalLM

from tests.analyses.pruning.models import HELPER, INDUCTION, PREVIOUS, TWIN, planted, texts
from tests.models import zoo
from tests.night import mostly
from workbench import load, read
from workbench.analyses.pruning import curves
from workbench.analyses.pruning.curves import Method, methods, order_of
from workbench.analyses.pruning.evaluation import Evaluation, build_head_evaluation
from workbench.analyses.pruning.experiments import BY
from workbench.models.head_removal import units
from workbench.models.huggingface import HuggingFace

Mini = Callable[..., Evaluation]


def _evaluation(model: HuggingFace, **more: Any) -> Evaluation:
    return build_head_evaluation(model, texts(model, **more), "", 0)


@pytest.fixture(scope="module")
def twins() -> Evaluation:
    return _evaluation(planted(twins=True, helper=True))


def _heads(evaluation: Evaluation, method: Method, steps: int = 8) -> list[tuple[int, int]]:
    all_ = units(evaluation.model)
    order = order_of(evaluation, all_, method, range(steps + 1), normalised=False)
    return [all_[unit].heads[0] for unit in order]


def test_both_twins_are_removed_if_scored_once_and_one_if_rescored(twins: Evaluation) -> None:
    """Before the head that helps a little, for each alone is worth less; and so all is lost."""
    once, again = (_heads(twins, Method("ablation", rescored)) for rescored in (False, True))
    assert {INDUCTION, TWIN} <= set(once[:6]) and HELPER not in once[:6]
    assert len({INDUCTION, TWIN} & set(again[:6])) == 1 and HELPER in again[:6]
    ruler = curves.Ruler(twins)
    lost = [ruler.measured(order[:6]).texts.value("loss") for order in (once, again)]
    whole = ruler.measured([]).texts.value("loss")
    assert lost[1] < whole + 0.5 and lost[0] > whole + 1


def test_what_all_depends_on_goes_last(twins: Evaluation) -> None:
    assert _heads(twins, Method("ablation", True))[-1] in (PREVIOUS, INDUCTION, TWIN)


def test_a_curve_begins_whole_ends_bare_and_tells_sizes(mini: Mini) -> None:
    evaluation = mini("gpt", 6)
    all_ = units(evaluation.model)
    steps = curves.removal_steps(4, len(all_))
    assert steps == [0, 4, 8, 12, 16]
    for method in methods(BY, 2):
        found = curves.curve(
            evaluation, curves.Ruler(evaluation), method, steps, True, lambda text: None
        )
        assert [len(step.removed) for step in found.steps] == steps
        assert sorted(found.order) == list(range(16))
        sizes = [step.parameters for step in found.steps]
        assert sizes == sorted(sizes, reverse=True) and sizes[0] == evaluation.model.parameters
        assert found.steps[0].texts.value("loss") < found.steps[-1].texts.value("loss")
    table = curves.rows([found], 0)
    assert set(table["metric"]) == {"loss", "accuracy"} and not table.isna().any().any()


def test_lots_differ_by_seed_and_are_the_same_again(mini: Mini) -> None:
    evaluation = mini("bert")
    one, again, other = (
        _heads(evaluation, Method("random", False, seed), 16) for seed in (0, 0, 1)
    )
    assert one == again != other


def test_where_a_score_falls_is_found_between_steps() -> None:
    at, lost = np.array([0.0, 0.5, 1.0]), np.array([0.0, 0.02, 0.2])
    assert curves.crossing(at, lost, 0.01) == pytest.approx(0.25)
    assert curves.crossing(at, lost, 0.02) == pytest.approx(0.5)
    assert curves.crossing(at, lost, 0.11) == pytest.approx(0.75)
    assert curves.crossing(at, lost, 0.3) == 1.0


@pytest.mark.parametrize(
    ("name", "kind", "each"),
    mostly(
        [("albert", AlbertForMaskedLM, 3), ("llama", LlamaForCausalLM, 2)],
        ("albert", AlbertForMaskedLM, 3),
    ),
)
def test_heads_that_share_weights_go_together(
    name: str, kind: Any, each: int, tmp_path: Any
) -> None:
    """ALBERT's in every layer, grouped queries by group: the curve counts them so."""
    folder = zoo.make(name, tmp_path / "plain")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        net = kind(AutoConfig.from_pretrained(folder))
    plain = load(folder)
    assert isinstance(plain, HuggingFace)
    model = HuggingFace(net.train(False), plain.tokenizer, name)
    evaluation = build_head_evaluation(model, list(read("primer").docs("test", 12)), "", 0)
    all_ = units(model)
    for method in methods(("importance", "ablation"), 1):
        steps = curves.removal_steps(2, len(all_))
        found = curves.curve(
            evaluation, curves.Ruler(evaluation), method, steps, True, lambda text: None
        )
        assert [len(step.removed) for step in found.steps] == [0, 2 * each, 4 * each]
        table = curves.orders([found], model)
        assert (table.groupby("place").size() == each).all()


def test_one_head_alone_leaves_the_other_layers_whole(mini: Mini) -> None:
    evaluation = mini("bert")
    all_ = units(evaluation.model)
    table = curves.alone(curves.Ruler(evaluation), all_, list(range(len(all_))))
    assert (table["heads_removed"] == 3).all() and list(table["layer"].unique()) == [0, 1, 2, 3]
    assert (table["head"] == 3).all(), "the one that most is lost without"
