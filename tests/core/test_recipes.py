"""Every question that an analysis announces names what exists."""

import pytest

from workbench.app import navigation
from workbench.core.analysis import Analysis, Recipe, analyses, recipes
from workbench.experiment.definition import EXPERIMENTS
from workbench.models.references import BUILT_IN_MODELS, MINI, split_ref

ANNOUNCED = [pytest.param(*pair, id=name) for name, pair in recipes().items()]


def test_names_are_unique() -> None:
    announced = [recipe.name for each in analyses().values() for recipe in each.recipes]
    assert sorted(announced) == sorted(recipes())


@pytest.mark.parametrize(("owner", "recipe"), ANNOUNCED)
def test_a_question_names_an_experiment_and_settings_that_exist(
    owner: Analysis, recipe: Recipe
) -> None:
    experiment = EXPERIMENTS[recipe.experiment]
    assert recipe.experiment in owner.experiments or any(
        recipe.experiment in analyses()[package].experiments for package in owner.needs
    )
    experiment.settings(**recipe.settings)
    least, most = experiment.models
    n_models = 1 if recipe.is_apart else recipe.models
    assert least <= n_models and (most is None or n_models <= most)
    assert experiment.corpora[0] <= 1
    assert recipe.question.endswith("?") and recipe.about.endswith(".")


@pytest.mark.parametrize(("owner", "recipe"), ANNOUNCED)
def test_what_a_question_draws_can_be_imported(owner: Analysis, recipe: Recipe) -> None:
    for home in filter(None, (recipe.asks, recipe.answer, recipe.figure)):
        assert callable(owner.imported(home))
    assert not recipe.page or navigation.named(recipe.page) is not None


@pytest.mark.parametrize(("owner", "recipe"), ANNOUNCED)
def test_its_example_has_as_many_models_as_it_asks_for(owner: Analysis, recipe: Recipe) -> None:
    *models, _ = recipe.example
    assert len(models) == recipe.models == len(set(models))
    assert {split_ref(ref).source for ref in models} <= {*MINI, *BUILT_IN_MODELS}
