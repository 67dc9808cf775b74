"""Saved models give the same logits and labels in plain transformers and peft, without Workbench.

One process opens the folders of all cases. By day a fork, and one architecture; with `-m slow` a
new process, and all of the zoo.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

import workbench as wb
from tests import warm
from tests.models import zoo
from workbench.analyses.transfer.adaptation import fitting_of
from workbench.analyses.transfer.backbone import body_of
from workbench.analyses.transfer.experiments import Sizes
from workbench.corpora.encode import encode
from workbench.engine.task import Labelling, Task
from workbench.models import added_modules, head_removal
from workbench.models.formats import peft_adapter
from workbench.models.huggingface import HuggingFace
from workbench.models.output_heads.standard_heads import (
    finish,
    has_bias,
    lacks_standard_head,
    with_standard_head,
)
from workbench.models.output_heads.task_heads import MixHead, Scale, StandardHead
from workbench.models.whole_net import require_plain

NAMES: dict[Labelling, tuple[str, ...]] = {
    "class": ("bad", "fine", "good"), "score": (), "tags": ("ADJ", "NOUN"),
    "entities": ("O", "B-PER", "I-PER"), "answers": (),
}  # fmt: skip
AUTO: dict[str, str] = {
    "class": "AutoModelForSequenceClassification", "score": "AutoModelForSequenceClassification",
    "tags": "AutoModelForTokenClassification", "entities": "AutoModelForTokenClassification",
    "answers": "AutoModelForQuestionAnswering",
}  # fmt: skip
TEXTS = ["the dog saw a small cat", "a dog"]


def task_of(kind: Labelling) -> Task:
    return Task("kind", kind, "kind", NAMES[kind], None if kind == "class" else False, "accuracy")


def opened(name: str, folder: Path) -> HuggingFace:
    model = wb.load(str(zoo.make(name, folder)), device="cpu")
    assert isinstance(model, HuggingFace)
    return model


def moved(model: HuggingFace) -> HuggingFace:
    """The model with every weight moved, so that none is as its base has it."""
    with torch.no_grad():
        for weights in model.net.parameters():
            weights += 0.02 * torch.randn_like(weights)
    return model


@dataclass
class Case:
    """A folder, and the logits of ours that it must give elsewhere."""

    folder: Path
    auto: str
    logits: torch.Tensor
    inputs: dict[str, Any]
    labels: Sequence[str] = ()
    problem: str | None = None
    base: Path | None = None
    pad: int = 0  # the id of padding, which a decoder's base may lack


def case_of(model: HuggingFace, folder: Path, auto: str, **more: Any) -> Case:
    """Our logits for two texts, as the net gets them."""
    text = model.encode(encode(_docs()))
    inputs = {"input_ids": text.ids.tolist(), "attention_mask": text.mask.long().tolist()}
    if text.segments is not None:
        inputs["token_type_ids"] = text.segments.tolist()
    if model.two_sided:
        shifted = model.texts_of(text)["decoder"]
        inputs["decoder_input_ids"] = shifted.ids.tolist()
        inputs["decoder_attention_mask"] = shifted.mask.long().tolist()
    with torch.no_grad():
        logits = model.forward(text, logits=True, hidden=False).logits
    assert logits is not None
    return Case(folder, auto, logits, inputs, **more)


def _docs() -> list[Any]:
    from spacy.tokens import Doc

    from workbench.corpora.layers import vocabulary

    return [Doc(vocabulary("en"), words=text.split()) for text in TEXTS]


def elsewhere(cases: Sequence[Case], is_forked: bool = False) -> list[dict[str, Any]]:
    """What plain transformers and peft make of the folders, in a process without Workbench.

    With `is_forked` from a process that has imported transformers, which is quicker.
    """
    given = [
        {
            "auto": case.auto,
            "folder": str(case.folder),
            "inputs": case.inputs,
            **_of_adapter(case),
        }
        for case in cases
    ]
    script = Path(__file__).with_name("elsewhere.py")
    if is_forked:
        return _forked(script.read_text("utf-8"), json.dumps(given))
    done = subprocess.run(
        [sys.executable, "-I", str(script)], input=json.dumps(given), capture_output=True,
        text=True, cwd="/", timeout=300,
    )  # fmt: skip
    assert not done.returncode, done.stderr[-2000:]
    answers: list[dict[str, Any]] = json.loads(done.stdout)
    return answers


def _forked(script: str, given: str) -> list[dict[str, Any]]:
    """What it prints in a fork that has forgotten Workbench, and cannot import it again."""
    with (
        tempfile.NamedTemporaryFile("w+") as read,
        tempfile.TemporaryFile("w+") as output,
        tempfile.TemporaryFile("w+") as errors,
    ):
        read.write(given)
        read.flush()
        program = f"{warm.FORGETS}\nsys.stdin = open({read.name!r})\n{script}"
        process = warm.start("-c", program, output=output.fileno(), errors=errors.fileno())
        process.join()
        output.seek(0), errors.seek(0)
        assert not process.exitcode, errors.read()[-2000:]
        answers: list[dict[str, Any]] = json.load(output)
    return answers


def _of_adapter(case: Case) -> dict[str, Any]:
    """What the base of an adapter is opened with."""
    if case.base is None:
        return {}
    return {"base": str(case.base), "labels": len(case.labels), "pad": case.pad}


def agrees(case: Case, answer: dict[str, Any]) -> None:
    """The same logits to 1e-5 and the same labels, from weights that were all read."""
    assert "error" not in answer, (case.folder, answer)
    assert not answer["missing"], (case.folder, answer["missing"])
    torch.testing.assert_close(
        torch.tensor(answer["logits"]), case.logits.flatten(), atol=1e-5, rtol=1e-5,
        msg=lambda text: f"{case.folder}: {text}",
    )  # fmt: skip
    if case.labels and case.base is None:
        assert answer["labels"] == list(case.labels), case.folder
    if case.problem:
        assert answer["problem"] == case.problem, case.folder


def tuned_cases(names: Sequence[str], kinds: Sequence[Labelling], home: Path) -> list[Case]:
    """Models under standard heads, saved and opened again by us."""
    cases = []
    for name in names:
        base = opened(name, home / name)
        for kind in kinds:
            task = task_of(kind)
            if lacks_standard_head(base, task):
                continue
            model = moved(with_standard_head(base, task, 1))
            if kind == "score":
                model.task_head = StandardHead(task, Scale(3.0 * has_bias(model), 2.0))
            before = [_outputs(model)] if kind == "score" else []
            finish(model)
            folder = home / f"{name}-{kind}"
            model.save(folder)
            again = wb.load(str(folder), device="cpu")
            assert isinstance(again, HuggingFace) and again.predicts == task
            for outputs in before:
                torch.testing.assert_close(_outputs(again), outputs, atol=1e-5, rtol=1e-4)
            problem = {"class": "single_label_classification", "score": "regression"}.get(kind)
            labels = task.names or {"score": ("score",), "answers": ("start", "end")}[kind]
            cases.append(case_of(again, folder, AUTO[kind], labels=labels, problem=problem))
    return cases


def _outputs(model: HuggingFace) -> torch.Tensor:
    """Predicted scores on the scale of the corpus."""
    from workbench.models.output_heads.task_heads import segments_of

    batch = encode(_docs())
    head = model.task_head
    with torch.no_grad():
        read = head.read(model, model.encode(batch), segments_of(batch))
        return torch.tensor(head.guesses(head(read), read, []))


def pruned_cases(names: Sequence[str], home: Path) -> list[Case]:
    """Exported models without one head, and without all heads of their first layer."""
    cases = []
    for name in names:
        model = opened(name, home / name)
        if model.two_sided or model.family == "xlnet":
            head = model  # as a body
        elif lacks_standard_head(model, task_of("class")):
            continue
        else:
            head = moved(with_standard_head(model, task_of("class"), 1))
        if head is model:
            continue
        units = head_removal.units(head)
        layer = [h for unit in units for h in unit.heads if h[0] == 0]
        for what, removed in (("head", units[1].heads), ("layer", layer)):
            whole = {h for unit in units if set(unit.heads) & set(removed) for h in unit.heads}
            smaller = head_removal.without(head, whole)
            folder = home / f"{name}-without-{what}"
            result = wb.export_model(smaller, folder)
            assert result.removed_heads == len(whole) and result.shape in ("smaller", "zeros")
            labels = NAMES["class"]
            cases.append(case_of(smaller, folder, AUTO["class"], labels=labels))
    return cases


def adapter_cases(names: Sequence[str], home: Path) -> list[Case]:
    """LoRA of random updates, as an adapter on its base, opened by peft and by us."""
    cases = []
    for name in names:
        base = opened(name, home / name)
        task = task_of("class")
        if lacks_standard_head(base, task):
            continue
        body = body_of(moved_head(base, task))
        model = body.model
        assert isinstance(model, HuggingFace)
        try:
            fitting_of(body, "lora", Sizes(lora_rank=2), 0)
        except wb.WorkbenchError:
            continue  # XLNet's maps are no linear modules
        with torch.no_grad():
            for weight_name, weights in model.net.named_parameters():
                if "lora_" in weight_name:
                    weights += 0.1 * torch.randn_like(weights)
        folder = home / f"{name}-adapter"
        model.task_head = StandardHead(task)
        peft_adapter.save(model, base, folder, str(home / name))
        model.tokenizer.save_pretrained(folder)
        with torch.no_grad():
            found = case_of(model, folder, AUTO["class"], labels=task.names, base=home / name)
            found.pad = int(model.net.config.pad_token_id)
            cases.append(found)
        again = wb.load(str(folder), device="cpu")
        assert isinstance(again, HuggingFace)
        ours = case_of(again, folder, AUTO["class"]).logits
        torch.testing.assert_close(ours, cases[-1].logits, atol=1e-5, rtol=1e-5)
        assert again.classes == ("LABEL_0", "LABEL_1", "LABEL_2"), "nothing else names them"
    return cases


def moved_head(base: HuggingFace, task: Task) -> HuggingFace:
    """A standard head whose weights are not those of its initialisation; the body is the base's."""
    model = with_standard_head(base, task, 1)
    inside = set(map(id, model.net.base_model.parameters()))
    with torch.no_grad():
        for weights in model.net.parameters():
            if id(weights) not in inside:
                weights += 0.1 * torch.randn_like(weights)
    return model


def own_cases(home: Path) -> list[Case]:
    """Folders in our own format, which plain transformers must not open."""
    base = opened("bert", home / "bert")
    mixing = base.with_task_head(MixHead(task_of("class"), 2, base.width, False, Scale()))
    adapted = with_standard_head(base, task_of("class"), 0)
    added_modules.add(adapted, "adapters", 4, 0)
    prompted = with_standard_head(base, task_of("class"), 0)
    added_modules.add(prompted, "prompt", 3, 0)
    cases = []
    for number, model in enumerate((mixing, adapted, prompted)):
        folder = home / f"own-{number}"
        model.save(folder)
        again = wb.load(str(folder), device="cpu")
        assert again.predicts == task_of("class") and again.content_hash == model.content_hash
        with pytest.raises(wb.WorkbenchError, match="cannot be exported"):
            wb.export_model(again, home / f"not-{number}")
        assert not (home / f"not-{number}").exists()
        cases.append(Case(folder, AUTO["class"], torch.zeros(0), {"input_ids": [[1, 2]]}))
    return cases


def test_a_language_model_is_offered_only_where_there_is_one(tmp_path: Path) -> None:
    for base, offered in (
        (wb.load("mini:bert", device="cpu"), True),
        (opened("bert", tmp_path), False),
    ):
        head = MixHead(task_of("class"), 2, base.width, False, Scale())
        with pytest.raises(wb.WorkbenchError, match="mix of all layers") as refused:
            require_plain(base.with_task_head(head))
        assert ("language-model" in refused.value.remedy) == offered


def check(
    names: Sequence[str], kinds: Sequence[Labelling], home: Path, is_forked: bool = False
) -> None:
    torch.manual_seed(0)
    cases = tuned_cases(names, kinds, home)
    cases += pruned_cases(names, home)
    cases += adapter_cases(names, home)
    own = own_cases(home)
    answers = elsewhere([*cases, *own], is_forked)
    for case, answer in zip(cases, answers, strict=False):
        agrees(case, answer)
    for case, answer in zip(own, answers[len(cases) :], strict=True):
        assert "error" in answer, f"{case.folder} was opened: with random weights"


def test_saved_models_are_the_same_in_plain_transformers_and_peft(tmp_path: Path) -> None:
    check(("bert",), ("class", "score", "answers"), tmp_path, is_forked=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", zoo.NAMES)
def test_every_architecture_is(name: str, tmp_path: Path) -> None:
    check([name], list(NAMES), tmp_path)
