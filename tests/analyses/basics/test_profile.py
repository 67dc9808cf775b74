"""A model's facts and losses as tables; a run that was killed goes on, and nothing shows it did."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from tests.models import bilms, headed, zoo
from tests.models.test_logits import HEADED
from tests.night import mostly
from workbench import Corpus, Result, encode, experiments, load, read
from workbench.analyses.basics import lm_profile
from workbench.analyses.basics.experiments import PROFILE, Profile
from workbench.experiment import Inputs
from workbench.models.huggingface import HuggingFace
from workbench.models.scoring.lm_scoring import measures, score
from workbench.models.word_models import Vectors

Opened = Callable[[str], HuggingFace]


class Quiet:
    """Progress that is written down."""

    def __init__(self) -> None:
        self.seen: list[tuple[int, int | None, str]] = []

    def __call__(self, done: int, total: int | None = None, doing: str = "") -> None:
        self.seen.append((done, total, doing))

    def log(self, text: str) -> None: ...

    def warn(self, text: str) -> None: ...


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Opened:
    """A model of the zoo with its head, or `NAME-body` without."""

    @cache
    def made(name: str) -> HuggingFace:
        body = zoo.make(name.removesuffix("-body"), tmp_path_factory.mktemp(name))
        if name.endswith("-body"):
            return headed.opened(body)
        return headed.opened(headed.saved(body, HEADED[name], tmp_path_factory.mktemp(name)))

    return made


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return read("primer:size=100")


def profiled(model: HuggingFace, *corpora: Corpus, pseudo: bool = False, **more: object) -> Result:
    inputs = replace(Inputs((model,), corpora, "test" if corpora else None), **more)
    return PROFILE.run(inputs, Profile(pseudo_likelihood=pseudo), Quiet())


def texts(result: Result) -> str:
    return "\n".join(caveat.text for caveat in result.caveats)


def test_the_registry_has_it() -> None:
    assert experiments()["profile"] is PROFILE


def test_facts_alone_need_no_corpus(opened: Opened) -> None:
    model = opened("gpt2")
    found = profiled(model)
    assert set(found.tables) == {"facts", "stacks", "modules"}
    facts = found.tables["facts"].set_index("fact")["value"]
    assert facts["parameters"] == str(model.parameters)
    assert facts["objective"] == "causal"
    assert facts["content_hash"] == model.content_hash
    assert all(isinstance(value, str) for value in facts)
    assert found.tables["stacks"].to_dict("records") == [
        {"stack": "decoder", "layers": 2, "heads": 4, "kinds": "causal"}
    ]
    assert not found.caveats


def test_a_model_without_a_head_has_facts_and_a_caveat(opened: Opened, corpus: Corpus) -> None:
    found = profiled(opened("bert-body"), corpus)
    assert set(found.tables) == {"facts", "stacks", "modules"}
    assert "no language-model head" in texts(found)


def test_vectors_have_facts(tmp_path: Path, corpus: Corpus) -> None:
    (tmp_path / "small.txt").write_text("the 1 0 2\nold 0 1 0\n")
    found = profiled(load(f"vectors:{tmp_path / 'small.txt'}", "cpu"), corpus)
    assert found.tables["modules"].to_dict("records") == [{"module": "table", "parameters": 6}]
    assert "no language-model head" in texts(found)


def test_a_folder_of_vectors_has_facts(tmp_path: Path, corpus: Corpus) -> None:
    Vectors(["the", "old"], torch.ones(2, 3)).save(tmp_path)
    found = profiled(load(tmp_path, "cpu"), corpus)
    assert found.tables["modules"].to_dict("records") == [{"module": "table", "parameters": 6}]
    assert "no language-model head" in texts(found)


def test_elmos_losses_and_how_they_were_measured(tmp_path: Path, corpus: Corpus) -> None:
    words = [token.text for doc in corpus.docs("train") for token in doc]
    bilms.saved(tmp_path, words, softmax=20)
    model = load(tmp_path, "cpu")
    found = profiled(model, corpus, pseudo=True)
    scores = score(model, encode(corpus.docs("test")))
    losses = found.tables["losses"]
    assert losses["objective"].unique().tolist() == ["bidirectional"]
    assert {m: (v, n) for m, v, n in losses[["metric", "value", "n"]].itertuples(index=False)} == (
        measures(scores, "bidirectional")
    )
    notes = texts(found)
    assert "the mean of the two directions" in notes and "out of 20" in notes
    assert f"{scores.unknown.sum():,} of {scores.words.sum():,} words are not in the" in notes
    assert "perplexity is too low" in notes and "white space" in notes
    assert "for models that see both sides at once" in notes
    facts = profiled(model).tables["facts"].set_index("fact")["value"]
    assert facts["objective"] == "bidirectional"
    modules = profiled(model).tables["modules"].set_index("module")["parameters"]
    assert modules["softmax/weight"] == 100 and modules.sum() == model.parameters
    bilms.saved(tmp_path / "whole", words)
    every = profiled(load(tmp_path / "whole", "cpu"), corpus, split="train")
    assert "<UNK>. It is easier" not in texts(every)


@pytest.mark.parametrize("name", mostly(zoo.NAMES, "bert", "gpt2", "xlnet", "t5-3-2"))
def test_parameters_of_all_parts_are_the_models(name: str, opened: Opened) -> None:
    for kind in (f"{name}-body", name) if name in HEADED else (f"{name}-body",):
        model = opened(kind)
        parts = model.parameters_by_part()
        assert sum(parts.values()) == model.parameters
        layers = [part for part in parts if " layer " in part]
        shared = any("shared" in part for part in parts)
        assert shared or len(layers) == sum(stack.layers for stack in model.stacks)
        assert next(iter(parts)) == "embeddings"


def test_a_heads_parameters_are_what_a_body_does_not_have(opened: Opened) -> None:
    with_head, body = opened("gpt-neox"), opened("gpt-neox-body")
    assert with_head.parameters_by_part()["head"] == with_head.parameters - body.parameters
    assert "head" not in opened("gpt2").parameters_by_part(), "tied to the embeddings"


@pytest.mark.parametrize(
    ("name", "objective", "metrics"),
    [
        ("gpt2", "causal", "loss perplexity accuracy perplexity_per_word bits_per_byte"),
        ("bert", "masked", "masked_loss masked_perplexity masked_accuracy"),
        ("t5", "seq2seq", "seq2seq_loss seq2seq_perplexity seq2seq_accuracy"),
        pytest.param(
            "bart",
            "seq2seq",
            "seq2seq_loss seq2seq_perplexity seq2seq_accuracy",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_losses_of_each_objective(
    name: str, objective: str, metrics: str, opened: Opened, corpus: Corpus
) -> None:
    model = opened(name)
    found = profiled(model, corpus, seed=4).tables["losses"]
    assert list(found.columns) == ["split", "objective", "metric", "value", "n"]
    assert found["metric"].tolist() == metrics.split()
    assert set(found["split"]) == {"test"} and set(found["objective"]) == {objective}
    expected = measures(score(model, encode(corpus.docs("test")), seed=4), objective)
    assert {m: (v, n) for m, v, n in found[["metric", "value", "n"]].itertuples(index=False)} == (
        expected
    )
    tables = profiled(model, corpus).tables
    for table, about in PROFILE.tables.items():
        frame = tables[table]
        assert not frame.duplicated(list(about.keys)).any()


def test_pseudo_likelihood_on_request(opened: Opened, corpus: Corpus) -> None:
    found = profiled(opened("bert"), corpus, pseudo=True, limit=4)
    assert found.tables["losses"]["objective"].unique().tolist() == ["masked", "pseudo"]
    values = found.tables["losses"].set_index("metric")["value"]
    assert values["pseudo_bits_per_byte"] > 0
    assert "not with causal models" in texts(found)
    assert "ignores case" in texts(found)
    other = profiled(opened("gpt2"), corpus, pseudo=True, limit=4)
    assert other.tables["losses"]["objective"].unique().tolist() == ["causal"]
    assert "for models that see both sides" in texts(other)


def test_xlnet_is_scored_over_orders_with_an_interval(opened: Opened, corpus: Corpus) -> None:
    """The mean of four orders, each scored alone, and Student's interval of their mean."""
    model = opened("xlnet")
    found = profiled(model, corpus, limit=4, seed=5)
    losses = found.tables["losses"].set_index(["objective", "metric"])["value"]
    batch = encode(corpus.docs("test", 4))
    orders = [
        measures(score(model, batch, pseudo="permuted", seed=5 + n), "permuted") for n in range(4)
    ]
    for metric in orders[0]:
        values = np.array([order[metric][0] for order in orders])
        half = 3.182446 * values.std(ddof=1) / 2  # t of 3 degrees of freedom
        of = losses["permuted"]
        assert of[metric] == pytest.approx(values.mean())
        assert of[f"{metric}_lower"] == pytest.approx(values.mean() - half)
        assert of[f"{metric}_upper"] == pytest.approx(values.mean() + half)
    assert len({order["permuted_loss"][0] for order in orders}) == 4
    assert "4 random orders" in texts(found)
    (said,) = [f for f in PROFILE.findings(found.tables) if "random orders" in f.measure
               and f.measure.startswith("loss")]  # fmt: skip
    assert said.interval is not None and said.interval[0] < said.value < said.interval[1]


def test_caveats_name_what_is_left_out(opened: Opened, corpus: Corpus, tmp_path: Path) -> None:
    (tmp_path / "long.txt").write_text("The old man saw a dog. " * 60 + "\u200b\n\nI am.\n")
    long = read(str(tmp_path / "long.txt"), unit="document")
    notes = texts(profiled(opened("gpt2"), long, split=None))
    assert "words are beyond the model's maximum of 128 pieces" in notes
    assert "first piece of 2 texts has no context" in notes
    (tmp_path / "odd.txt").write_text("漢 \u200b man\n")
    odd = texts(profiled(opened("bert"), read(str(tmp_path / "odd.txt")), split=None))
    assert "unknown token" in odd
    assert "1 of 3 words have no piece of their own" in odd
    clean = texts(profiled(opened("bert"), corpus))
    for phrase in ("beyond", "no context", "no piece of their own"):
        assert phrase not in clean
    assert "no context" not in texts(profiled(opened("llama"), corpus))


class KilledError(Exception):
    """Stands for a killed process."""


@pytest.mark.parametrize(
    ("name", "pseudo"),
    mostly([("gpt2", False), ("bert", True), ("t5", False)], ("gpt2", False), ("bert", True)),
)
def test_a_killed_run_goes_on_as_if_left_alone(
    name: str,
    pseudo: bool,
    opened: Opened,
    corpus: Corpus,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lm_profile, "CHUNK", 3)
    model, scored = opened(name), []

    def counted(*args: object, **rest: object) -> object:
        scored.append(args[2])
        if len(scored) == 3:
            raise KilledError
        return score(*args, **rest)

    alone = profiled(model, corpus, pseudo=pseudo, limit=8)
    monkeypatch.setattr(lm_profile, "score", counted)
    with pytest.raises(KilledError):
        profiled(model, corpus, pseudo=pseudo, limit=8, scratch=tmp_path)
    kept = sorted(tmp_path.iterdir())
    assert len(kept) == (1 if pseudo else 2)
    times = [file.stat().st_mtime_ns for file in kept]
    again = profiled(model, corpus, pseudo=pseudo, limit=8, scratch=tmp_path)
    assert [file.stat().st_mtime_ns for file in kept] == times, "what was there is not done again"
    for table, frame in alone.tables.items():
        pd.testing.assert_frame_equal(again.tables[table], frame, check_exact=True)
    assert again.caveats == alone.caveats
    assert not [file for file in tmp_path.iterdir() if file.name.startswith(".")]


def test_progress_counts_documents(
    opened: Opened, corpus: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lm_profile, "CHUNK", 3)
    progress = Quiet()
    inputs = Inputs((opened("gpt2"),), (corpus,), "test", limit=7)
    PROFILE.run(inputs, Profile(), progress)
    assert progress.seen == [(done, 7, "scoring documents") for done in (0, 3, 6, 7)]


def test_a_corpus_without_docs_has_no_numbers(opened: Opened) -> None:
    def none() -> Iterator[object]:
        return iter(())

    found = profiled(opened("gpt2"), Corpus("nothing", {"test": none}))  # type: ignore[dict-item]
    assert found.tables["losses"]["value"].isna().all()
    assert "No piece was scored" in texts(found)


def test_figures_are_drawn_from_tables_alone(opened: Opened, corpus: Corpus) -> None:
    draw = PROFILE.drawings()
    with_losses = profiled(opened("gpt2"), corpus).tables
    bars = draw["modules"](with_losses).data[0]
    assert list(bars.x) == with_losses["modules"]["parameters"].tolist()
    with pytest.raises(KeyError):
        draw["modules"]({})
