"""The same question is the same run, answered from disk; another question is another run."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import plotly.io
import pytest

from tests.models import headed, zoo
from tests.runs.conftest import Asking, contents, done
from workbench import experiments, load, read
from workbench.runs import api, launch, status
from workbench.runs.execute import open_inputs
from workbench.runs.launch import remove
from workbench.runs.model_facts import _check
from workbench.runs.request import make_request
from workbench.runs.subruns import in_process

SENTENCES = """\
# text = Dogs bark.
1\tDogs\tdog\tNOUN\tNNS\t_\t2\tnsubj\t_\t_
2\tbark\tbark\tVERB\tVBP\t_\t0\troot\t_\tSpaceAfter=No
3\t.\t.\tPUNCT\t.\t_\t2\tpunct\t_\t_

"""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    return headed.saved(zoo.make("bert", folder / "bare"), "BertForMaskedLM", folder / "tiny")


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "dogs-dev.conllu"
    path.write_text(SENTENCES * 3)
    return path


def test_the_same_question_is_answered_from_disk(asking: Asking) -> None:
    first = done(asking(), share=True)
    began = first.status
    assert launch.start(asking()).path == first.path
    assert first.status == began, "nothing was computed again"
    assert started(first) == 1


def started(run: launch.Run) -> int:
    return sum(
        e["kind"] == "state" and e["state"] == "running" for e in status.read_events(run.path)[0]
    )


def test_every_part_of_a_question_is_in_its_name(
    asking: Asking, model: Path, corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def name(models: tuple[Path, ...] = (model,), **how: object) -> str:
        return make_request("profile", models, [corpus], **how).spec.name  # type: ignore[arg-type]

    names = [
        name(),
        name(precision="bf16"),
        name(seed=1),
        name(settings={"pseudo_likelihood": True}),
        name(settings={"max_sentences": 2}),
        name(split="dev"),
        make_request("profile", [model]).spec.name,
        make_request("describe", [], [corpus]).spec.name,
        make_request("describe", [], [corpus], reading={"unit": "document"}).spec.name,
        make_request("describe", [], ["primer:size=100"]).spec.name,
        make_request("describe", [], ["primer:size=100,seed=1"]).spec.name,
        make_request("profile", [f"{model}@random"], [corpus]).spec.name,
        make_request("profile", [f"{model}@random"], [corpus], seed=1).spec.name,
    ]
    changed = bytearray(corpus.read_bytes())
    changed[len(changed) // 2] ^= 1
    corpus.write_bytes(changed)
    names.append(name())
    profile = experiments()["profile"]
    monkeypatch.setattr(
        "workbench.analyses.basics.experiments.PROFILE", replace(profile, version=2)
    )
    names.append(name())
    # the split that is looked at by itself is the one named above
    assert names[0] == names.pop(5)
    assert len(set(names)) == len(names)


def test_other_weights_are_another_run(model: Path, corpus: Path, tmp_path: Path) -> None:
    other = tmp_path / "tiny"
    shutil.copytree(model, other)
    same = make_request("profile", [model], [corpus]).spec.name
    assert make_request("profile", [other], [corpus]).spec.name == same
    weights = bytearray((other / "model.safetensors").read_bytes())
    weights[-1] ^= 1
    (other / "model.safetensors").write_bytes(weights)
    assert make_request("profile", [other], [corpus]).spec.name != same


def test_the_same_content_under_another_name_is_the_same_run(
    model: Path, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    moved, renamed = tmp_path / "elsewhere" / "cats-dev.conllu", tmp_path / "renamed"
    moved.parent.mkdir()
    shutil.copy(corpus, moved)
    renamed.symlink_to(model)
    names = {
        make_request("profile", [m], [c]).spec.name
        for m in (model, renamed)
        for c in (corpus, moved)
    }
    monkeypatch.chdir(model.parent)
    names.add(make_request("profile", ["tiny"], [corpus]).spec.name)
    names.add(make_request("profile", [load(model)], [read(moved)]).spec.name)
    assert len(names) == 1


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("dogs-dev.conllu", "dogs-test.conllu"),  # another split
        ("srl-ewt.train.jsonl", "ner-ewt.train.jsonl"),  # another layer
    ],
)
def test_names_of_files_that_readers_heed_tell_runs_apart(
    one: str, other: str, tmp_path: Path
) -> None:
    edges = '{"text": "Dogs bark", "targets": [{"span1": [0, 1], "span2": [1, 2], "label": "x"}]}\n'
    found = set()
    for name in (one, other):
        (tmp_path / name).write_text(SENTENCES if name.endswith("u") else edges)
        found.add(make_request("describe", [], [tmp_path / name]).spec.name)
    assert len(found) == 2


def test_settings_are_the_same_as_text_and_as_values(asking: Asking) -> None:
    text = asking(steps="7", layers="1,2", loud="yes", words="b,a,c,d", most="1")
    values = asking(steps=7, layers=[1, 2], loud=True, words={"d", "c", "b", "a"}, most=1.0)
    assert text.name == values.name and text.settings["words"] == ["a", "b", "c", "d"]


@pytest.mark.slow
def test_a_forked_and_a_new_process_leave_the_same_bytes(
    model: Path, corpus: Path, request: pytest.FixtureRequest
) -> None:
    asked = [
        ("profile", {"max_sentences": 3}),
        ("attention-averages", {}),
        ("head-importance", {}),
        ("edge-probing", {"tasks": ("pos",), "effort": "quick"}),
    ]

    def left(experiment: str, settings: dict[str, object]) -> dict[str, bytes]:
        run = api.run(experiment, model=str(model), corpus=str(corpus), **settings)
        assert not run.status.guest
        found = contents(run)
        remove(run)
        return found

    forked = [left(*each) for each in asked]
    request.getfixturevalue("fresh_workers")
    assert [left(*each) for each in asked] == forked and all(forked)


def test_a_process_of_its_own_and_this_one_leave_the_same_bytes(
    model: Path, corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(model.parent)
    its_own = api.run("profile", model="tiny", corpus=corpus, max_sentences=3)
    before = contents(its_own)
    remove(its_own)
    monkeypatch.setattr(plotly.io.templates, "default", "ggplot2")  # as a program around may have
    here = api.run("profile", model=load("tiny"), corpus=read(corpus), max_sentences=3)
    assert here.path == its_own.path and here.status.guest
    assert contents(here) == before and "tables/losses.parquet" in before
    again = api.run("profile", model="tiny", corpus=corpus, max_sentences=3)
    assert again.status == here.status, "answered from what was computed here"


def test_a_model_that_changes_between_asking_and_running_is_not_answered_for(
    model: Path, corpus: Path, tmp_path: Path
) -> None:
    mine = tmp_path / "mine"
    shutil.copytree(model, mine)
    asked = make_request("profile", [mine], [corpus], {"max_sentences": 1}).spec
    swap_last_byte(mine / "model.safetensors")
    run = launch.start(asked, compute=in_process(open_inputs))
    failure = run.status.failure
    assert failure and "model has changed" in failure.what and failure.kind == "input"


def test_a_corpus_that_changes_while_it_is_read_is_not_answered_for(
    corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    question = make_request("describe", [], [corpus])
    describe = question.experiment.run

    def slow(*inputs: object) -> object:
        found = describe(*inputs)  # type: ignore[arg-type]
        swap_last_byte(corpus)
        return found

    monkeypatch.setattr(
        "workbench.analyses.basics.experiments.DESCRIBE", replace(question.experiment, run=slow)
    )
    run = launch.start(
        question.spec, compute=in_process(lambda asked, told: ((), question.corpora))
    )
    assert run.status.state == "failed" and run.status.failure is not None
    assert "corpus changed while the run read them" in run.status.failure.what


def swap_last_byte(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


Damage = Callable[[Path], object]
DAMAGES: dict[str, Damage] = {
    "cut short": lambda path: path.write_bytes(path.read_bytes()[:40]),
    "empty": lambda path: path.write_bytes(b""),
    "another hash": lambda path: path.write_text(
        path.read_text().replace('_hash": "', '_hash": "0')
    ),
    "another format": lambda path: path.write_text('{"hash": 5, "facts": []}'),
    "a list": lambda path: path.write_text("[1]"),
    "no text": lambda path: path.write_bytes(b"\xff\xfe\x00"),
}


def test_what_is_kept_of_models_is_not_believed_when_damaged(model: Path, tmp_path: Path) -> None:
    asked = make_request("profile", [model]).spec.name
    (kept,) = (tmp_path / "home" / "known").iterdir()
    for name, damage in DAMAGES.items():
        damage(kept)
        assert make_request("profile", [model]).spec.name == asked, name


def test_a_forged_hash_gives_no_answer(model: Path, tmp_path: Path) -> None:
    """Whoever writes into the cache, with its check, still gets no answer under a wrong name."""
    make_request("profile", [model])
    (kept,) = (tmp_path / "home" / "known").iterdir()
    facts = json.loads(kept.read_text())["facts"] | {"content_hash": "0" * 32}
    kept.write_text(json.dumps({"facts": facts, "check": _check(facts)}))
    run = launch.start(make_request("profile", [model]).spec, compute=in_process(open_inputs))
    assert run.status.state == "failed" and "changed" in run.status.failure.what  # type: ignore[union-attr]
