"""`wb.steer` and `wb.erase` on a model that is known to tell singular from plural."""

from typing import Any

import pytest
import torch

import workbench as wb
from tests.minis import shared
from workbench import WorkbenchError
from workbench.analyses.predictions.explained import prediction_of

PLURAL, SINGULAR = ["The girls", "The dogs"], ["The girl", "The dog"]


@pytest.fixture(scope="module")
def model() -> Any:
    return shared("mini:gpt")


def test_a_difference_of_number_makes_another_word_plural(model: Any) -> None:
    found = wb.steer(model, PLURAL, SINGULAR, layer=2, target="were", against="was", n_random=20)
    before, after = (
        wb.predict(each, "The cat").first.text for each in (model, found.into(model, 2.0))
    )
    assert before.strip("▁") in ("was", "is") and after.strip("▁") in ("were", "are")
    table = found.table.set_index("strength")
    assert table["effect"].is_monotonic_increasing and table.loc[1.0, "effect"] > 2
    assert table.loc[1.0, "effect"] > table.loc[1.0, "random_high"] and table.loc[1.0, "p"] < 0.05
    assert table.loc[-1.0, "effect"] < table.loc[-1.0, "random_low"] and table.loc[-1.0, "p"] < 0.05
    assert "were" in repr(found) and found.figure().layout.title.text
    assert "random_high" in str(found._repr_html_())  # its table, in a notebook
    by_default = wb.steer(model, PLURAL, SINGULAR, layer=2, n_random=20)
    assert {name.strip("▁") for name in by_default.names} <= {"were", "are", "was", "is"}


def test_the_vector_is_the_difference_of_mean_states(model: Any) -> None:
    found = wb.steer(model, PLURAL, SINGULAR, layer=3, n_random=20)
    means = []
    for texts in (PLURAL, SINGULAR):
        states = []
        for text in texts:
            with wb.Read("block 3", positions=-1).on(model) as seen:
                wb.predict(model, text)
            states.append(seen["block 3"][0][0])
        means.append(torch.stack(states).mean(0))
    torch.testing.assert_close(found.vector, means[0] - means[1], atol=1e-5, rtol=1e-5)
    assert found.write(2.0).site == "decoder block 3"


def test_a_probes_own_directions_are_removed_at_its_site(model: Any) -> None:
    directions = torch.randn(3, model.width, generator=torch.Generator().manual_seed(0))
    found = wb.erase(model, directions=directions, layer=2)
    with wb.Read("block 2").on(found.into(model)) as seen:
        wb.predict(model, "The girls")  # the model itself is as it was
    assert not seen.states
    twin = found.into(model)
    with wb.Read("block 2").on(twin) as seen:
        wb.predict(twin, "The girls")
    assert (seen["block 2"][0] @ directions.T).abs().max() < 1e-3
    assert "3 directions" in repr(found)


def test_a_label_is_erased_and_its_probe_falls_to_chance(model: Any) -> None:
    found = wb.erase(model, wb.read("primer:size=200"), layer=3)
    assert found.probe is not None
    assert found.probe["probe"] > 0.5 > found.probe["probe_erased"]
    assert found.probe["probe_erased"] < found.probe["majority"] + 0.1
    assert "NOUN" in found.labels and "before" in repr(found)
    with pytest.raises(WorkbenchError, match="layer"):
        found.write().into(shared("mini:bert")).copy()


def test_elmo_is_steered_from_both_sides_of_a_hidden_word() -> None:
    model = shared("mini:elmo")
    plural, singular = (
        [f"The {word}{end} [MASK] here." for word in ("girl", "dog")] for end in ("s", "")
    )
    found = wb.steer(model, plural, singular, layer=2, target="were", against="was", n_random=20)
    table = found.table.set_index("strength")
    assert table["effect"].is_monotonic_increasing
    assert table.loc[1.0, "effect"] > table.loc[1.0, "random_high"]
    with wb.Read("block 2").on(model) as seen:
        wb.predict(model, singular[0])
    half, states = model.width // 2, seen["block 2"][0]
    expected = torch.cat([states[1, :half], states[3, half:]])
    torch.testing.assert_close(found.moving[0].states[2], expected, atol=1e-5, rtol=1e-5)
    before, after = (  # of a text that no direction was computed from
        prediction_of(each, "The cat [MASK] here.")[0].logits()[0, found.target]
        - prediction_of(each, "The cat [MASK] here.")[0].logits()[0, found.against]
        for each in (model, found.into(model, 2.0))
    )
    assert before < 0 < after


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda m: wb.steer(m, [], SINGULAR, layer=1), "positive"),
        (lambda m: wb.steer(m, PLURAL, SINGULAR, layer=9), "layer 9"),
        (lambda m: wb.erase(m, layer=2), "directions"),
        (lambda m: wb.erase(m, directions=torch.ones(2, 5), layer=2), "numbers"),
        (lambda m: wb.erase(m, wb.read("primer"), layer=9), "layer 9"),
        (lambda m: wb.steer(shared("mini:elmo"), PLURAL, SINGULAR, layer=1), "directions"),
    ],
)  # fmt: skip
def test_what_cannot_be_done_is_said(model: Any, call: Any, says: str) -> None:
    with pytest.raises(WorkbenchError, match=says) as caught:
        call(model)
    assert caught.value.remedy
