"""A judge of `steering` and `erasure`: hooks of torch, one text and layer at a time.

Which texts are in which half, and the random directions, are taken from what is judged; states,
differences, effects, means, shares and p-values are computed again.
"""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import workbench as wb
from tests.judges.odd import run_here
from tests.night import mostly
from workbench.analyses.steering import erasure_corpus, steering_corpus
from workbench.analyses.steering.moved import random_directions

PAIRS = "primer/counterfactuals:size=3000"
SMALL = {"max_words": 1, "max_texts": 16, "random_directions": 20}


def n_layers(model: Any) -> int:
    return 2 if model.family == "elmo" else len(blocks(model.net))


def blocks(net: Any) -> Any:
    return net.bert.encoder.layer if hasattr(net, "bert") else net.transformer.h


class Hooked:
    """One pass of the plain net; the state of a layer at a piece is stored or replaced.

    Of several new states, each is in a row of its own.  # [rows, width]
    """

    def __init__(self, model: Any, prediction: Any) -> None:
        self.net, self.ids = model.net, prediction.text.ids
        self.at = prediction.position

    @torch.no_grad()
    def run(self, layer: int, new: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The state, and the log-probabilities; layer 0 is what the first block reads."""
        seen: list[Tensor] = []
        ids = self.ids if new is None or new.ndim == 1 else self.ids.expand(len(new), -1)

        def change(states: Tensor) -> Tensor:
            seen.append(states[0, self.at].clone())
            if new is None:
                return states
            states = states.clone()
            states[:, self.at] = new
            return states

        def after(_: Any, __: Any, out: Any) -> Any:
            return (change(out[0]), *out[1:]) if isinstance(out, tuple) else change(out)

        def before(_: Any, args: Any, kwargs: Any) -> Any:
            if args:
                return (change(args[0]), *args[1:]), kwargs
            return args, {**kwargs, "hidden_states": change(kwargs["hidden_states"])}

        own = blocks(self.net)
        if layer:
            hook = own[layer - 1].register_forward_hook(after)
        else:
            hook = own[0].register_forward_pre_hook(before, with_kwargs=True)
        try:
            logits = self.net(ids).logits[:, self.at]
        finally:
            hook.remove()
        found = logits.double().log_softmax(-1)
        return seen[0], found[0] if len(found) == 1 else found


class ByHand:
    """One text through ELMo's LSTMs from the layer above a state, each direction by itself.

    The state is the forward half of the word before the hidden one, and the backward half of the
    word after it.
    """

    @torch.no_grad()
    def __init__(self, model: Any, prediction: Any) -> None:
        self.elmo, self.softmax = model.elmo, model.bilm
        layers, _ = self.elmo.with_boundaries(model.sentences(prediction.text))
        self.layers = [each[0] for each in layers]  # [words + 2, 2 * width], with the ends
        self.word = prediction.position + 1  # behind the start

    @torch.no_grad()
    def run(self, layer: int, new: Tensor | None = None) -> tuple[Tensor, Tensor]:
        own = self.layers[layer]
        half = own.shape[1] // 2
        state = torch.cat([own[self.word - 1, :half], own[self.word + 1, half:]])
        given = state[None] if new is None else new.reshape(-1, 2 * half)
        own = own[:, None].repeat(1, len(given), 1)  # [words + 2, rows, 2 * width]
        own[self.word - 1, :, :half], own[self.word + 1, :, half:] = given.split(half, 1)
        ahead, back = own[: self.word, :, :half], own[self.word + 1 :, :, half:].flip(0)
        logits = 0
        for direction, read in enumerate((ahead, back)):  # neither reads the hidden word
            sizes = [len(given)] * len(read)
            rows = read.reshape(-1, half)
            for above in range(layer, 2):
                rows = self.elmo.read(rows, sizes, direction, above)[0]
            made = rows[-len(given) :] @ self.softmax.weight.T + self.softmax.bias
            logits = logits + made.double().log_softmax(-1)
        found = logits.log_softmax(-1)  # type: ignore[attr-defined]
        return state, found[0] if len(given) == 1 else found


def noting(patch: pytest.MonkeyPatch, module: Any, name: str) -> list[Any]:
    """What a function of this module will have returned."""
    function, found = getattr(module, name), list[Any]()
    patch.setattr(module, name, lambda *given: (found.append(function(*given)), found[-1])[1])
    return found


def by_hand(model: Any, prediction: Any) -> Any:
    return (ByHand if model.family == "elmo" else Hooked)(model, prediction)


MODELS = ("mini:bert", "mini:gpt", "mini:elmo")


# by day `test_judge_states.py` reads the changed states of ELMo by hand
@pytest.mark.parametrize("name", mostly(MODELS, "mini:bert"))
def test_the_difference_moves_as_much_as_hooks_say(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, corpus = wb.load(name, device="cpu"), wb.read(PAIRS)
    pairs = noting(monkeypatch, steering_corpus, "word_pairs")
    result = run_here("steering", model, corpus, **SMALL)
    table, stored = result.tables["directions"], torch.from_numpy(result.arrays["directions"])
    (((group, *_), n_untested),) = pairs
    untested = f"{n_untested} further pairs of words were not tested"
    assert n_untested > 1 and any(untested in each.text for each in result.caveats)
    fitted = group.fitted(0)
    texts = [by_hand(model, side.prediction) for side in group.sides]
    unit = random_directions(20, model.width, 0)
    last = next(side.other for side in group.sides if side.choice == group.first)
    gaps: dict[bool, list[float]] = {True: [], False: []}
    for layer in (1, n_layers(model)):
        sums: dict[bool, list[Tensor]] = {True: [], False: []}
        for side, text, in_half in zip(group.sides, texts, fitted, strict=True):
            if in_half:
                sums[side.choice == group.first].append(text.run(layer)[0])
        vector = torch.stack(sums[True]).mean(0) - torch.stack(sums[False]).mean(0)
        effects, random = [], []
        for side, text, in_half in zip(group.sides, texts, fitted, strict=True):
            if in_half:
                continue
            state, plain = text.run(layer)
            sign = -1 if side.choice == group.first else 1

            def moved(by: Tensor, text: Any = text, state: Tensor = state, side: Any = side,
                      plain: Tensor = plain) -> Any:  # fmt: skip
                change = text.run(layer, state + by)[1] - plain  # noqa: B023
                return (change[..., side.other] - change[..., side.choice]).numpy()

            effects.append(float(moved(sign * vector)))
            random.append(moved(unit * vector.norm()))
            if layer == 1:
                gaps[side.choice == group.first].append(float(plain[group.first] - plain[last]))
        torch.testing.assert_close(stored[0, layer], vector, atol=1e-4, rtol=1e-3)
        row = table[table["layer"] == layer].iloc[0]
        means = np.array(random).mean(0)
        assert row["effect"] == pytest.approx(np.mean(effects), abs=1e-3)
        assert row["random"] == pytest.approx(means.mean(), abs=1e-3)
        assert row["random_high"] == pytest.approx(np.percentile(means, 95), abs=1e-3)
        assert row["excess"] == pytest.approx(np.mean(effects) - means.mean(), abs=1e-3)
        assert row["norm"] == pytest.approx(float(vector.norm()), rel=1e-3)
        assert row["gap"] == pytest.approx(np.mean(gaps[True]) - np.mean(gaps[False]), abs=1e-3)
        assert row["n"] == (~fitted).sum()
        above = (means >= np.mean(effects)).sum()  # of this row alone: the table corrects for all
        assert row["p"] >= (1 + above) / 21 - 1e-9


@pytest.mark.parametrize("name", mostly(MODELS, "mini:gpt"))
def test_erasing_costs_as_much_as_hooks_say(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, corpus = wb.load(name, device="cpu"), wb.read("primer:size=1000")
    settings: dict[str, Any] = {"max_words": 60, "max_predictions": 10, "random_directions": 20}
    samples = noting(monkeypatch, erasure_corpus, "sampled")
    table = run_here("erasure", model, corpus, **settings).tables["layers"]
    (sample,) = samples
    layer = n_layers(model) - 1
    fit = torch.stack([by_hand(model, w.prediction).run(layer)[0] for w in sample.fit]).double()
    labels = [word.label for word in sample.fit]
    # the closed form, with numpy
    x = (fit - fit.mean(0)).numpy()
    z = np.array([[float(label == name) for name in sample.labels] for label in labels])
    covariance = x.T @ x / (len(x) - 1)
    covariance = 0.99 * covariance + 0.01 * np.diag(covariance).mean() * np.eye(len(covariance))
    values, vectors = np.linalg.eigh(covariance)
    w, back = (vectors * values**power @ vectors.T for power in (-0.5, 0.5))
    s = w @ (x.T @ (z - z.mean(0)) / (len(x) - 1))
    removal = back @ s @ np.linalg.pinv(s, 1e-4) @ w
    costs, injected = [], []
    for word in sample.test:
        assert word.prediction.gold is not None
        text = by_hand(model, word.prediction)
        state, plain = text.run(layer)
        removed = torch.from_numpy(removal @ (state.double() - fit.mean(0)).numpy()).float()
        own = x[[label == word.label for label in labels]]
        mean = torch.from_numpy((removal @ own.T).mean(1)).float()
        gold = word.prediction.gold
        for by, into in ((-removed, costs), (-removed + mean, injected)):
            into.append(float(plain[gold] - text.run(layer, state + by)[1][gold]))
    row = table[table["layer"] == layer].iloc[0]
    assert row["effect"] == pytest.approx(np.mean(costs), abs=3e-3)
    assert row["injected"] == pytest.approx(np.mean(injected), abs=3e-3)
    assert row["excess"] == pytest.approx(row["effect"] - row["random"], abs=1e-9)
    assert row["rank"] == len(sample.labels) - 1
    assert {word.document for word in sample.fit}.isdisjoint(w.document for w in sample.test)
