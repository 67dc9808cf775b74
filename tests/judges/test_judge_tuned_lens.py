"""A judge of `tuned-lens`: bare transformers, distributions in float64, one position at a time.

From the maps of a run, the judge computes every number of its tables anew: final and lens
distributions from the states of transformers' own pass, divergences, agreement, accuracy, means,
and baselines. It uses causal models, where nothing is hidden at random. A small case is trained
again by L-BFGS on all texts at once: the experiment's maps must come close to its loss.
"""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from spacy.tokens import Doc
from torch import Tensor
from transformers import GPT2Config, GPT2LMHeadModel

import workbench as wb
from tests.judges.odd import OFFSET, odd_corpus, odd_model, odd_twin, run_here
from tests.judges.plain import text_of
from workbench import Corpus, Result
from workbench.models.huggingface import HuggingFace

SMALL: dict[str, Any] = {"max_train": 24, "max_dev": 8, "max_test": 8, "steps": 25, "batch_size": 8}


def primer() -> Corpus:
    read = wb.read("primer:size=240")
    docs = {split: list(read.docs(split, 24)) for split in ("train", "dev", "test")}
    return Corpus("few", {name: (lambda own=own: iter(own)) for name, own in docs.items()})


def odd_gpt(corpus: Corpus) -> HuggingFace:
    """A random GPT-2 of an odd shape; the states of its layers have an offset."""
    tokenizer = odd_model(corpus).tokenizer
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        net = GPT2LMHeadModel(
            GPT2Config(
                vocab_size=len(tokenizer), n_embd=60, n_layer=3, n_head=5, n_positions=256,
                initializer_range=0.15, bos_token_id=None, eos_token_id=None,
            )
        )  # fmt: skip
        with torch.no_grad():
            for block in net.transformer.h:
                bias = block.mlp.c_proj.bias
                bias += OFFSET / 4 * torch.randn_like(bias).sign()
    return HuggingFace(net.eval(), tokenizer, "odd-gpt")


def read(net: Any, tokenizer: Any, doc: Doc) -> Iterator[tuple[list[Tensor], int]]:
    """For each predicted piece: the state of every layer at the piece before it, and its id."""
    text = text_of(tokenizer, doc)
    states: list[Tensor] = []
    hooks = [
        block.register_forward_pre_hook(
            lambda _, args, kwargs: states.append((args or kwargs["hidden_states"])[0][0]),
            with_kwargs=True,
        )
        for block in net.transformer.h
    ]
    hooks.append(
        net.transformer.ln_f.register_forward_pre_hook(lambda _, args: states.append(args[0][0]))
    )
    # a tokenizer with segments gives them to GPT-2 too, which adds their embedding
    has_segments = "token_type_ids" in tokenizer.model_input_names
    segments = {"token_type_ids": torch.zeros_like(text.ids)[None]} if has_segments else {}
    with torch.no_grad():
        net(text.ids[None], **segments)
    for hook in hooks:
        hook.remove()
    for place in text.inside:
        if place > 0:
            yield [layer[place - 1] for layer in states], int(text.ids[place])


def end(net: Any, state: Tensor) -> Tensor:
    """log p by the model's final norm and head.  # [width] -> [vocabulary], float64"""
    scores: Tensor = net.lm_head(net.transformer.ln_f(state[None]))[0]
    return scores.double().log_softmax(-1)


def tied(scores: Tensor) -> bool:
    """Whether the two most likely pieces are too close to be ordered in float32."""
    return float(scores.topk(2).values.diff().abs()) < 1e-4


def kl(p: Tensor, q: Tensor) -> float:
    """Sum of p log (p / q), from log-probabilities."""
    return math.fsum((p.exp() * (p - q)).tolist())


@torch.no_grad()
def judge(model: HuggingFace, corpus: Corpus) -> float:
    """The largest difference of a loss or a bias, in nats; all else is compared here."""
    found = run_here("tuned-lens", model, corpus, **SMALL)
    net, tokenizer = model.net, model.tokenizer
    docs = list(corpus.docs("test", SMALL["max_test"]))
    weight, bias = (torch.tensor(found.arrays[f"decoder_{n}"]) for n in ("weight", "bias"))
    n_layers = len(weight)
    rows = [each for doc in docs for each in read(net, tokenizer, doc)]
    final = [end(net, states[-1]) for states, _ in rows]
    mean = torch.stack(final).exp().mean(0)
    layers = found.tables["layers"].set_index(["layer", "lens"])
    biases = found.tables["bias"].set_index(["layer", "lens"])
    counts = torch.ones(len(mean), dtype=torch.float64)
    for doc in corpus.docs("train", SMALL["max_train"]):
        text = text_of(tokenizer, doc)
        for place in text.inside:
            if place > 0:
                counts[text.ids[place]] += 1
    frequencies = (counts / counts.sum()).log()
    base = math.fsum(-float(frequencies[gold]) for _, gold in rows) / len(rows)
    apart = 0.0
    for layer in range(n_layers + 1):
        for lens in ("logit", "tuned"):
            said = []
            for states, _ in rows:
                state = states[layer]
                if lens == "tuned" and layer < n_layers:
                    state = state + weight[layer, 0] @ state + bias[layer, 0]
                said.append(end(net, state))
            row = layers.loc[(layer, lens)]
            assert row["n"] == len(rows)
            pairs = list(zip(final, said, strict=True))
            loss = math.fsum(kl(p, q) for p, q in pairs) / len(rows)
            apart = max(apart, abs(row["loss"] - loss))
            top = [(int(p.argmax()), int(q.argmax())) for p, q in pairs]
            golds = [gold for _, gold in rows]
            close = sum(tied(p) or tied(q) for p, q in pairs) / len(rows)
            agreement = sum(p == q for p, q in top) / len(rows)
            right = sum(q == gold for (_, q), gold in zip(top, golds, strict=True)) / len(rows)
            assert abs(row["agreement"] - agreement) <= close + 1e-9
            assert abs(row["accuracy"] - right) <= close + 1e-9
            nats = math.fsum(-float(q[gold]) for (_, q), gold in zip(pairs, golds, strict=True))
            apart = max(apart, abs(row["cross_entropy"] - nats / len(rows)))
            apart = max(apart, abs(row["gain"] - (base - nats / len(rows))))
            average = torch.stack(said).exp().mean(0)
            apart = max(
                apart, abs(biases.loc[(layer, lens), "bias"] - kl(mean.log(), average.log()))
            )
    gains = found.tables["gains"].set_index(["layer", "measure"])
    for layer in range(n_layers):
        gain = layers.loc[(layer, "logit"), "loss"] - layers.loc[(layer, "tuned"), "loss"]
        assert gains.loc[(layer, "loss"), "gain"] == pytest.approx(gain)
    assert (gains["better"] == (gains["lower"] > 0)).all()
    return apart


@pytest.mark.slow
def test_a_mini() -> None:
    assert judge(wb.load("mini:gpt", "cpu"), primer()) < 1e-3


def test_an_odd_model() -> None:
    corpus = odd_corpus({"train": 20, "dev": 6, "test": 6}, longest=15)
    assert judge(odd_gpt(corpus), corpus) < 1e-3


@pytest.mark.slow
def test_an_odd_model_with_its_twin() -> None:
    corpus = odd_corpus({"train": 30, "dev": 8, "test": 8}, longest=15)
    odd = odd_gpt(corpus)
    for model in (odd, odd_twin(odd, 1)):
        assert judge(model, corpus) < 1e-3


@pytest.mark.slow  # the known map of tests/analyses/lenses/test_tuned_lens.py is recovered in CI
def test_another_optimiser_finds_no_much_better_maps() -> None:
    """L-BFGS on plain A and b, on the same training texts, from zero."""
    corpus = odd_corpus({"train": 60, "dev": 30, "test": 30}, longest=12)
    model = odd_gpt(corpus)
    found = run_here(
        "tuned-lens", model, corpus, max_train=60, steps=300, batch_size=60, learning_rate=3e-3
    )
    net = model.net

    def of(split: str) -> tuple[Tensor, Tensor]:
        rows = [each for doc in corpus.docs(split) for each in read(net, model.tokenizer, doc)]
        return (torch.stack([states[1] for states, _ in rows]),
                torch.stack([end(net, states[-1]) for states, _ in rows]).detach())  # fmt: skip

    def loss(states: Tensor, final: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        mapped = states + states @ weight.T + bias
        said = net.lm_head(net.transformer.ln_f(mapped)).double().log_softmax(-1)
        return (final.exp() * (final - said)).sum(-1).mean()

    train, test = of("train"), of("test")
    weight, bias = torch.zeros(60, 60, requires_grad=True), torch.zeros(60, requires_grad=True)
    optimiser = torch.optim.LBFGS([weight, bias], lr=0.5, line_search_fn="strong_wolfe")
    best = float("inf")
    for _ in range(10):  # stopped where the held-out texts are best: a bound that favours L-BFGS

        def closure() -> Tensor:
            optimiser.zero_grad()
            value = loss(*train, weight, bias)
            value.backward()
            return value

        optimiser.step(closure)
        best = min(best, float(loss(*test, weight, bias).detach()))
    own = _of(found, 1, "tuned")
    none = _of(found, 1, "logit")
    print(f"logit {none:.3f}, tuned {own:.3f}, L-BFGS {best:.3f} nats")
    assert own < none and (none - own) > 0.8 * (none - best)


def _of(found: Result, layer: int, lens: str) -> float:
    rows = found.tables["layers"]
    row = rows[(rows["layer"] == layer) & (rows["lens"] == lens)]
    return float(np.asarray(row["loss"])[0])
