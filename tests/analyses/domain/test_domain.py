"""Planted domains, texts that no training reads, bits by a plain loop, and what findings say."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from io import StringIO
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pandas as pd
import pytest

import workbench as wb
from tests.findings import findings_of
from tests.judges.in_process import Answered
from tests.judges.odd import Quiet
from tests.minis import shared
from tests.night import mostly
from workbench import experiments
from workbench.analyses.domain.adapted import _differences, _given, drift_table, run
from workbench.analyses.domain.experiments import (
    ARMS,
    AS_IS,
    DOMAIN,
    FURTHER,
    MORE,
    OWN,
    PAIRS,
    SCRATCH,
    Domain,
)
from workbench.analyses.domain.fertility import fertility, n_pieces, words_of_domain
from workbench.analyses.domain.unseen import text_to_train_on
from workbench.analyses.training.batches import split_held_out
from workbench.analyses.training.packing import pack
from workbench.analyses.training.token_store import lines_of, tokenize_text
from workbench.analyses.training.tokenizers import train_tokenizer
from workbench.analyses.training.training_run import text_of
from workbench.analyses.training.vocabulary import vocabulary_of
from workbench.core.errors import WorkbenchError
from workbench.experiment import Inputs
from workbench.experiment.definition import SubrunRequest
from workbench.models.scoring.bits_per_character import bits_per_character, likelihood

ANIMALS = "dog cat fox owl hen cow pig elk".split()
TOOLS = "hammer chisel wrench pliers mallet spanner trowel sickle".split()
TINY: dict[str, Any] = {
    "size": "tiny", "general_steps": 12, "steps": 16, "batch_size": 4, "sequence_length": 40,
    "vocabulary_size": 330, "learning_rate": 0.01, "max_test": 10, "seeds": (0,),
}  # fmt: skip


def written(path: Path, words: Sequence[str], lines: int = 120, seed: int = 0) -> wb.Corpus:
    """A text file of sentences in which each word has one that follows it."""
    random = Random(seed)
    with path.open("w") as file:
        for _ in range(lines):
            first = random.randrange(len(words))
            said = [words[(first + n) % len(words)] for n in range(random.randint(4, 6))]
            file.write(f"The {' '.join(said)}.\n")
    return wb.read(str(path))


@dataclass
class Here:
    """Runs that an experiment needs, computed in this process, with models of their own."""

    folder: Path
    requests: list[SubrunRequest] = field(default_factory=list)

    def __call__(
        self,
        requests: Sequence[SubrunRequest],
        on_progress: Callable[[int], object] = lambda done: None,
        later: int | None = 0,
    ) -> list[Answered]:
        return [self._one(request) for request in requests]

    def _one(self, request: SubrunRequest) -> Answered:
        name = f"{request.experiment}-{len(self.requests)}"
        self.requests.append(request)
        kind = experiments()[request.experiment]
        settings = kind.settings(**request.settings)
        corpus: Any = request.corpora[0]
        refs = [str(model) for model in request.models]
        inputs = Inputs(
            tuple(wb.load(ref, device="cpu", seed=request.seed) for ref in refs), (corpus,),
            kind.split_of(corpus, request.split), request.seed, limit=settings.max_sentences,
            keep=self.folder / name / "model", scratch=self.folder / name / "scratch",
            folders=tuple(Path(ref) if Path(ref).is_dir() else None for ref in refs),
        )  # fmt: skip
        result = kind.run(inputs, settings, Quiet())
        model = inputs.keep if kind.trains else None
        return Answered(name, result.tables, result.arrays, result.caveats, model)


def adapted(
    folder: Path, general: wb.Corpus, domain: wb.Corpus, **settings: Any
) -> tuple[wb.Result, Here]:
    here = Here(folder)
    inputs = Inputs((), (general, domain), run_subruns=here)
    return run(inputs, Domain(**{**TINY, **settings}), Quiet()), here


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("WORKBENCH_RUNS", str(tmp_path / "runs"))


# --- planted domains ------------------------------------------------------------------------------


def test_a_planted_domain_is_learnt_and_general_text_forgotten(tmp_path: Path) -> None:
    general = written(tmp_path / "animals.txt", ANIMALS)
    found, here = adapted(tmp_path, general, written(tmp_path / "tools.txt", TOOLS))
    found_by = findings_of("domain", found.tables)
    helps = found_by["bits of the domain's text, further minus more general"]
    forgets = found_by["bits of general text, further minus as is"]
    assert helps.verdict == "supported" and helps.value and helps.value < -0.5
    assert forgets.verdict == "supported" and forgets.value and forgets.value > 0.1
    assert set(found.tables["words"]["word"]) == set(TOOLS)
    fewer = found.tables["fertility"].set_index("words").loc["of the domain"]
    assert fewer["own"] == 1 < fewer["general"] and fewer["upper"] < 0
    begun = {tuple(map(str, each.models)) for each in here.requests if each.experiment == "train"}
    as_is = str(tmp_path / "train-0" / "model")
    assert begun == {(), (as_is,), (f"{as_is}@random",)}
    bits = found.tables["bits"]
    first = bits.groupby("text")[["unscored", "texts"]].nunique()
    assert (first == 1).all(axis=None), "all arms begin a text in the same way"
    for draw in DOMAIN.drawings().values():
        if "tasks" in found.tables or draw.__name__ != "tasks":
            assert draw(found.tables).data


@pytest.mark.slow  # by day `test_without_an_effect_nothing_is_supported`
def test_a_domain_of_the_same_text_has_no_effect(tmp_path: Path) -> None:
    same = written(tmp_path / "animals.txt", ANIMALS)
    found, _ = adapted(tmp_path, same, same, general_steps=5, steps=5)
    gaps = found.tables["differences"].set_index(["text", "arm", "against"])
    for text in ("general", "domain"):
        assert gaps.loc[(text, FURTHER, MORE), "difference"] == 0
        assert gaps.loc[(text, FURTHER, MORE), "p"] == 1
    assert "words" not in found.tables
    by = findings_of("domain", found.tables)
    helps = by["bits of the domain's text, further minus more general"]
    assert helps.verdict == "not supported" and "not shown" in helps.claim
    assert (found.tables["drift"]["difference"] == 0).all()


@pytest.mark.slow
@pytest.mark.usefixtures("warm_workers")
def test_runs_of_its_own_are_read_again_and_tasks_are_scored(tmp_path: Path) -> None:
    """Two masked trainings of each arm from a model that is given, and a task."""
    corpora = [written(tmp_path / f"{name}.txt", words) for name, words in
               (("animals", ANIMALS), ("tools", TOOLS))]  # fmt: skip
    settings = {**TINY, "steps": 4, "seeds": (0, 1), "sequence_length": 48}
    given: Any = {"model": "mini:bert", "corpus": [*corpora, "primer/sentiment:size=200"]}
    first = wb.run("domain", device="cpu", **given, **settings)
    tasks = first.tables["tasks"]
    assert len(tasks) == 2 * len(ARMS) and set(tasks["method"]) == {"frozen", "fine-tuned"}
    assert set(first.tables["bits"]["kind"]) == {"pseudo"}
    assert set(first.tables["trainings"]["arm"]) == {*ARMS} - {AS_IS}
    assert OWN not in set(first.tables["differences"]["arm"])
    assert first.tables["drift"]["lower"].notna().any()
    text = " ".join(caveat.text for caveat in first.caveats)
    assert "unknown amount" in text and "own vocabulary is not compared" in text
    again = wb.run("domain", device="cpu", **given, **{**settings, "max_test": 10})
    names = [found.tables["trainings"]["run"].tolist() for found in (first, again)]
    assert len(set(names[0])) == 8 and again.name != first.name


# --- texts that no training reads -----------------------------------------------------------------


def numbered(lines: int) -> list[str]:
    return [f"Line {'abcdefghij'[n % 10] * 3}{n}x begins. It ends{n}x here." for n in range(lines)]


@pytest.mark.parametrize(("length", "pieces"), mostly([(16, 300), (64, 400), (24, 600)], (24, 600)))
@pytest.mark.parametrize("fraction", [None, 0.004])
def test_no_training_reads_a_scored_text(
    length: int, pieces: int, fraction: float | None, tmp_path: Path
) -> None:
    """Decoded, the sequences that are trained on have no word of a scored text."""
    path = tmp_path / "text.txt"
    path.write_text("\n".join(numbered(400)))
    text = text_to_train_on(wb.read(str(path)), None, 50)
    assert len(text.docs) == 50 and text.scored_on is None
    if fraction is not None:  # as if too little were held out
        text = replace(text, held_out_fraction=fraction)
    tokenizer = train_tokenizer(lines_of(path), "bpe", "gpt", pieces)
    store = tokenize_text(path, tokenizer, tmp_path / "tokens", processes=1)
    unseen = text.unseen([(tokenizer, store.manifest.tokens)], length)
    training, _ = split_held_out(
        pack(store, vocabulary_of(tokenizer), length), text.held_out_fraction
    )
    tokens = training.sequences(np.arange(len(training))).tokens.flatten()
    read = set(tokenizer.decode(tokens).split())
    marks = [next(word for word in doc.text.split() if "x" in word) for doc in unseen.docs]
    assert not {mark for mark in marks if mark in read}
    assert len(unseen.docs) == 50 if fraction is None else 0 < len(unseen.docs) < 50
    assert marks[-1] == "ends399x", "the last texts are scored"


def test_a_split_of_its_own_is_scored_and_train_is_trained_on() -> None:
    corpus = wb.read("primer:size=100")
    text = text_to_train_on(corpus, "dev", 5)
    assert (text.trained_on, text.scored_on) == ("train", "dev")
    assert [doc.text for doc in text.docs] == [doc.text for doc in corpus.docs("dev", 5)]
    assert text_to_train_on(corpus, None, 5).scored_on == "test"
    assert text.unseen([], 16) is text


def test_at_most_a_tenth_of_a_text_is_scored() -> None:
    corpus = wb.read(StringIO("\n".join(numbered(40))))
    text = text_to_train_on(corpus, None, 500)
    assert text.ending is not None
    trained = list(lines_of(text_of(Inputs(corpora=(corpus,)))))
    assert len(text.docs) == len(trained) // 10 == 8
    assert [doc.text for doc in text.docs] == trained[-8:]
    assert text.held_out_fraction == pytest.approx(1.5 * 0.1, rel=0.1)


def test_a_text_without_room_for_a_scored_one_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "text.txt"
    path.write_text("one two three four five six seven eight nine ten. " * 20)
    text = text_to_train_on(wb.read(str(path)), None, 5)
    tokenizer = train_tokenizer(lines_of(path), "bpe", "gpt", 280)
    with pytest.raises(WorkbenchError, match="too short"):
        text.unseen([(tokenizer, len(tokenizer(path.read_text())["input_ids"]))], 16)


# --- bits, words and drift ------------------------------------------------------------------------


def test_bits_are_the_mean_over_seeds_of_those_of_a_plain_loop() -> None:
    batch = wb.encode(wb.read("primer:size=200").docs("test", 8))
    models = [shared("mini:gpt"), shared("mini:gpt@random")]
    scores = [likelihood(model, batch) for model in models]
    found = bits_per_character(batch, [scores, scores[:1] * 2], 0, "here", draws=400)
    alone = []
    for each in scores:
        bits = characters = 0.0
        for n in range(len(batch)):
            bits += each.nats[n] / math.log(2)
            text = batch.text_of(n)
            characters += each.bytes[n] * len(text) / len(text.encode())
        alone.append(bits / characters)
    assert found.values == pytest.approx([np.mean(alone), alone[0]])
    gap = found.gap(0, 1)
    assert gap["difference"] == pytest.approx((alone[1] - alone[0]) / 2)
    assert gap["lower"] <= gap["difference"] <= gap["upper"] and gap["lower"] >= 0
    assert found.gap(1, 1) == {"difference": 0, "lower": 0, "upper": 0, "p": 1}


def docs_of(*counts: tuple[str, int]) -> Iterable[Any]:
    return wb.read([[word] * count for word, count in counts]).docs()


def test_words_of_a_domain_by_hand() -> None:
    domain = [*docs_of(("ax", 6), ("the", 10), ("saw", 9), ("rare", 4), (".", 8))]
    table = words_of_domain(domain, docs_of(("the", 20), ("saw", 1), ("cat", 8)))
    assert list(table["word"]) == ["ax", "saw"], "the is as frequent there; rare is too rare"
    odds = math.log(6.5 / (29 - 6 + 0.5)) - math.log(0.5 / 29.5)
    assert table["log_odds"].iloc[0] == pytest.approx(odds)
    assert list(table["general"]) == [0, 1]


@pytest.mark.parametrize("name", ["gpt", "bert"])
def test_pieces_of_words_are_those_of_the_tokenizer(name: str) -> None:
    model: Any = shared(f"mini:{name}")
    words = ["dog", "unlocks", "Zurich", "hill"]
    plain = [
        len(model.tokenizer(f" {word}", add_special_tokens=False)["input_ids"]) for word in words
    ]
    assert n_pieces(model, words).tolist() == plain
    batch = wb.encode(wb.read([["dog", "unlocks"], ["Zurich"]]).docs())
    rows = {str(row["words"]): row for row in fertility(model, model, words, {"domain": batch})}
    assert rows["of the domain"]["general"] == np.mean(plain)
    assert rows["of the domain"]["difference"] == rows["of the domain"]["upper"] == 0
    assert rows["all of domain text"]["n"] == 3


def test_drift_is_compared_layer_by_layer_over_seeds() -> None:
    layers = pd.DataFrame({"stack": ["decoder"] * 2, "layer": [0, 1]})
    further, control = np.array([[0.1, 0.1], [0.5, 0.54]]), np.array([[0.1, 0.1], [0.2, 0.22]])
    table = drift_table(layers, further, control)
    assert table["difference"].tolist() == pytest.approx([0, 0.31])
    half = 12.706 * np.std([0.3, 0.32], ddof=1) / math.sqrt(2)
    assert table["upper"].iloc[1] == pytest.approx(0.31 + half, rel=1e-3)
    assert table["p"].iloc[0] == 1 and table["p"].iloc[1] == pytest.approx(2 * 0.02053, rel=1e-2)
    assert drift_table(layers, further[:, :1], control[:, :1])["lower"].isna().all()


def test_pseudo_likelihoods_of_other_vocabularies_are_not_compared() -> None:
    batch = wb.encode(wb.read("primer:size=200").docs("test", 3))
    scores = likelihood(shared("mini:bert"), batch)
    found = {"domain": bits_per_character(batch, [[scores]] * len(ARMS), 0, "here", draws=50)}
    assert OWN not in set(_differences(found, "pseudo")["arm"])
    assert len(_differences(found, "left to right")) == len(PAIRS)


def test_a_model_in_memory_only_is_refused() -> None:
    model = shared("mini:gpt")
    with pytest.raises(WorkbenchError, match="memory"):
        _given(Inputs((model,)))


# --- findings -------------------------------------------------------------------------------------


def tables(sign: float, sure: bool = True) -> dict[str, pd.DataFrame]:
    """Tables in which every difference has this sign."""
    gap = {"difference": sign * 0.2, "lower": sign * 0.2 - 0.05, "upper": sign * 0.2 + 0.05}
    if not sure:
        gap |= {"lower": -0.3, "upper": 0.3}
    p = 0.006 if sure else 0.4
    both = ("general", "domain")
    differences = [
        {"text": text, "arm": arm, "against": against, **gap, "p": p}
        for text in both for arm, against in PAIRS
    ]  # fmt: skip
    bits = [
        {"text": text, "arm": arm, "kind": "left to right", "bits_per_character": 2.0,
         "lower": 1.9, "upper": 2.1, "texts": 90}
        for text in both for arm in ARMS
    ]  # fmt: skip
    fertility_row = {"words": "of the domain", "general": 2.0, "own": 2 + sign, **gap, "n": 50}
    fertility_row["difference"] = gap["difference"]
    layers = pd.DataFrame({"stack": ["decoder"] * 2, "layer": [0, 1]})
    moved = np.array([[0.1, 0.1, 0.1], [0.3, 0.3, 0.31]])
    control = moved - sign * np.array([[0.01], [0.1]]) if sure else moved[:, ::-1]
    task = {"task": "sentiment", "method": "frozen", "metric": "accuracy", "baseline": 0.5,
            "value": 0.6, "lower": 0.5, "upper": 0.7, "texts": 200}  # fmt: skip
    ends = {"delta_lower": gap["lower"], "delta_upper": gap["upper"], "p_value": p / 10}
    tasks = [
        {**task, "arm": arm, "delta": np.nan if arm == AS_IS else gap["difference"],
         **({} if arm == AS_IS else ends)}
        for arm in ARMS
    ]  # fmt: skip
    return {
        "differences": pd.DataFrame(differences), "bits": pd.DataFrame(bits),
        "fertility": pd.DataFrame([fertility_row]), "drift": drift_table(layers, moved, control),
        "tasks": pd.DataFrame(tasks), "trainings": pd.DataFrame({"arm": ARMS, "seed": 0}),
    }  # fmt: skip


def test_claims_say_which_way_and_whether_the_papers_found_it() -> None:
    fewer, more = findings_of("domain", tables(-1)), findings_of("domain", tables(1))
    helps = "bits of the domain's text, further minus more general"
    assert "better than as much" in fewer[helps].claim and "as Gururangan" in fewer[helps].claim
    assert "the opposite of what Gururangan" in more[helps].claim
    own = "bits of the domain's text, own vocabulary minus scratch"
    assert "helps" in fewer[own].claim and "harms" in more[own].claim
    forgets = "bits of general text, further minus as is"
    assert "forgets general text" in more[forgets].claim
    assert "forgets no general text" in fewer[forgets].claim
    drift = "largest drift of a layer beyond the control"
    assert more[drift].verdict == "supported" and "Layer 1 moved furthest" in more[drift].claim
    assert fewer[drift].verdict == "not supported" and "No layer" in fewer[drift].claim
    task = "largest difference on a task from the model as is"
    assert "worse than the model as is" in fewer[task].claim
    assert "better than the model as is" in more[task].claim
    decided = [each.verdict for name, each in more.items() if name != drift]
    assert set(decided) == {"supported"} and len(more) == 7


def test_without_an_effect_nothing_is_supported() -> None:
    found = findings_of("domain", tables(-1, sure=False))
    assert {each.verdict for each in found.values()} == {"not supported"}
    assert "not shown" in found["bits of the domain's text, further minus more general"].claim
    assert "In none of 4" in found["largest difference on a task from the model as is"].claim


def test_one_seed_leaves_drift_undecided() -> None:
    made = tables(1)
    layers = made["drift"][["stack", "layer"]]
    made["drift"] = drift_table(layers, np.array([[0.1], [0.3]]), np.array([[0.1], [0.2]]))
    found = findings_of("domain", made)["largest drift of a layer beyond the control"]
    assert found.verdict == "undecided" and found.interval is None


def test_every_figure_draws_what_there_is() -> None:
    made = tables(1)
    for name, draw in DOMAIN.drawings().items():
        drawn = draw(made)
        assert drawn.data, name
    assert {each for trace in DOMAIN.drawings()["tasks"](made).data for each in trace.y} == {*ARMS}
    assert SCRATCH in DOMAIN.drawings()["bits"](made).data[0].y
