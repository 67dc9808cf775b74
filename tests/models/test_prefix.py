"""A pass that begins in the middle is the whole pass, to the bit."""

import pytest
import torch

from tests.models import zoo
from tests.models.gated import sentences, shared
from tests.night import of_zoo
from workbench import Gate
from workbench.models.interventions.prefix_cache import recorded, replay_points

ROWS = torch.tensor([0, 1, 2, 0, 1, 2])


@pytest.mark.parametrize("name", of_zoo(zoo.NAMES, "albert"))
def test_from_every_site_on_the_answer_is_that_of_the_whole_pass(name: str) -> None:
    """Two heads of a site, one after the other in the rows of one batch."""
    model = shared(name)
    text = model.encode(sentences(3))
    last = model.stacks[-1].name
    with torch.no_grad():
        with recorded(replay_points(model)) as prefix:
            base = model.forward(text, hidden=False).final[last]
        for site in model.sites:
            values = torch.ones(6, len(model.sites), site.heads)
            values[:3, site.index, 0] = values[3:, site.index, 1] = 0
            taps = [Gate(values)]
            plain = model.forward(text.take(ROWS), taps=taps, hidden=False).final[last]
            with prefix.from_site(site.index, ROWS):
                found = model.forward(text.take(ROWS), taps=taps, hidden=False).final[last]
            assert torch.equal(plain, found), site.name
            assert not torch.equal(plain[:3], base), f"{site.name}: the gate changed nothing"


@pytest.mark.parametrize(
    ("name", "saved"),
    [("bert", [0, 1]), ("albert", [0, 1, 2]), ("bart", [0, 1, 2, 2, 3, 3, 4, 4])],
)
def test_blocks_below_a_site_are_not_run_again(name: str, saved: list[int]) -> None:
    """Of an encoder-decoder all of the encoder, for every site of the decoder."""
    model = shared(name)
    text = model.encode(sentences(2))
    with torch.no_grad(), recorded(replay_points(model)) as prefix:
        model.forward(text, hidden=False)
    assert [prefix.saved(site.index) for site in model.sites] == saved
    maps: list[str] = []
    hooks = [
        module.register_forward_hook(lambda *_: maps.append("map"))
        for module in model.net.modules()
        if isinstance(module, torch.nn.Linear)
    ]
    with torch.no_grad(), prefix.from_site(model.sites[-1].index, torch.tensor([0, 1])):
        model.forward(text, hidden=False)
    resumed = len(maps)
    maps.clear()
    with torch.no_grad():
        model.forward(text, hidden=False)
    for hook in hooks:
        hook.remove()
    assert resumed < 0.6 * len(maps)


def test_a_pass_that_breaks_off_leaves_the_model_as_it_was() -> None:
    model = shared("gpt2")
    text = model.encode(sentences(2))
    with torch.no_grad():
        before = model.forward(text, hidden=False).final["decoder"]
        with pytest.raises(RuntimeError), recorded(replay_points(model)):
            model.forward(text, hidden=False)
            raise RuntimeError
        assert torch.equal(model.forward(text, hidden=False).final["decoder"], before)
    assert all("forward" not in vars(each) for each in model.net.modules())
