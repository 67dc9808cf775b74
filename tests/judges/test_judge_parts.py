"""A judge of attribution by part: gradients of bare transformers nets, summed in plain loops."""

from typing import Any

import pytest
import torch

from tests.models import headed
from tests.night import mostly
from workbench.analyses.attribution.methods import SMALLEST, TOLERANCE
from workbench.analyses.attribution.parts import Reading, by_part
from workbench.engine.batch import of_texts

TEXT, WRITTEN = "Ann saw the old dog near the boat.", "Ben has the letter."
NAMES = ("one", "two", "three")


def log_probability(net: Any, ids: Any, vectors: list[Any], wanted: list[int], kind: str) -> Any:
    """Of the wanted pieces, for these input vectors of the text (and of what is written)."""
    if kind == "t5":
        out = net(inputs_embeds=vectors[0][None], decoder_inputs_embeds=vectors[1][None])
    else:
        out = net(inputs_embeds=vectors[0][None])
    scores = out.logits[0].log_softmax(-1)
    shift = 1 if kind == "gpt2" else 0
    return sum(scores[place - shift, ids[place]] for place in wanted)


def judged(model: Any, read: Reading, kind: str) -> dict[str, float]:
    """Gradient x input by part, one piece and one number at a time."""
    net, table = model.net, model.net.get_input_embeddings()
    parts: dict[str, float] = {}
    steps = [list(read.wanted)] if kind != "bert" else [[place] for place in read.wanted]
    for wanted in steps:
        ids = read.text.ids[0].clone()
        gold = (ids if read.target is None else read.target.ids[0]).clone()
        if kind == "bert":  # the later pieces of the word are hidden, too
            ids[[p for p in read.wanted if p >= wanted[0]]] = model.tokenizer.mask_token_id
        rows = [(ids, list(read.parts), read.text.special[0].tolist())]
        if read.target is not None:
            start = torch.tensor([net.config.decoder_start_token_id])
            shifted = torch.cat([start, gold[:-1]])
            rows.append((shifted, ["", *read.target_parts], [True, *[False] * len(gold)]))
        vectors = [table(own).detach().requires_grad_() for own, *_ in rows]
        value = log_probability(net, gold, vectors, wanted, kind)
        gradients = torch.autograd.grad(value, vectors)
        for vector, gradient, (own, names, special) in zip(vectors, gradients, rows, strict=True):
            for place in range(len(own)):
                if special[place] or own[place] == model.tokenizer.mask_token_id:
                    continue
                numbers = zip(vector[place].tolist(), gradient[place].tolist(), strict=True)
                score = sum(a * b for a, b in numbers)
                parts[names[place]] = parts.get(names[place], 0.0) + score
    return parts


def reading(model: Any, kind: str) -> Reading:
    text = model.encode(of_texts([TEXT]))
    n_pieces = text.ids.shape[1]
    parts = [NAMES[n % 3] for n in range(n_pieces)]
    if kind == "t5":
        target = model.encode(of_texts([WRITTEN]))
        target = target.narrowed(target.ids.shape[1] - 1)  # without its end
        own = ["written"] * target.ids.shape[1]
        return Reading(text, parts, [2, 3], target, own)
    word = int(text.words[0, 3])
    wanted = [n for n in range(1, n_pieces) if text.words[0, n] in (word, word + 1)]
    if kind == "bert":
        wanted = [n for n in wanted if text.words[0, n] == word]
    return Reading(text, parts, wanted)


MODELS = [
    ("gpt2", "GPT2LMHeadModel"), ("t5", "T5ForConditionalGeneration"), ("bert", "BertForMaskedLM"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "architecture"), MODELS)
def test_the_sums_of_each_part(kind: str, architecture: str) -> None:
    model = headed.made(kind, architecture)
    read = reading(model, kind)
    found = by_part(model, read, "gradient-x-input")
    expected = judged(model, read, kind)
    assert dict(found.nats) == pytest.approx(expected, abs=1e-5)
    assert found.share(*expected) == pytest.approx(1) == found.length(*expected)


@pytest.mark.parametrize(("kind", "architecture"), mostly(MODELS, MODELS[0], MODELS[2]))
def test_parts_of_a_path_add_up_to_its_change(kind: str, architecture: str) -> None:
    model = headed.made(kind, architecture)
    read = reading(model, kind)
    complete = by_part(model, read, "integrated-gradients", max_steps=4096)
    bound = len(read.wanted) * max(TOLERANCE * abs(complete.change), SMALLEST)
    assert sum(complete.nats.values()) == pytest.approx(complete.change, abs=bound)
    whole = by_part(model, read, "gradient-x-input").value
    assert complete.value == pytest.approx(whole) and complete.change
