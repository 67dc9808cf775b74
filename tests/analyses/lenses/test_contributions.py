"""Direct contributions: they sum to the logit, and known parts have known shares."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor

import workbench as wb
from tests.analyses.predictions import task_folders
from tests.analyses.predictions.task_folders import NAMES, with_head
from tests.findings import OBJECTIVE, findings_of
from tests.judges.odd import run_here
from tests.minis import shared
from tests.models.headed import made
from tests.models.test_attention import cases
from tests.models.test_logits import HEADED
from tests.night import mostly
from tests.planted import bert, gpt2
from workbench import Corpus, WorkbenchError
from workbench.analyses.lenses.contributions_corpus import half
from workbench.analyses.lenses.figures.contributions import by_layer
from workbench.analyses.predictions.prediction import of_word
from workbench.analyses.predictions.target import Target
from workbench.core.stats import permutation_p_values_of_means
from workbench.corpora.encode import doc_of
from workbench.engine.batch import Pieces
from workbench.experiment.definition import EXPERIMENTS
from workbench.models.head_removal import parts
from workbench.models.huggingface import HuggingFace
from workbench.models.interventions.direct_contributions import (
    Contributions,
    Reader,
    contributions_to,
    contributions_to_layers,
    frozen_norm,
    reader,
)
from workbench.models.interventions.residual_stream import plan, residual_stream

NON_LINEAR = {
    *("bert", "roberta", "distilbert", "electra", "albert", "modernbert", "deberta-v2"),
    "longformer",
}


@cache
def model_of(name: str) -> HuggingFace:
    return made(name, HEADED[name])


def batches(model: HuggingFace) -> list[tuple[Pieces, Pieces | None, Tensor]]:
    """Batches with some places; of XLNet one hidden piece per text."""
    found = []
    for text, target in cases(model):
        mask = (target if model.two_sided else text).mask
        places = mask.nonzero()[1::2]
        if model.family == "xlnet":
            unseen = torch.zeros_like(mask)
            unseen[:, 1] = True
            text, places = replace(text, unseen=unseen), unseen.nonzero()
        found.append((text, target if model.two_sided else None, places))
    return found


def two(logits: Tensor) -> Tensor:
    """A logit, and one above the mean."""
    return torch.stack([logits[:, 7], logits[:, 9] - logits.mean(-1)], -1)


def relative(one: Tensor, other: Tensor) -> float:
    return float((one - other).norm() / other.norm())


@pytest.mark.parametrize("name", mostly(HEADED, "bert", "gpt2", "xlnet", "t5-3-2"))
def test_contributions_sum_to_the_logit_or_to_the_heads_input(name: str) -> None:
    model = model_of(name)
    opened = reader(model)
    assert opened.of == ("head input" if name in NON_LINEAR else "logit")
    for text, target, places in batches(model):
        found = contributions_to(opened, text, target, places, two)
        assert relative(found.values.sum(-1), found.totals) < 1e-4
        if opened.of == "logit":
            assert relative(found.totals, two(found.logits).T.double()) < 1e-6
        with torch.no_grad():
            mask = torch.zeros_like((text if target is None else target).mask)
            mask[places[:, 0], places[:, 1]] = True
            plain = model.forward(text, targets=target, logits=mask).logits
        assert plain is not None
        torch.testing.assert_close(found.logits, plain.float())


@pytest.mark.parametrize(
    "name", mostly(("bert", "gpt2", "llama", "t5", "bart", "bloom"), "bert", "llama", "t5")
)
def test_heads_have_the_shares_of_their_output_weights(name: str) -> None:
    """The split by projections equals the one by the gradient of the gates."""
    model = model_of(name)
    opened = reader(model)
    by_gates = replace(opened, plan=replace(opened.plan, projections=[None] * len(model.sites)))
    text, target, places = batches(model)[0]
    found = contributions_to(opened, text, target, places, two)
    gated = contributions_to(by_gates, text, target, places, two)
    assert found.components == gated.components
    assert relative(gated.values, found.values) < 1e-4


@pytest.mark.parametrize("name", ["bert", "gpt2", "t5", "bart"])
def test_they_are_what_the_output_weights_write(name: str) -> None:
    """Of each head of the last layer, by its slice of the projection and its own output."""
    model = model_of(name)
    opened = reader(model)
    text, target, places = batches(model)[0]
    seen = _HeadOutputs()
    with torch.no_grad():
        stream = residual_stream(model, text, target, taps=[seen])
    weights = model.output_weights()
    found = contributions_to(opened, text, target, places, lambda logits: logits[:, 7:8])
    site = [s for s in model.sites if s.stack == opened.stack][-1]
    rows, pieces = places.T
    output = seen.by_site[site][rows, pieces]  # [n, heads, width of a head]
    written = torch.einsum("nhd,hdw->nhw", output, weights[site])  # [n, heads, width]
    step = next(s for s in stream.steps[opened.stack][-1] if s.site == site)
    bias = step.added[rows, pieces] - written.sum(1)
    assert float(bias.std(0).max()) < 1e-4, "what is left is the same for every piece"
    # the direction: from two states that differ by what a head writes, all norms held
    mlp, heads = stream.steps[opened.stack][-1][-1], [
        values for component, values in zip(found.components, found.values[0].T, strict=True)
        if component.head >= 0 and component.layer == site.layer and component.kind == site.kind
    ]  # fmt: skip
    norms = [step.norm, mlp.norm, stream.final_norms[opened.stack]]
    moved = written.double()
    for norm in norms:
        if norm is not None:
            frozen = frozen_norm(norm.module)
            read, out = norm.read[rows, pieces].double(), norm.output[rows, pieces].double()
            scale = frozen.scale(read, out)[:, None]
            centred = moved - moved.mean(-1, keepdim=True) if frozen.centred else moved
            moved = frozen.gain * centred * scale
    last = stream.final_state(opened.stack)[rows, pieces]
    gradient = _gradient(model, last)  # [n, width]
    expected = (moved * gradient[:, None].double()).sum(-1)
    assert relative(torch.stack(heads, -1), expected) < 1e-4


class _HeadOutputs:
    """Keeps what each head returns, before the output projection."""

    needs_probabilities = False

    def __init__(self) -> None:
        self.by_site: dict[Any, Tensor] = {}

    def wants(self, site: Any) -> bool:
        return True

    def passed(self, site: Any, output: Tensor, text: Any) -> Tensor:
        self.by_site[site] = output.detach()
        return output

    def close(self, whole: bool) -> None: ...


def _gradient(model: HuggingFace, states: Tensor) -> Tensor:
    """The gradient of logit 7 at the input of the head, by its own modules."""
    leaf = states.detach().requires_grad_()
    net: Any = model.net
    if model.family == "bert":
        transform = net.cls.predictions.transform
        read = transform.transform_act_fn(transform.dense(leaf))
        norm = transform.LayerNorm  # its scale is held
        spread = (read.var(-1, unbiased=False, keepdim=True) + norm.eps).sqrt().detach()
        moved = norm.weight * (read - read.mean(-1, keepdim=True)) / spread + norm.bias
        logits = net.cls.predictions.decoder(moved)
    elif model.family == "t5" and net.config.tie_word_embeddings:
        logits = net.lm_head(leaf * net.model_dim**-0.5)
    else:
        logits = net.lm_head(leaf)
    (gradient,) = torch.autograd.grad(logits[:, 7].sum(), leaf)
    return gradient


@pytest.mark.parametrize(
    "name", mostly(("bert", "gpt2", "t5", "xlnet", "deberta-v2"), "gpt2", "t5", "xlnet")
)
def test_a_head_that_writes_nothing_contributes_nothing(name: str) -> None:
    model = model_of(name).copy()
    text, target, places = batches(model)[0]
    before = _by_head(contributions_to(reader(model), text, target, places, two))
    last = _projections(model)[-1]
    with torch.no_grad():
        weight = last if isinstance(last, torch.nn.Parameter) else last.weight
        if isinstance(last, torch.nn.Parameter):
            weight[:, 2] = 0  # XLNet: [width, heads, width of a head]
        elif type(last).__name__ == "Conv1D":
            weight[16:24] = 0
        else:
            weight[:, 16:24] = 0
    after = _by_head(contributions_to(reader(model), text, target, places, two))
    silenced = list(after)[-2]  # head 2 of 0 to 3 in the last layer
    assert silenced[-1] == 2
    assert float(before[silenced].abs().max()) > 1e-3
    assert float(after[silenced].abs().max()) == 0


def _by_head(found: Contributions) -> dict[tuple[str, int, int], Tensor]:
    return {
        (c.kind, c.layer, c.head): found.values[..., index]
        for index, c in enumerate(found.components)
        if c.head >= 0
    }


def _projections(model: HuggingFace) -> list[Any]:
    return [part.output for part in parts(model)]


def test_a_planted_head_that_writes_the_answer_comes_first() -> None:
    """BERT has `previous`, GPT-2 `induction`; every other head writes nothing to the logits."""
    planted = bert.build()
    model = HuggingFace(planted.model, planted.tokenizer, "planted")
    found = wb.contributions(model, "The old dog saw Alfred.", word=2)
    heads = found.table[found.table["part"] == "head"]
    best = heads.loc[heads["contribution"].abs().idxmax()]
    assert (best["layer"], best["head"]) == planted.heads["previous"]

    planted = gpt2.build()
    model = HuggingFace(planted.model, planted.tokenizer, "planted")
    found = wb.contributions(model, "The old dog saw Alfred. The old")
    assert found.choice.strip(" ▁") == "dog"
    row = found.table.loc[found.table["contribution"].idxmax()]
    assert row["part"] == "head"
    assert (row["layer"], row["head"]) == planted.heads["induction"]
    others = found.table.drop(index=row.name)["contribution"]
    assert others.abs().max() < 1e-3 * row["contribution"]


def test_contributions_of_a_linear_model_are_those_by_hand() -> None:
    """GPT-2 of one block without attention or MLP: only embeddings and biases are left."""
    model = model_of("gpt2").copy()
    net: Any = model.net
    with torch.no_grad():
        for block in net.transformer.h:
            for projection in (block.attn.c_proj, block.mlp.c_proj):
                projection.weight.zero_()
                projection.bias.normal_()
    text, _, _ = batches(model)[0]
    place = torch.tensor([[0, 3]])
    found = contributions_to(reader(model), text, None, place, lambda logits: logits[:, 7:8])
    first = net.transformer.wte.weight[text.ids[0, 3]] + net.transformer.wpe.weight[3]
    biases = [p.bias for b in net.transformer.h for p in (b.attn.c_proj, b.mlp.c_proj)]
    state = (first + sum(biases)).detach().double()
    norm = net.transformer.ln_f
    scale = 1 / (state.var(unbiased=False) + norm.eps).sqrt()

    def share(part: Tensor) -> float:
        part = part.detach().double()
        through = norm.weight.detach() * (part - part.mean()) * scale
        return float((through * net.lm_head.weight[7]).sum().detach())

    values = {
        (c.part, c.layer): float(v)
        for c, v in zip(found.components, found.values[0, 0], strict=True)
        if c.head < 0
    }
    expected = {
        ("embeddings", -1): share(first),
        **{
            ("attention-bias", n): share(b.attn.c_proj.bias)
            for n, b in enumerate(net.transformer.h)
        },
        **{("mlp", n): share(b.mlp.c_proj.bias) for n, b in enumerate(net.transformer.h)},
        ("norm-bias", -1): float((norm.bias * net.lm_head.weight[7]).sum().detach()),
        ("output-bias", -1): 0.0,
    }
    assert values == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("name", ["bert", "gpt2", "t5", "xlnet", "albert"])
def test_a_head_that_reads_all_layers_is_taken_apart(name: str) -> None:
    """A linear function of all layers, as of a fine-tuned head: the sum is the number itself."""
    model = model_of(name)
    where = plan(model)
    norms = {norm: frozen_norm(norm) for norm in where.norms}
    opened = Reader(model, where, "head input", None, norms)
    text, _, _ = batches(model)[0]
    text = replace(text, unseen=None)
    weights = torch.randn(50, model.width, generator=torch.Generator().manual_seed(0))

    def summands(layers: Sequence[Tensor]) -> Tensor:
        mask = text.mask[..., None]
        return torch.stack([(x * mask).sum(1) @ weights[n] for n, x in enumerate(layers)])

    def explained(layers: Sequence[Tensor]) -> Tensor:
        return summands(layers).sum(0)[:, None]  # [batch, 1]

    found = contributions_to_layers(opened, text, explained)
    with torch.no_grad():
        by_layer = summands(model.states(text)).double()  # [layers, batch]
    error = (found.totals[0] - by_layer.sum(0)).abs()
    assert (error < 1e-5 * by_layer.abs().sum(0)).all()  # summands of both signs
    assert relative(found.values.sum(-1), found.totals) < 1e-4


@pytest.mark.parametrize("kind", ["Bert", "Roberta", "GPT2"])
def test_a_classifiers_contributions_sum_over_all_pieces(kind: str) -> None:
    model = made(kind.lower(), f"{kind}ForSequenceClassification")
    model.net.config.pad_token_id = model.tokenizer.pad_token_id
    assert model.predicts is not None
    opened = reader(model)
    text, _, _ = batches(model_of(kind.lower()))[0]
    found = contributions_to(opened, text, None, None, lambda logits: logits[:, :1])
    assert found.values.shape[:2] == (1, len(text))
    assert relative(found.values.sum(-1), found.totals) < 1e-4


# --- the public function --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ref", "word"),
    mostly([("mini:bert", 1), ("mini:gpt", 4), ("mini:t5", 1)], ("mini:bert", 1), ("mini:gpt", 4)),
)
def test_a_contrast_is_the_difference_of_two_choices(ref: str, word: int) -> None:
    model = shared(ref)
    text = "Ben walks to the hill."
    both = [wb.contributions(model, text, word=word, target=choice) for choice in (11, 12)]
    contrast = wb.contributions(model, text, word=word, target=11, against=12)
    difference = both[0].table["contribution"] - both[1].table["contribution"]
    np.testing.assert_allclose(contrast.table["contribution"], difference, atol=1e-4)
    assert contrast.logit == pytest.approx(both[0].logit - both[1].logit, abs=1e-4)
    assert contrast.against == both[1].choice
    assert contrast.table["share"].sum() == pytest.approx(1)


def test_the_default_is_the_most_probable_choice_and_text_names_one() -> None:
    model = shared("mini:gpt")
    found = wb.contributions(model, "Ben walks to the hill.", word=4)
    prediction = of_word(model, doc_of("Ben walks to the hill."), 4)
    with torch.no_grad():
        logits = prediction.logits()[0]
    assert found.logit == pytest.approx(float(logits.max()), abs=1e-4)
    assert found.choice == prediction.names([int(logits.argmax())])[0]
    named = wb.contributions(model, "Ben walks to the hill.", word=4, target="hill")
    assert named.choice.strip(" ▁") == "hill"
    assert found.total == pytest.approx(found.logit, abs=1e-4)
    assert "head" in repr(found)


def test_a_prediction_may_be_given() -> None:
    model = shared("mini:t5")
    prediction = of_word(model, doc_of("Ben walks to the hill."), 2)
    assert prediction.gold is not None
    found = wb.contributions(model, prediction, target=Target(prediction.gold))
    assert found.total == pytest.approx(found.logit, abs=1e-3)


@pytest.mark.parametrize(
    ("ref", "options", "message"),
    [
        ("mini:elmo", {"word": 1}, "residual stream"),
        ("mini:bert", {}, "has none"),
        ("mini:gpt", {"target": "xyzzy"}, "'xyzzy' is not one choice"),
        ("mini:gpt", {"target": 10**6}, "1000000 is not a choice"),
        ("mini:gpt", {"word": 0}, "predicts none"),
        ("mini:gpt", {"target": Target(3, measure="probability")}, "sum to a logit"),
        ("mini:gpt", {"target": Target(3), "against": 4}, "own contrast"),
    ],
)
def test_mistakes_are_said(ref: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(WorkbenchError, match=message):
        wb.contributions(shared(ref), "Ben walks to the hill.", **options)


# --- over a corpus --------------------------------------------------------------------------------


def test_p_values_are_the_rank_among_permutations() -> None:
    """Of one part alone there is nothing to correct: the rank of its mean."""
    random = np.random.default_rng(0)
    null = random.normal(size=(99, 3))
    values = np.array([null[:, 0].max() + 1, np.median(null[:, 1]), null[:, 2].min() - 1])
    for column in range(3):
        alone = permutation_p_values_of_means(values[[column]], null[:, [column]])
        rank = (1 + int((null[:, column] >= values[column]).sum())) / 100
        assert alone[0] == pytest.approx(rank)
    corrected = permutation_p_values_of_means(values, null)
    assert corrected[0] == 0.01 and (corrected[1:] > 0.5).all()
    constant = permutation_p_values_of_means(np.zeros(1), np.zeros((9, 1)))
    assert constant[0] == 1


def tables_with(**columns: list[object]) -> dict[str, pd.DataFrame]:
    """Tables of a model with two heads and an MLP."""
    table = pd.DataFrame(
        {
            "part": ["embeddings", "head", "head", "mlp", "norm-bias"],
            "stack": "decoder",
            "kind": ["", "causal", "causal", "", ""],
            "layer": [-1, 0, 0, 0, -1],
            "head": [-1, 0, 1, -1, -1],
            "contribution": [0.1, 2.0, 0.5, 1.0, 9.0],
            "gain": [0.0, 0.5, 0.2, 0.4, 0.0],
            "p": [1.0, 0.001, 0.4, 0.01, 1.0],
            "n": 80,
            "n_tested": 80,
            **columns,
        }
    )
    table["writes"] = (table["p"] < 0.05) & (table["gain"] > 0)
    for name, prefix in (("contribution", ""), ("gain", "gain_")):
        table[f"{prefix}lower"], table[f"{prefix}upper"] = table[name] - 0.1, table[name] + 0.1
    facts = {
        "sum of contributions": 12.6, "parts that give half": 1.4, "parts": 5.0,
        "share of heads": 0.2, "share of MLPs": 0.1, "share of embeddings": 0.1,
        "share of biases": 0.6,
    }  # fmt: skip
    summary = pd.DataFrame({"fact": list(facts), "value": list(facts.values())})
    summary = summary.assign(lower=summary["value"] - 0.1, upper=summary["value"] + 0.1)
    return {"components": table, "summary": summary, "objective": OBJECTIVE}


def test_the_largest_part_is_named_and_biases_are_not() -> None:
    found = findings_of("contributions", tables_with())
    first = found["largest contribution"]
    assert first.claim.startswith("Head 1.1 adds most") and "2.00 of 12.60 nats" in first.claim
    assert found["heads that raise the true word"].claim.startswith("1 of 2 heads raises")
    assert found["heads that raise the true word"].verdict == "supported"
    assert found["largest gain of heads"].keys["head"] == 0
    assert found["MLPs that raise the true word"].value == 1
    assert "1.4 of 5 parts" in found["parts that give half of the positive contributions"].claim


def test_a_random_model_raises_no_word() -> None:
    found = findings_of("contributions", tables_with(p=[1.0, 0.3, 0.9, 0.2, 1.0]))
    tested = [each for each in found.values() if each.null is not None]
    assert len(tested) == 4
    assert {each.verdict for each in tested} == {"not supported"}


def test_with_few_words_nothing_is_decided() -> None:
    few = tables_with(p=[1.0, 0.3, 0.9, 0.2, 1.0], n_tested=[8] * 5)
    found = findings_of("contributions", few)
    assert {each.verdict for each in found.values() if each.null is not None} == {"undecided"}


def test_the_parts_that_give_half_are_counted_from_the_largest() -> None:
    values = np.array([[4.0, 3.0, 1.0, -9.0], [1.0, 1.0, 1.0, 1.0], [0.0, 0.0, 0.0, 0.0]])
    assert half(values).tolist() == [1, 2, 1]


def test_a_corpus_without_words_to_predict_is_refused() -> None:
    corpus = Corpus("one", {"test": lambda: iter([doc_of("Ben")])})
    with pytest.raises(WorkbenchError, match="no two words"):
        run_here("contributions", shared("mini:gpt"), corpus)


@pytest.mark.parametrize("name", mostly(("llama", "bart", "xlnet", "deberta-v2"), "bart"))
def test_every_kind_of_model_runs_over_a_corpus(name: str) -> None:
    found = run_here(
        "contributions", model_of(name), wb.read("primer"), max_sentences=6, max_words=12,
        n_permutations=19,
    )  # fmt: skip
    facts = found.tables["summary"].set_index("fact")["value"]
    assert facts["largest error of a sum"] < 1e-3
    assert facts["words"] == 12
    for draw in EXPERIMENTS["contributions"].drawings().values():
        if draw.__name__ != "tags":  # no part of speech has enough words
            assert draw(found.tables).data


# --- task heads over a corpus ---------------------------------------------------------------------


@pytest.mark.parametrize("kind", mostly(("class", "tags"), "class"))
def test_a_task_head_over_a_corpus_is_the_mean_of_its_texts(kind: Any, tmp_path: Path) -> None:
    """Each text alone by `wb.contributions`; gains and their null counted one by one."""
    model = with_head(shared("mini:bert"), tmp_path, kind)
    few = 3 if kind == "class" else 2
    corpus = wb.read(f"primer{'/sentiment' if kind == 'class' else ''}:size=200")
    found = run_here("contributions", model, corpus, max_sentences=few, min_count=1)
    names = NAMES[kind]
    own, every, gold = [], [], []
    for doc in corpus.docs("test", few):
        words = (
            [None] if kind == "class" else [n for n, word in enumerate(doc) if word.pos_ in names]
        )
        for word in words:
            parts = {name: wb.contributions(model, doc, target=name, word=word) for name in names}
            table = np.stack([each.table["contribution"] for each in parts.values()], 1)
            above = table - table.mean(1, keepdims=True)  # [parts, classes]
            top = int(np.argmax([each.logit for each in parts.values()]))
            own.append(above[:, top])
            every.append(above)
            true = doc._.labels["sentiment"] if word is None else doc[word].pos_
            gold.append(names.index(true))
    components = found.tables["components"]
    assert (components["n"] == len(own)).all()
    np.testing.assert_allclose(components["contribution"], np.mean(own, 0), atol=1e-4)
    block = np.stack(every) - np.mean(every, 0)
    gains = [each[:, true] - each.mean(1) for each, true in zip(block, gold, strict=True)]
    np.testing.assert_allclose(components["gain"], np.mean(gains, 0), atol=1e-4)
    facts = found.tables["summary"].set_index("fact")["value"]
    assert facts["classes"] == len(set(gold)) and facts["largest error of a sum"] < 1e-3
    claims = " ".join(each.claim for each in EXPERIMENTS["contributions"].findings_of(found.tables))
    assert "true class" in claims and "part of speech" not in claims
    for draw in EXPERIMENTS["contributions"].drawings().values():
        assert draw(found.tables).data


def test_a_part_that_writes_the_true_class_is_found(tmp_path: Path) -> None:
    """A head that reads one direction of the embeddings, along which two words differ."""
    model: Any = with_head(shared("mini:gpt"), tmp_path, "class")
    head = wb.load(str(tmp_path), device="cpu").task_head
    vectors = model.net.transformer.wte.weight.detach()
    good, bad = (model.tokenizer("the " + word)["input_ids"][-1] for word in ("old", "hill"))
    with torch.no_grad():
        head.mix.mean.zero_()
        head.mix.spread.fill_(1.0)
        head.mix.scores.copy_(torch.tensor([300.0] + [0.0] * (head.mix.layers - 1)))
        width = vectors.shape[1]
        head.outer.weight.zero_()
        head.outer.bias.zero_()
        head.outer.weight[0, :width] = vectors[bad] - vectors[good]
        head.outer.weight[1, :width] = vectors[good] - vectors[bad]
    model.with_task_head(head).save(tmp_path)
    docs = []
    for number in range(20):
        doc = task_folders.doc_of(f"the {('hill', 'old')[number % 2]} the")
        doc._.labels = {"sentiment": NAMES["class"][number % 2]}
        docs.append(doc)
    corpus = wb.Corpus("planted", {"test": lambda: iter(docs)})
    found = run_here("contributions", wb.load(str(tmp_path), device="cpu"), corpus)
    rows = found.tables["components"].set_index("part")
    assert rows.loc["embeddings", "writes"] and rows.loc["embeddings", "gain"] > 0
    assert not found.tables["components"].query("part != 'embeddings'")["writes"].any()
    shuffled = list(reversed(NAMES["class"])) * 5 + list(NAMES["class"]) * 5
    for doc, name in zip(docs, shuffled, strict=True):
        doc._.labels = {"sentiment": name}
    found = run_here("contributions", wb.load(str(tmp_path), device="cpu"), corpus)
    assert not found.tables["components"]["writes"].any()


def test_a_corpus_without_the_classes_is_refused(tmp_path: Path) -> None:
    model = with_head(shared("mini:bert"), tmp_path, "class")
    with pytest.raises(WorkbenchError, match="labels"):
        run_here("contributions", model, wb.read("primer:size=200"), max_sentences=6)


def test_the_figure_has_heads_then_cross_heads_then_the_mlp_the_last_layer_on_top() -> None:
    kinds = [("head", "causal", 0, 1), ("head", "cross", 0, 0), ("mlp", "", 0, -1)]
    kinds += [("head", "causal", 1, 0), ("mlp", "", 1, -1), ("embeddings", "", -1, -1)]
    table = pd.DataFrame(kinds, columns=["part", "kind", "layer", "head"])
    table = table.assign(stack="decoder", contribution=[1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    wide = by_layer(table)
    assert list(wide.columns) == ["head 1", "head 2", "cross head 1", "MLP"]
    assert wide.fillna(-1.0).to_dict("index") == {
        "layer 2": {"head 1": 4.0, "head 2": -1.0, "cross head 1": -1.0, "MLP": 5.0},
        "layer 1": {"head 1": -1.0, "head 2": 1.0, "cross head 1": 2.0, "MLP": 3.0},
    }
    assert list(wide.index) == ["layer 2", "layer 1"]
