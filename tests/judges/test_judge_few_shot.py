"""A judge of `few-shot`: bare transformers forwards of each prompt with each label, three families.

Prompts are written here by hand, and the words of a label found by their characters.
"""

from typing import Any

import numpy as np
import pytest
import torch

import workbench as wb
from tests.judges.odd import odd_corpus, odd_model, run_here
from tests.models import headed
from workbench import Corpus
from workbench.models.scoring.prompts import Demonstration, PromptDesign, label_probabilities

SHOWN = [("A cab fed a bee.", "b"), ("Dad.", "a")]


def prompt(shown: list[tuple[str, str]], text: str, words: dict[str, str]) -> tuple[str, str]:
    """Before and after the label."""
    blocks = [f"{own} It is {words[label]} now." for own, label in shown]
    return " ".join([*blocks, f"{text} It is ".lstrip()]), " now."


@torch.no_grad()
def nats_of(model: Any, before: str, label: str, after: str) -> tuple[float, int]:
    """-log p of the label's pieces, and how many there are."""
    net, tokenizer = model.net, model.tokenizer
    text = before + label + after
    found = tokenizer(text, return_offsets_mapping=True)
    ids, end = torch.tensor(found["input_ids"]), len(before) + len(label)
    inside = [
        n for n, (a, b) in enumerate(found["offset_mapping"])
        if a < b and b > len(before) and a < end
    ]  # fmt: skip
    total = 0.0
    if net.config.is_encoder_decoder:
        one, two = (tokenizer.convert_tokens_to_ids(f"<extra_id_{n}>") for n in (0, 1))
        read = torch.cat([ids[: inside[0]], torch.tensor([one]), ids[inside[-1] + 1 :]])
        write = torch.tensor([[one, *ids[inside].tolist(), two, tokenizer.eos_token_id]])
        scores = net(read[None], labels=write).logits[0].double().log_softmax(-1)
        total = sum(-float(scores[n + 1, ids[place]]) for n, place in enumerate(inside))
    elif model.objective == "causal":
        scores = net(ids[None]).logits[0].double().log_softmax(-1)
        total = sum(-float(scores[place - 1, ids[place]]) for place in inside)
    else:
        for n, place in enumerate(inside):
            hidden = ids.clone()
            hidden[inside[n:]] = tokenizer.mask_token_id
            scores = net(hidden[None]).logits[0, place].double().log_softmax(-1)
            total -= float(scores[ids[place]])
    return total, len(inside)


def softmax(scores: Any) -> Any:
    return np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)


def judge(model: Any, words: dict[str, str], texts: list[str]) -> dict[str, Any]:
    """Probabilities by every calibration, one text and one label at a time; and compared."""

    def nats(shown: list[tuple[str, str]], text: str) -> Any:
        before, after = prompt(shown, text, words)
        return np.array([nats_of(model, before, word, after) for word in words.values()])

    every = np.array([nats(SHOWN, text) for text in texts])  # [texts, labels, 2]
    free = np.array([nats(SHOWN, text)[:, 0] for text in ("N/A", "[MASK]", "")])
    domain = nats([], "")[:, 0]
    values, pieces = every[..., 0], every[..., 1]
    prior = softmax(-free).mean(0)
    expected = {
        "none": softmax(-values),
        "length": softmax(-values / pieces),
        "contextual": softmax(-values) / prior,
        "domain": softmax(domain - values),
    }
    expected["contextual"] /= expected["contextual"].sum(-1, keepdims=True)
    design = PromptDesign("{text} It is {label} now.", words)
    shown = [Demonstration(*each) for each in SHOWN]
    found = label_probabilities(model, design, shown, texts)
    np.testing.assert_allclose(found.nats, values, rtol=1e-5, atol=1e-4)
    assert found.pieces.tolist() == pieces[0].tolist()
    for name, shares in expected.items():
        np.testing.assert_allclose(found.probabilities(name), shares, atol=1e-5)  # type: ignore[arg-type]
    return expected


def test_an_odd_encoder_whose_labels_have_several_pieces() -> None:
    texts = [doc.text for doc in odd_corpus({"test": 3}, longest=12).docs("test")]
    judge(odd_model(odd_corpus()), {"a": "cab", "b": "egg fad"}, texts)


def test_a_decoder_of_another_shape() -> None:
    model = headed.made("gpt2", "GPT2LMHeadModel")
    judge(model, {"a": "dog", "b": "old boats", "c": "letter"}, ["Ann sees a dog.", "Ben sang."])


@pytest.mark.slow  # by day an odd encoder and a decoder of another shape
@pytest.mark.parametrize("name", ["gpt", "bert", "t5"])
def test_built_in_models(name: str) -> None:
    model = wb.load(f"mini:{name}", device="cpu")
    judge(model, {"a": "old", "b": "happy"}, ["Ben runs.", "She was in the house."])


def test_accuracies_are_those_of_plain_prompts() -> None:
    """Without demonstrations, where nothing is drawn at random."""
    model, corpus = wb.load("mini:gpt", device="cpu"), wb.read("primer/sentiment:size=60")
    words = {"negative": "sad", "positive": "happy"}
    result = run_here(
        "few-shot", model, corpus, max_sentences=5, shots=(1,), seeds=(0,),
        templates=("{text} It is {label} now.",), label_words=("negative=sad; positive=happy",),
        attributed=0,
    )  # fmt: skip
    items = result.tables["items"]
    nats = np.array(
        [[nats_of(model, *with_word)[0] for with_word in labelled(text, words)]
         for text in items["said"]]
    )  # fmt: skip
    right = np.array(list(words))[nats.argmin(1)] == items["label"].to_numpy()
    scores = result.tables["scores"].set_index(["shots", "prompt", "calibration"])["accuracy"]
    assert scores[0, "none", "none"] == pytest.approx(right.mean())
    assert len(items) == 5 and isinstance(corpus, Corpus)


def labelled(text: str, words: dict[str, str]) -> list[tuple[str, str, str]]:
    before, after = prompt([], text, words)
    return [(before, word, after) for word in words.values()]
