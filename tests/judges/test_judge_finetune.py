"""`finetune` against plain loops: scikit-learn over transformers' own hidden states, and AdamW.

A plain head over a frozen model is a linear layer over a mix of standardised layers. With the mix
at its start, the plain mean, that is scikit-learn's `LogisticRegression` or `Ridge` on the mean of
standardised layers, whose features are computed here from `output_hidden_states` and offsets.
"""

from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import pearsonr, spearmanr
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, f1_score, matthews_corrcoef
from spacy.tokens import Doc

import workbench as wb
from tests.judges.odd import odd_corpus, odd_model, odd_twin, run_here
from workbench.models.huggingface import HuggingFace

pytestmark = pytest.mark.slow  # by day tests/analyses/transfer learns planted tasks

STRONG = 1000.0  # a ridge under which the mix stays the plain mean


def states(model: HuggingFace, doc: Doc) -> np.ndarray:
    """Every layer's mean over each word's pieces.  # [layers, words, width]"""
    texts, starts = [doc.text], [0]
    if "segments" in doc.spans and model.tokenizer.sep_token:
        first, second = doc.spans["segments"]
        texts, starts = [first.text, second.text], [first.start_char, second.start_char]
    told = model.tokenizer(*texts, return_offsets_mapping=True, return_tensors="pt")
    offsets = told.pop("offset_mapping")[0].tolist()
    side = [0 if own is None else own for own in told.sequence_ids(0)]
    places = [(a + starts[s], b + starts[s]) for (a, b), s in zip(offsets, side, strict=True)]
    with torch.no_grad():
        found = model.net(**told, output_hidden_states=True).hidden_states
    layers = torch.stack(found)[:, 0].double().numpy()  # [layers, pieces, width]
    words = []
    for word in doc:
        start, end = word.idx, word.idx + len(word)
        own = [n for n, (a, b) in enumerate(places) if a < b and a < end and b > start]
        words.append(layers[:, own].mean(1))
    return np.stack(words, 1)


def standardised(parts: list[list[np.ndarray]]) -> list[list[np.ndarray]]:
    """The plain mean of layers, each standardised over train's words.  # [words, width] each"""
    every = np.concatenate(parts[0], 1)  # [layers, all words, width]
    mean, spread = every.mean(1, keepdims=True), every.std(1, keepdims=True)
    spread = np.where(spread > 1e-6 * spread.max(-1, keepdims=True), spread, 1)
    return [[((text - mean) / spread).mean(0) for text in part] for part in parts]


def scaled(parts: list[np.ndarray]) -> list[np.ndarray]:
    mean, spread = parts[0].mean(0), parts[0].std(0)
    return [(part - mean) / np.where(spread > 0, spread, 1) for part in parts]


def logistic(ridge: float) -> LogisticRegression:
    return LogisticRegression(C=1 / ridge, max_iter=2000, tol=1e-6)


def odd_tags(seed: int, sizes: dict[str, int], twin: bool = False) -> tuple[float, float, float]:
    """Accuracy here, there, and the share of words on which both predictions agree."""
    corpus = odd_corpus(sizes, seed, longest=30)
    model = odd_model(corpus, seed)
    model = odd_twin(model, seed) if twin else model
    result = run_here(
        "finetune", model, corpus, method="frozen", task="pos", seeds=(0,),
        ridge_strengths=(STRONG,),
        max_train=None, max_dev=None,
    )  # fmt: skip
    docs = [list(corpus.docs(name)) for name in ("train", "dev", "test")]
    features = standardised([[states(model, doc) for doc in part] for part in docs])
    words = scaled([np.concatenate(part) for part in features])
    gold = [[word.pos_ for doc in part for word in doc] for part in docs]
    guess = logistic(STRONG).fit(words[0], gold[0]).predict(words[2])
    own = " ".join(result.tables["predictions"]["guess"]).split()
    scores = result.tables["scores"].query("split == 'test' and metric == 'accuracy'")
    assert scores["converged"].all()
    assert scores["value"].item() == pytest.approx(accuracy_score(gold[2], own), abs=1e-12)
    return accuracy_score(gold[2], guess), scores["value"].item(), float(np.mean(guess == own))


def test_tags_on_an_odd_model_are_those_of_logistic_regression() -> None:
    """States with an outlier feature of 60 and an offset, in sentences of 1 to 30 words."""
    plain, own, alike = odd_tags(0, {"train": 50, "dev": 10, "test": 20})
    assert own >= plain - 0.01 and alike > 0.95


@pytest.mark.parametrize("twin", [False, True])
def test_tags_of_more_sentences_are_too(twin: bool) -> None:
    for seed in range(3):
        plain, own, alike = odd_tags(seed, {"train": 120, "dev": 40, "test": 60}, twin)
        assert own >= plain - 0.01 and alike > 0.9, "the mix has moved a little"


def whole(words: np.ndarray, doc: Doc) -> np.ndarray:
    """Mean and maximum of a text; of a pair both texts', their difference and product."""

    def pooled(part: np.ndarray) -> np.ndarray:
        return np.concatenate([part.mean(0), part.max(0)])

    if "segments" not in doc.spans:
        return pooled(words)
    first, second = (pooled(words[span.start : span.end]) for span in doc.spans["segments"])
    return np.concatenate([first, second, np.abs(first - second), first * second])


@pytest.mark.parametrize("name", ["bert", "gpt"])
@pytest.mark.parametrize("task", ["sentiment", "entailment", "paraphrase"])
def test_texts_on_the_built_in_models_are_within_two_points(name: str, task: str) -> None:
    """Both choose their strength on dev; 600 texts are scored, whose standard error is 2 points."""
    model, corpus = wb.load(f"mini:{name}"), wb.read(f"primer/{task}")
    assert isinstance(model, HuggingFace)
    how: dict[str, Any] = {"max_train": None, "max_dev": None, "max_test": None, "seeds": (0,)}
    docs = [list(corpus.docs(split, size)) for split, size in
            (("train", 300), ("dev", 200), ("test", 600))]  # fmt: skip
    parts = wb_corpus(corpus.name, docs)
    result = run_here("finetune", model, parts, method="frozen", **how)
    words = standardised([[states(model, doc) for doc in part] for part in docs])
    texts = scaled([
        np.stack([whole(own, doc) for own, doc in zip(part, some, strict=True)])
        for part, some in zip(words, docs, strict=True)
    ])  # fmt: skip
    (label,) = docs[0][0]._.labels
    gold = [[str(doc._.labels[label]) for doc in part] for part in docs]
    fits = [logistic(ridge).fit(texts[0], gold[0]) for ridge in (1e4, 1e3, 1e2, 1e1, 1e0)]
    best = max(fits, key=lambda fit: fit.score(texts[1], gold[1]))
    plain = best.score(texts[2], gold[2])
    own = result.tables["scores"].query("split == 'test' and metric == 'accuracy'")["value"].item()
    print(f"{name} {task}: scikit-learn {plain:.3f}, finetune {own:.3f}")
    assert own >= plain - 0.02


def wb_corpus(name: str, docs: list[list[Doc]]) -> Any:
    from workbench import Corpus

    parts = dict(zip(("train", "dev", "test"), docs, strict=True))
    return Corpus(name, {split: (lambda own=own: iter(own)) for split, own in parts.items()})


@pytest.mark.parametrize("task", ["entailment", "relatedness"])
def test_metrics_are_those_of_scikit_learn_and_scipy(task: str) -> None:
    result = run_here(
        "finetune", wb.load("mini:bert"), wb.read(f"primer/{task}:size=400"), method="frozen",
        seeds=(0,), max_train=40, max_dev=20, max_test=40, ridge_strengths=(100.0,),
    )  # fmt: skip
    said = result.tables["predictions"]
    gold, guess = said["gold"], said["guess"]
    scores = result.tables["scores"].query("split == 'test'").set_index("metric")["value"]
    if task == "relatedness":  # predictions are written with three digits
        one, two = gold.astype(float), guess.astype(float)
        wanted = {"pearson": pearsonr(one, two)[0], "spearman": spearmanr(one, two)[0],
                  "mse": float(np.mean((one - two) ** 2))}  # fmt: skip
    else:
        wanted = {
            "accuracy": accuracy_score(gold, guess),
            "matthews": matthews_corrcoef(gold, guess),
            "f1": f1_score(gold, guess, average="macro"),
        }
    for metric, value in wanted.items():
        assert scores[metric] == pytest.approx(value, abs=0.02 if task == "relatedness" else 1e-9)


def test_fine_tuning_is_within_seed_noise_of_a_plain_loop() -> None:
    """AdamW over all weights, a linear layer on the mean of the last layer's words."""
    model, corpus = wb.load("mini:bert"), wb.read("primer/sentiment")
    assert isinstance(model, HuggingFace)
    docs = [list(corpus.docs(split, size)) for split, size in
            (("train", 300), ("dev", 100), ("test", 400))]  # fmt: skip
    result = run_here(
        "finetune", model, wb_corpus("sentiment", docs), method="fine-tuned", seeds=(0, 1, 2),
        max_train=None, max_dev=None, learning_rates=(1.5e-3,),
    )  # fmt: skip
    own = result.tables["scores"].query("split == 'test' and metric == 'accuracy'")["value"]
    plain = [plainly_tuned(model, docs, seed) for seed in range(3)]
    print("fine-tuned", own.tolist(), "plain loop", plain)
    assert abs(own.mean() - np.mean(plain)) < 0.05


def plainly_tuned(model: HuggingFace, docs: list[list[Doc]], seed: int) -> float:
    from copy import deepcopy

    torch.manual_seed(seed)
    net: Any = deepcopy(model.net).train()
    (label,) = docs[0][0]._.labels
    names = sorted({str(doc._.labels[label]) for doc in docs[0]})
    head = torch.nn.Linear(model.width, len(names))
    weights = [*net.parameters(), *head.parameters()]
    for each in weights:
        each.requires_grad_(True)
    optimiser = torch.optim.AdamW(weights, lr=1.5e-3, weight_decay=0.0)
    steps = 5 * -(-len(docs[0]) // 16)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimiser, lambda n: min((n + 1) / (0.1 * steps), (steps - n) / (0.9 * steps), 1.0)
    )

    def logits(some: list[Doc]) -> torch.Tensor:
        told = model.tokenizer([doc.text for doc in some], padding=True, return_tensors="pt")
        last = net(**told, output_hidden_states=True).hidden_states[-1]
        mask = told["attention_mask"][..., None]
        return head((last * mask).sum(1) / mask.sum(1))

    def gold(some: list[Doc]) -> torch.Tensor:
        return torch.tensor([names.index(str(doc._.labels[label])) for doc in some])

    for _ in range(5):
        order = torch.randperm(len(docs[0])).tolist()
        for start in range(0, len(order), 16):
            some = [docs[0][place] for place in order[start : start + 16]]
            loss = torch.nn.functional.cross_entropy(logits(some), gold(some))
            optimiser.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(weights, 1.0)
            optimiser.step()
            schedule.step()
    net.eval()
    with torch.no_grad():
        return float((logits(docs[2]).argmax(-1) == gold(docs[2])).float().mean())
