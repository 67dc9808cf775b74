"""Presets of experiments without a built-in result have a measured time."""

import pytest

from workbench.runs import preset_times
from workbench.runs.estimate import Estimate, Finished, Size, estimate, together


@pytest.mark.parametrize("name", preset_times.MODELS)
def test_every_preset_of_a_measured_experiment_has_a_time(name: str) -> None:
    """Else measure again: `python -m workbench.runs.preset_times NAME`."""
    found = [each for each in preset_times.timed(name) if not each.parameters]
    measured = preset_times.distinct(name).values()
    assert sorted(str(each.settings) for each in found) == sorted(map(str, measured))
    assert all(each.seconds > 0 for each in found)


def test_a_measured_preset_tells_the_time_of_its_own_settings_only() -> None:
    quick = Size(("mini:bert",), ("primer",), 200, 1, {"effort": "quick"})
    full = Finished(Size(("mini:bert",), ("primer",), 200, 1, {"effort": "full"}), 99.0, "preset")
    assert estimate(quick, [full]) is None
    assert estimate(Size(("mini:bert",), ("primer",), 200, 1, {}), [full]) is None
    own = Finished(quick, 7.0, "own")
    measured = Finished(quick, 30.0, "preset")
    found = estimate(quick, [measured])
    assert found is not None and found.seconds == 30.0
    found = estimate(quick, [measured, own])
    assert found is not None and found.seconds == 7.0, "a run of one's own counts more"


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ([Estimate(2), Estimate(2)], "a few seconds"),
        ([Estimate(40), Estimate(20, is_bound=True)], "up to about 1 min"),
        ([Estimate(120, first=20), Estimate(60)], "1 min to 3 min"),
    ],
)
def test_runs_one_after_another_take_their_sum(parts: list[Estimate], words: str) -> None:
    assert together(parts).in_words == words
