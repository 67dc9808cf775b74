"""A judge of `text-to-text`: bare generate of each prompt alone, and plain loops of the scores."""

import copy
import random
from typing import Any

import numpy as np
import pytest
import torch

import workbench as wb
from tests.judges.odd import run_here
from tests.models import headed
from tests.night import mostly
from workbench import Corpus
from workbench.corpora.encode import doc_of
from workbench.corpora.text_prediction import pair_of


def odd_pairs(number: int) -> Corpus:
    """Sources of 1 to 9 words; targets with some of them."""
    draw = random.Random(0)
    docs = []
    for _ in range(number):
        words = draw.choices(
            "Ben dog the of walks 🙂 São hill's 1912".split(), k=draw.randint(1, 9)
        )
        target = [*draw.sample(words, max(1, len(words) // 2)), "again"]
        docs.append(pair_of(doc_of(" ".join(words)), doc_of(" ".join(target))))
    return Corpus("odd", {"test": lambda: iter(docs)})


@torch.no_grad()
def written(model: Any, prompt: str, beams: int) -> tuple[str, list[int], list[int]]:
    """What bare transformers writes for a text, with the pieces read and written."""
    read = model.tokenizer(prompt, return_tensors="pt")
    ids = model.net.generate(
        input_ids=read["input_ids"], max_new_tokens=7, num_beams=beams, do_sample=False,
        pad_token_id=0, forced_eos_token_id=None,
    )[0].tolist()  # fmt: skip
    is_causal = not model.net.config.is_encoder_decoder
    ids = ids[read["input_ids"].shape[1] if is_causal else 1 :]
    end = model.net.generation_config.eos_token_id
    ids = ids[: ids.index(end)] if end in ids else ids
    text = model.tokenizer.decode(ids, skip_special_tokens=True).strip()
    text = text.split("\n")[0].strip() if is_causal else text
    return text, read["input_ids"][0].tolist(), ids


def lift_of(model: Any, items: list[tuple[list[int], list[int]]]) -> float:
    """Cross-attention on the written piece over that of other steps, all layers, in plain loops."""
    net = copy.deepcopy(model.net)
    net.set_attn_implementation("eager")
    special, own, others = set(model.tokenizer.all_special_ids), 0.0, 0.0
    for read, ids in items:
        start = [net.config.decoder_start_token_id, *ids[:-1]]
        with torch.no_grad():
            out = net(input_ids=torch.tensor([read]), decoder_input_ids=torch.tensor([start]),
                      output_attentions=True)  # fmt: skip
        places = [at for at, piece in enumerate(read) if piece not in special]
        for layer in out.cross_attentions:
            maps = layer[0].mean(0)[:, places]  # [written, text]
            maps = maps / maps.sum(1, keepdim=True)
            for step, piece in enumerate(ids):
                same = [n for n, at in enumerate(places) if read[at] == piece]
                elsewhere = [
                    float(maps[other, same].sum())
                    for other, each in enumerate(ids)
                    if each != piece
                ]
                if same and elsewhere:
                    own += float(maps[step, same].sum())
                    others += float(np.mean(elsewhere))
    return own / others if others else float("nan")


MODELS = {"mini:t5": "", "mini:gpt": "", "bart": "BartForConditionalGeneration"}
CASES = [(name, architecture, n) for name, architecture in MODELS.items() for n in (1, 6)]


@pytest.mark.parametrize(
    ("name", "architecture", "number"),
    mostly(CASES, ("bart", MODELS["bart"], 6), ("mini:gpt", "", 1)),
)
def test_texts_scores_and_attention(name: str, architecture: str, number: int) -> None:
    from rouge_score.rouge_scorer import RougeScorer

    model: Any = headed.made(name, architecture) if architecture else wb.load(name, device="cpu")
    corpus = odd_pairs(number)
    is_causal = not model.net.config.is_encoder_decoder
    found = run_here(
        "text-to-text",
        model,
        corpus,
        decoding=("greedy", "beams"),
        beams=3,
        max_pieces=7,
        attributed=0,
    ).tables
    scorer = RougeScorer(["rougeL"], use_stemmer=True)
    scores = found["scores"].set_index(["metric", "system"])["value"]
    items = []
    for beams, system in ((1, "greedy"), (3, "beams")):
        values = []
        for at, doc in enumerate(corpus.docs("test")):
            source, target = (part.text for part in doc.spans["segments"])
            text, read, ids = written(model, f"{source}\nTL;DR:" if is_causal else source, beams)
            values.append(scorer.score(target, text)["rougeL"].fmeasure)
            if system == "greedy":
                assert found["items"]["written"][at] == text
                items.append((read, ids))
        assert scores["rougeL", system] == pytest.approx(np.mean(values), abs=1e-9)
    if not is_causal:
        lift = found["coverage"].set_index("layer").loc["all", "lift"]
        assert lift == pytest.approx(lift_of(model, items), rel=1e-4, nan_ok=True)
