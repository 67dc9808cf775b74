"""Pooling first, and projecting then, is the plain edge probe of Tenney et al. 2019."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from workbench.analyses.probes.probe_training import Reads, Shape, logits, pooled
from workbench.analyses.probes.representations import Bank, words_in

WIDTH, INNER, HIDDEN, LABELS = 12, 6, 9, 5
SPANS = [
    torch.tensor([[0, 1], [2, 5], [3, 4], [1, 9], [0, 10], [7, 9]]),
    torch.tensor([[4, 9], [6, 7], [0, 10], [2, 4], [5, 6], [0, 3]]),
]


class Plain(nn.Module):
    """As the paper says it: project every word, attend over the span, then the MLP."""

    def __init__(self, layers: int) -> None:
        super().__init__()
        self.project = nn.ModuleList(nn.Linear(WIDTH, INNER) for _ in SPANS)
        self.attend = nn.ParameterList(torch.randn(INNER) for _ in SPANS)
        self.first = nn.Linear(len(SPANS) * INNER, HIDDEN)
        self.norm = nn.LayerNorm(HIDDEN)
        self.out = nn.Linear(HIDDEN, LABELS)
        self.mix = nn.Parameter(torch.randn(layers))
        self.scale = nn.Parameter(torch.tensor(1.3))

    def forward(self, states: Tensor) -> Tensor:  # [layers, words, width]
        weights = self.mix.softmax(0)
        mixed = self.scale * sum(w * h for w, h in zip(weights, states, strict=True))
        rows = []
        for target in range(len(SPANS[0])):
            sides = []
            for side, spans in enumerate(SPANS):
                first, last = spans[target].tolist()
                words = self.project[side](mixed[first:last])  # [some, inner]
                attention = (words @ self.attend[side]).softmax(0)
                sides.append(attention @ words)
            rows.append(self.out(self.norm(torch.tanh(self.first(torch.cat(sides))))))
        return torch.stack(rows)


@pytest.fixture
def plain() -> Plain:
    torch.manual_seed(0)
    return Plain(3).double()


def test_the_probe_that_pools_first_equals_the_plain_one_and_its_gradients(
    plain: Plain, bank: Callable[..., Bank]
) -> None:
    torch.manual_seed(1)
    states = torch.randn(3, 10, WIDTH, dtype=torch.double)
    own_bank = _exact(bank(*states.float()), states)
    wanted = plain(states)
    weights = torch.randn_like(wanted)
    first = plain.first.weight.T.reshape(len(SPANS), INNER, HIDDEN)
    biases = torch.stack([side.bias for side in plain.project])
    own = {
        "mix": plain.mix[None],
        "scale": plain.scale[None],
        "project": torch.stack([side.weight.T for side in plain.project])[None],
        "attend": torch.stack(list(plain.attend))[None],
        "first": first[None],
        "first_bias": (plain.first.bias + torch.einsum("si,sih->h", biases, first))[None],
        "norm": plain.norm.weight[None],
        "norm_bias": plain.norm.bias[None],
        "out": plain.out.weight.T[None],
        "out_bias": plain.out.bias[None],
    }
    shape = Shape("edge", WIDTH, len(SPANS), LABELS, HIDDEN, 3)
    reads = Reads(torch.zeros(0, dtype=torch.long), torch.ones(1, 3, dtype=torch.bool))
    found = logits(shape, own, reads, own_bank, SPANS)[0]
    assert (found - wanted).abs().max() < 1e-6
    parameters = list(plain.parameters())
    gradients = [
        torch.autograd.grad((said * weights).sum(), parameters, retain_graph=True)
        for said in (wanted, found)
    ]
    for one, other in zip(*gradients, strict=True):
        assert (one - other).abs().max() < 1e-6
        assert one.abs().max() > 1e-4, "and there is a gradient to compare"


def _exact(made: Bank, states: Tensor) -> Bank:
    """The same states in double precision and at their own size."""

    class Exact(Bank):
        def rows(self, words: Tensor) -> Tensor:
            return states[:, words]

    one = torch.ones(len(states), WIDTH, dtype=torch.double)
    return Exact(made.sources, made.tables, 0 * one, one, one, made.device)


@pytest.mark.parametrize("kind", ["edge", "linear", "mlp"])
def test_probes_in_a_stack_are_each_alone(kind: str, bank: Callable[..., Bank]) -> None:
    from workbench.analyses.probes.probe_training import initial

    torch.manual_seed(2)
    own_bank = bank(torch.randn(10, WIDTH), 50 * torch.randn(10, WIDTH))
    shape = Shape(kind, WIDTH, 2, LABELS, HIDDEN, 2)  # type: ignore[arg-type]
    drawn = [initial(shape, seed) for seed in range(4)]
    own = {name: torch.stack([one[name] for one in drawn]) for name in drawn[0]}
    allowed = torch.tensor([[True, True]])
    together = logits(shape, own, Reads(torch.tensor([0, 1, 0]), allowed), own_bank, SPANS)
    for place, source in enumerate([0, 1, 0]):
        alone = {name: value[place : place + 1] for name, value in own.items()}
        reads = Reads(torch.tensor([source]), allowed[:0])
        said = logits(shape, alone, reads, own_bank, SPANS)
        assert torch.allclose(said[0], together[place], atol=1e-5)
    mixed = logits(
        shape,
        {name: value[3:] for name, value in own.items()},
        Reads(torch.zeros(0, dtype=torch.long), allowed),
        own_bank,
        SPANS,
    )
    assert torch.allclose(mixed[0], together[3], atol=1e-5)


def test_the_words_of_all_spans_one_span_after_another() -> None:
    words, of_span = words_in(torch.tensor([[4, 7], [0, 1], [5, 9]]))
    assert words.tolist() == [4, 5, 6, 0, 5, 6, 7, 8]
    assert of_span.tolist() == [0, 0, 0, 1, 2, 2, 2, 2]


def test_attention_over_words_of_very_different_scores_stays_finite(
    bank: Callable[..., Bank],
) -> None:
    """A span whose best word scores 1,000 less than another span's has its own softmax."""
    states = torch.zeros(4, WIDTH)
    states[:, 0] = torch.tensor([500.0, -500.0, -501.0, 500.0])
    states[:, 1] = torch.arange(4.0)
    exact = _exact(bank(states), states[None].double())
    shape = Shape("edge", WIDTH, 1, LABELS, HIDDEN, 1)
    project = torch.eye(WIDTH, shape.projection, dtype=torch.double)[None, None]
    attend = torch.zeros(1, 1, shape.projection, dtype=torch.double)
    attend[..., 0] = 1
    own = {"project": project, "attend": attend}
    reads = Reads(torch.tensor([0]), torch.zeros(0, 1, dtype=torch.bool))
    spans = [torch.tensor([[[0, 1], [1, 3], [2, 4]]])]
    found = pooled(shape, own, reads, exact, spans)[0, :, 1]
    share = 1 / (1 + math.exp(-1))
    assert found.tolist() == pytest.approx([0, share + 2 * (1 - share), 3])


def test_a_mix_counts_layers_at_their_own_size(bank: Callable[..., Bank]) -> None:
    """Layers are read standardised, and yet γ Σ softmax(s) h is of the states as they are: up to
    an offset, and one number a feature that is the same for all layers."""
    from workbench.analyses.probes.probe_training import mix_weights

    torch.manual_seed(4)
    sizes = torch.logspace(-2, 2, WIDTH)  # features differ ten thousandfold
    low = torch.randn(500, WIDTH) * sizes + 50 * sizes
    high = 100 * torch.randn(500, WIDTH) * sizes - 9 * sizes
    made = bank(low, high)
    own = {"mix": torch.tensor([[0.0, math.log(3)]]), "scale": torch.ones(1)}
    allowed = torch.ones(1, 2, dtype=torch.bool)
    assert torch.allclose(mix_weights(own, allowed), torch.tensor([[0.25, 0.75]]))
    rows = torch.arange(500)
    spans = [torch.stack([rows, rows + 1], 1)[None]]
    reads = Reads(torch.zeros(0, dtype=torch.long), allowed)
    read = pooled(Shape("linear", WIDTH, 1, LABELS, 0, 2), own, reads, made, spans)[0]
    plain = 0.25 * low + 0.75 * high
    plain = plain - plain.mean(0)
    ratio = (read * plain).sum(0) / plain.square().sum(0)  # [width], what each is multiplied by
    assert torch.allclose(read, plain * ratio, atol=2e-3)
    assert torch.allclose(ratio * sizes, (ratio * sizes).mean().expand(WIDTH), rtol=0.15)
