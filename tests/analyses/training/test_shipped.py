"""The shipped models keep what they promise, and the command that made them makes them anew."""

import json
import math
import sys
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors import safe_open
from spacy.tokens import Doc

import workbench as wb
from tests.judges.odd import Quiet
from tests.night import mostly
from workbench import WorkbenchError, encode, read
from workbench.analyses.training.commands import shipped
from workbench.analyses.training.experiments import EXPERIMENT
from workbench.analyses.training.shipped import SETS
from workbench.cli.main import main
from workbench.corpora.content_hash import content_hash
from workbench.corpora.readers.tables import Pair, minimal_pairs
from workbench.experiment import Inputs
from workbench.experiment.definition import EXPERIMENTS
from workbench.models.references import MINI, MINI_CORPUS, MORE, NOVELS, folder_of, located
from workbench.models.scoring.lm_scoring import PSEUDO, score
from workbench.runs import builtin
from workbench.runs.request import checked_settings
from workbench.runs.run import Run

HOME = Path(located("mini:bert")).parent
SCORES: dict[str, Any] = json.loads((HOME / shipped.SCORES).read_text())
NAMES = [ref.removeprefix("mini:") for ref in MINI]
RELATIONS = {"bert": 2, "gpt": 5}  # as many as are significant after correction, at least
CLEAR = 1.1  # times as good as trigrams


@pytest.fixture(scope="module")
def models() -> dict[str, Any]:
    return {name: wb.load(f"mini:{name}", device="cpu") for name in NAMES}


@pytest.fixture(scope="module")
def docs() -> list[Doc]:
    """What they were scored on."""
    return list(read("primer").docs("test", shipped.SCORED))


@pytest.fixture(scope="module")
def pairs() -> list[Pair]:
    """Fifty of agreement."""
    found = minimal_pairs(read("primer/acceptability").docs("test"))
    return list(islice((pair for pair in found if pair.phenomenon == "agreement"), 50))


def test_they_are_small_and_in_half_precision() -> None:
    assert sorted(path.name for path in HOME.iterdir() if path.is_dir()) == sorted(NAMES)
    sizes = {name: sum(path.stat().st_size for path in (HOME / name).iterdir()) for name in NAMES}
    assert max(sizes.values()) <= 3_000_000
    assert sum(path.stat().st_size for path in HOME.rglob("*") if path.is_file()) <= 12_000_000
    for name in NAMES:
        with safe_open(HOME / name / "model.safetensors", framework="pt") as file:
            kinds = {file.get_slice(key).get_dtype() for key in file.keys()}  # noqa: SIM118
        assert kinds == {"F16"}


@pytest.mark.parametrize("name", NAMES)
def test_each_says_how_it_was_made(name: str) -> None:
    recipe = json.loads((HOME / name / "training.json").read_text())
    settings = checked_settings(EXPERIMENT, {**SETS["mini"].settings[name], "family": name})
    stored = recipe["settings"]
    for key in SETS["mini"].settings[name]:
        assert stored.get(key, stored["plan"].get(key)) == getattr(settings, key), key
    assert recipe["family"] == name
    assert stored["plan"]["seed"] == SCORES[name]["seed"] == 0
    assert SCORES[name]["corpus"] == MINI_CORPUS
    assert 0.9e6 < SCORES[name]["parameters"] < 1.6e6


def test_the_corpus_is_still_the_one_they_learnt_from() -> None:
    assert {scores["corpus_hash"] for scores in SCORES.values()} == {
        content_hash(read(MINI_CORPUS))
    }


@pytest.mark.parametrize("name", NAMES)
def test_each_is_clearly_better_than_trigrams(name: str) -> None:
    measure = shipped.measure_of(name)
    found = SCORES[name]["scores"][measure]
    better = found["model"] / found["trigram"]
    assert found["n"] > 400
    assert (1 / better if measure == "perplexity" else better) >= CLEAR


@pytest.mark.parametrize(
    "name",
    mostly(NAMES, "elmo"),  # of BERT, the next test
)
def test_scores_are_those_of_the_models_as_they_are_shipped(
    name: str, models: Any, docs: list[Doc]
) -> None:
    model = models[name]
    stored = SCORES[name]["scores"]
    found = score(model, encode(docs), pseudo="original" if name == "bert" else None)
    if name == "t5":  # its sentinels count here, and not there
        assert found.right.sum() / found.pieces.sum() > stored["accuracy"]["model"]
        return
    perplexity = math.exp(found.nats.sum() / found.pieces.sum())
    assert perplexity == pytest.approx(stored["perplexity"]["model"], rel=1e-3)


def test_a_fifth_of_the_sentences_has_about_the_shipped_score(models: Any, docs: list[Doc]) -> None:
    """Of BERT, each piece of which is hidden in turn."""
    found = score(models["bert"], encode(docs[:100]), pseudo="original")
    perplexity = math.exp(found.nats.sum() / found.pieces.sum())
    assert perplexity == pytest.approx(SCORES["bert"]["scores"]["perplexity"]["model"], rel=0.1)


@pytest.mark.parametrize("name", mostly(NAMES, "bert"))
def test_most_agreement_pairs_are_kept_right(name: str, models: Any, pairs: list[Pair]) -> None:
    model = models[name]
    good, bad = (
        score(model, encode(docs), pseudo="within-word" if model.objective in PSEUDO else None).nats
        for docs in ([pair.good for pair in pairs], [pair.bad for pair in pairs])
    )
    assert (good < bad).mean() > 0.6
    assert SCORES[name]["pairs"]["agreement"] > 0.6


@pytest.mark.parametrize("name", mostly(RELATIONS, "bert"))
def test_heads_follow_relations(name: str, models: Any, docs: list[Doc]) -> None:
    corpus = wb.Corpus("held-out", {"test": lambda: iter(docs)})
    heads = EXPERIMENTS["heads"]
    found_by = heads.run(Inputs((models[name],), (corpus,)), heads.settings(), Quiet())
    table = found_by.tables["best"]
    found = set(table[table["syntactic"]]["relation"])
    assert len(found) >= RELATIONS[name]
    assert found >= set(SCORES[name]["relations"])


def test_a_built_in_model_is_a_folder_like_any_other() -> None:
    assert folder_of("mini:bert") == HOME / "bert"
    fresh = wb.load("mini:bert@random", device="cpu", seed=1)
    own = wb.load("mini:bert", device="cpu")
    assert (fresh.name, own.name) == ("mini:bert@random", "mini:bert")
    assert fresh.content_hash != own.content_hash
    with pytest.raises(WorkbenchError, match="no built-in model") as caught:
        wb.load("mini:brt")
    assert "mini:bert" in caught.value.remedy


# --- the models that have read novels, and those beside the quartet ------------------------------

SENTENCES = {  # each with words that belong in its gap, or after it
    "He opened the [MASK] and went out.": "door window gate",
    "She shook her [MASK] and said nothing.": "head hand",
    "He took off his [MASK] and sat down.": "hat coat cap gloves boots",
    "It was a cold winter [MASK].": "night day morning evening",
    "I am very [MASK] to see you.": "glad happy sorry pleased",
    "She looked out of the [MASK].": "window door room house",
    "They lived in a small [MASK] by the sea.": "house village town cottage room place",
    "He was a man of thirty [MASK] of age.": "years",
    "The old man died in his [MASK].": "bed sleep house arms room chair",
    "She burst into [MASK].": "tears",
    "Once upon a [MASK] there was a king.": "time",
    "He put his hand in his [MASK].": "pocket pockets arms hand hands",
    "Good [MASK], sir, how do you do?": "morning evening night day heavens",
    "She was as white as a [MASK].": "sheet ghost child stone lily",
    "The [MASK] was shining brightly.": "sun moon light sky fire",
    "My dear [MASK], I am sorry.": "fellow sir boy child lady friend girl madam",
    "He mounted his [MASK] and rode away.": "horse",
    "The captain of the [MASK] gave the order.": "ship vessel guard boat",
    "He could not take his [MASK] off her face.": "eyes hand hands hat",
    "A tear ran down her [MASK].": "cheek cheeks face eyes",
}


def completed(model: Any, text: str, count: int) -> list[str]:
    before = text if model.objective == "masked" else text.partition(" [MASK]")[0]
    choices = wb.predict(model, before, top=count).table["choice"]
    return [choice.strip("▁ ") for choice in choices]


@pytest.mark.parametrize("name", mostly(NOVELS, NOVELS[0]))
def test_sentences_of_everyday_are_completed(name: str) -> None:
    """What a visitor may type; the mini models know no word of most of them."""
    model, mini = wb.load(name, device="cpu"), wb.load(f"mini:{name[7:]}", device="cpu")
    hits = {
        each.name: sum(
            bool(set(completed(each, text, 10)) & set(words.split()))
            for text, words in SENTENCES.items()
        )
        for each in (model, mini)
    }
    assert hits[name] >= 12 and hits[name] > 2 * hits[f"mini:{name[7:]}"], hits


def test_sets_are_small_and_say_how_they_were_made() -> None:
    for folder, limit, families in (
        ("novels", 14 * 2**20, ("bert", "gpt")),
        ("mini-more", 6 * 2**20, tuple(ref[5:] for ref in MORE)),
    ):
        files = [path for path in (HOME.parent / folder).rglob("*") if path.is_file()]
        assert sum(path.stat().st_size for path in files) <= limit
        for family in families:
            recipe = json.loads((HOME.parent / folder / family / "training.json").read_text())
            assert recipe["family"] == family and recipe["settings"]["plan"]["seed"] == 0
            own = SETS[folder].settings[family]
            stored = recipe["settings"]
            assert all(stored.get(key, stored["plan"].get(key)) == own[key] for key in own)


@pytest.mark.data
@pytest.mark.slow
@pytest.mark.parametrize("name", NOVELS)
def test_they_predict_the_web_better_than_the_minis(name: str, data: Path) -> None:
    """Bits per character of 200 held-out sentences of EWT."""
    corpus = wb.read(data / "ewt")
    mini = f"mini:{name[7:]}"
    inputs = Inputs(
        tuple(wb.load(ref, device="cpu") for ref in (name, mini)), (corpus,), "test", 0, limit=200
    )
    family = EXPERIMENTS["family"]
    tables = family.import_code()(inputs, family.settings(parts=("text",)), Quiet()).tables
    bits = tables["text"].set_index("model")["bits_per_character"]
    assert bits[name] < bits[mini]
    assert (tables["differences"]["p"] < 0.01).all()  # of 1,000 bootstrap samples


# --- making them ----------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_same_command_makes_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path / "home"))
    monkeypatch.setitem(SETS, "mini", replace(SETS["mini"], corpus="primer:size=500"))  # type: ignore[arg-type]
    monkeypatch.setattr(shipped, "SCORED", 30)
    few = (builtin.Recipe("profile", ("mini:t5",)), builtin.Recipe("similarity", MINI))
    monkeypatch.setattr(builtin, "RECIPES", few)
    command = ["workbench", "train", "mini", "--time-budget", "4s", "--device", "cpu"]

    def run(*more: str) -> str:
        monkeypatch.setattr(sys, "argv", [*command, *more])
        with pytest.raises(SystemExit) as end:
            main()
        assert end.value.code in (0, None), capsys.readouterr().err
        return capsys.readouterr().out

    said = run("--out", "minis")
    assert all(f"minis/{name}" in said for name in NAMES)
    made = json.loads((tmp_path / "minis" / shipped.SCORES).read_text())
    assert made.keys() == SCORES.keys()
    for name in NAMES:
        assert made[name].keys() == SCORES[name].keys()
        assert wb.load(tmp_path / "minis" / name, device="cpu").objective
    results = tmp_path / "minis" / shipped.RESULTS
    assert sorted(path.name for path in results.iterdir()) == sorted(each.name for each in few)
    models = {facts["name"] for facts in Run(results / "similarity-mini").provenance["models"]}
    assert models == {*MINI}
    assert str(tmp_path) not in (results / "similarity-mini" / "spec.json").read_text()
    stored = json.loads(run("--json"))  # trained already
    assert {name: model["run"] for name, model in stored["models"].items()} == {
        name: model["run"] for name, model in made.items()
    }
    assert not list(tmp_path.glob(".minis*"))


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["mini", "--time-budget", "soon"], "budget"),
        (["mini", "--time-budget", "0"], "budget"),
        (["mini", "--time-budget", "-5m"], "budget"),
        (["mini", "--steps", "5"], "does not take steps"),
        (["mini-more", "--corpus", "primer"], "own corpus"),
        (["mini", "--model", "mini:bert"], "own corpus"),
        (["novels"], "need a text"),
        (["mini", "--out", "."], "folder-exists"),
        (["mini", "--out", "no/such/place"], "no such folder"),
    ],
)
def test_what_makes_no_sense_is_refused_at_once(
    more: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["workbench", "train", *more])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()


def test_mini_elmo_writes_the_originals_weights_which_it_ships_without(
    models: Any, tmp_path: Path
) -> None:
    """They would be in the repository twice; `elmo:OPTIONS,WEIGHTS` opens what is written."""
    pytest.importorskip("h5py")
    assert not (HOME / "elmo" / "weights.hdf5").exists()
    models["elmo"].save(tmp_path / "elmo")
    files = [str(tmp_path / "elmo" / name) for name in ("options.json", "weights.hdf5")]
    original = wb.load(f"elmo:{','.join(files)}", device="cpu")
    batch = encode(read("primer").docs("test", 5))
    one, other = (
        model.forward(model.encode(batch)).hidden["encoder"] for model in (models["elmo"], original)
    )
    for mine, theirs in zip(one, other, strict=True):
        np.testing.assert_allclose(mine.detach(), theirs.detach(), atol=1e-6)


# --- the documentation ----------------------------------------------------------------------------


def shown(refs: tuple[str, ...], every: dict[str, Any]) -> str:
    """A table of the documentation, from the scores."""
    lines = [
        "| model | parameters | measure | model's | trigrams' | pairs right | of agreement "
        "| relations |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for ref in refs:
        found, measure = every[ref[5:]], shipped.measure_of(ref[5:])
        form = ".1%" if measure == "accuracy" else ".2f"
        scores = found["scores"][measure]
        cells = [
            f"`{ref}`",
            f"{found['parameters']:,}",
            measure,
            format(scores["model"], form),
            format(scores["trigram"], form),
            f"{found['pairs']['all']:.1%}",
            f"{found['pairs']['agreement']:.1%}",
            str(len(found["relations"])) if "relations" in found else "",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def test_the_documentation_has_their_scores() -> None:
    page = Path(__file__).parents[3] / "docs" / "guides" / "prediction.md"
    more = json.loads((HOME.parent / "mini-more" / shipped.SCORES).read_text())
    assert shown(MINI, SCORES) in page.read_text()
    assert shown(MORE, more) in page.read_text()
