"""A kind of model that nobody thought of is one file: every experiment takes it or says why not."""

import ast
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import workbench as wb
from tests.models.bag_of_embeddings import BagOfEmbeddings, TrainableBag
from tests.night import mostly
from workbench import Model, WorkbenchError
from workbench.experiment.definition import built_in_experiments

PRIMER, SENTIMENT = "primer:size=40", "primer/sentiment:size=40"
FEW: dict[str, Any] = {"max_train": 20, "max_dev": 10, "max_test": 10}
QUICK: dict[str, Any] = {**FEW, "seeds": (0,), "max_epochs": 1, "learning_rates": (1e-2,)}
# The request to each experiment: a corpus, and settings that keep it small.
REQUESTS: dict[str, tuple[str, dict[str, Any]]] = {
    "attention-averages": (PRIMER, {}),
    "attention-probe": (PRIMER, {}),
    "attribution": (PRIMER, {}),
    "describe": (PRIMER, {}),
    "contributions": (PRIMER, {}),
    "description-length": (
        PRIMER,
        {
            "tasks": ("pos",),
            "max_sentences": 20,
            "codes": ("online",),
            "max_targets": 60,
            "max_epochs": 5,
        },
    ),
    "compress": (PRIMER, {}),
    "smaller-model": (SENTIMENT, {}),
    "domain": ((PRIMER, SENTIMENT), {}),
    "distil": (PRIMER, {}),
    "drift": (PRIMER, {"max_sentences": 20}),
    "family": (PRIMER, {"max_sentences": 20, "parts": ("text", "cost")}),
    "edge-probing": (
        PRIMER,
        {"tasks": ("pos",), "effort": "quick", "max_epochs": 2, "max_sentences": 20},
    ),
    "finetune": (SENTIMENT, {"method": "fine-tuned", **QUICK}),
    "frozen-vs-finetuned": (
        SENTIMENT,
        {"tasks": ("sentiment",), "ridge_strengths": (1.0,), **QUICK},
    ),
    "geometry": (PRIMER, {"random_models": 2, "min_contexts": 3}),
    "head-ablation": (PRIMER, {}),
    "head-gates": (PRIMER, {}),
    "head-importance": (PRIMER, {}),
    "head-pruning": (PRIMER, {}),
    "erasure": (PRIMER, {}),
    "errors": (PRIMER, {}),
    "heads": (PRIMER, {}),
    "lens": (PRIMER, {}),
    "minimal-pairs": ("primer/acceptability:size=20", {}),
    "cloze": ("primer/counterfactuals:size=20", {}),
    "text-to-text": ("primer/rewrites:size=20", {}),
    "few-shot": (SENTIMENT, {}),
    "retrieve": (PRIMER, {}),
    "patching": ("primer/counterfactuals:size=20", {}),
    "neighbours": (PRIMER, {"random_models": 1, "n_permutations": 19}),
    "architectures": (PRIMER, {}),
    "recurrence": (PRIMER, {}),
    "text-length": (PRIMER, {}),
    "scaling": (PRIMER, {}),
    "pretraining": (SENTIMENT, {}),
    "profile": (PRIMER, {}),
    "similarity": (PRIMER, {"max_sentences": 20}),
    "steering": ("primer/counterfactuals:size=20", {}),
    "structural-probe": (PRIMER, {"max_sentences": 20, "seeds": (0,)}),
    "tokenization": (PRIMER, {}),
    "word-vectors": (PRIMER, {"min_count": 1, "min_pairs": 2, "n_shuffles": 20}),
    "train": (PRIMER, {"family": "bert"}),
    "trigram": (PRIMER, {}),
    "tuned-lens": (PRIMER, {}),
}
# Those that refuse a model without heads, or without a head that predicts, whatever else it does.
REFUSES = {
    "compress": "attention heads",
    "errors": "attention heads",
    "smaller-model": "attention heads",
    "domain": "family",
    "attention-averages": "attention heads",
    "attention-probe": "attention heads",
    "attribution": "language-model head",
    "contributions": "language-model head",
    "distil": "language-model head",
    "describe": "no model",
    "head-ablation": "attention heads",
    "head-gates": "attention heads",
    "head-importance": "attention heads",
    "head-pruning": "attention heads",
    "erasure": "language-model head",
    "heads": "attention heads",
    "lens": "language-model head",
    "cloze": "language-model head",
    "text-to-text": "language model that writes",
    "few-shot": "language-model head",
    "retrieve": "language model that writes",
    "minimal-pairs": "language-model head",
    "patching": "language-model head",
    "architectures": "no model",
    "recurrence": "no model",
    "text-length": "no model",
    "scaling": "no model",
    "pretraining": "no model",
    "steering": "language-model head",
    "train": "family bert",
    "trigram": "language-model head",
    "tuned-lens": "language-model head",
}
# Those that ask for what a model need not do, and what the protocol says where it does not.
LACKS = {
    "description-length": "random weights",
    "drift": "names of its weights",
    "edge-probing": "random weights",
    "finetune": "be copied",
    "frozen-vs-finetuned": "be copied",
    "similarity": "random weights",
    "structural-probe": "random weights",
}


@pytest.fixture(autouse=True)
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, undrawn: None) -> None:
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("WORKBENCH_RUNS", str(tmp_path / "runs"))


def answer(experiment: str, model: Any, **other: Any) -> Any:
    corpus, settings = REQUESTS[experiment]
    both = [model, type(model)(1, "other")] if experiment in ("drift", "family") else model
    return wb.run(experiment, model=both, corpus=corpus, device="cpu", **{**settings, **other})


def test_every_experiment_is_covered() -> None:
    """An experiment that is new here is taken or refused too: say which."""
    assert set(built_in_experiments()) == set(REQUESTS), "write a request to each in REQUESTS"
    takes = {"family", "geometry", "neighbours", "profile", "tokenization", "word-vectors"}
    assert set(REFUSES) | set(LACKS) == set(REQUESTS) - takes, "name it in REFUSES or LACKS"


TAKES = sorted(set(REQUESTS) - set(REFUSES))
AT_NIGHT = {  # by day tests below fine-tune and probe such a model
    "frozen-vs-finetuned", "finetune", "edge-probing", "structural-probe", "description-length",
    "neighbours", "drift", "profile", "similarity",
}  # fmt: skip


@pytest.mark.parametrize("experiment", mostly(TAKES, *(set(TAKES) - AT_NIGHT)))
def test_what_needs_states_and_weights_takes_the_model(experiment: str) -> None:
    found = answer(experiment, TrainableBag())
    assert found.tables and all(len(table.columns) for table in found.tables.values())


@pytest.mark.parametrize("experiment", sorted(REFUSES))
def test_what_needs_heads_or_predictions_refuses_it_with_the_reason(experiment: str) -> None:
    with pytest.raises(WorkbenchError, match=REFUSES[experiment]) as error:
        answer(experiment, TrainableBag())
    assert error.value.remedy and "bug" not in str(error.value)


@pytest.mark.parametrize("experiment", sorted(LACKS))
def test_what_a_model_does_not_write_is_refused_in_one_way(experiment: str) -> None:
    with pytest.raises(WorkbenchError, match=LACKS[experiment]) as error:
        answer(experiment, BagOfEmbeddings())
    assert "bag" in str(error.value) and "bug" not in str(error.value) and error.value.remedy


def test_one_layer_is_written_as_one() -> None:
    assert "encoder of 1 layer; width" in repr(BagOfEmbeddings())


def test_states_that_are_no_numbers_are_refused() -> None:
    model = BagOfEmbeddings()
    model.table[:, 0] = float("nan")
    for experiment in ("geometry", "neighbours", "edge-probing"):
        with pytest.raises(WorkbenchError, match="not a number") as error:
            answer(
                experiment,
                model,
                **({} if experiment != "edge-probing" else {"random_baseline": False}),
            )
        assert error.value.code == "model-unreadable"


def test_a_model_of_nothing_but_states_is_described_probed_and_compared() -> None:
    model = BagOfEmbeddings()
    assert answer("profile", model).tables["modules"].to_dict("list") == {
        "module": ["all"], "parameters": [model.parameters],
    }  # fmt: skip
    probed = answer("edge-probing", model, random_baseline=False).tables["scores"]["encoder"]
    assert {"model", "static"} <= set(probed) and "random" not in set(probed)
    compared = answer("similarity", [model, BagOfEmbeddings(1, "other")])
    assert len(compared.tables) > 1


def test_a_model_that_cannot_be_saved_is_fine_tuned_and_not_kept() -> None:
    class Unsaved(TrainableBag):
        save = Model.save

        def copy(self, in_fp32: bool = False) -> "Unsaved":
            own = Unsaved(name=self.name)
            own.table, own.mix = self.table.detach().clone(), self.mix.detach().clone()
            return own

    found = answer("finetune", Unsaved())
    assert any("cannot be saved" in caveat.text for caveat in found.caveats)
    assert (found.tables["scores"]["trainable"] > 0).all()


def test_fine_tuning_moves_a_copy_and_never_the_model_itself() -> None:
    model = TrainableBag()
    before = {name: weights.clone() for name, weights in model.named_weights().items()}
    found = answer("finetune", model)
    head = found.tables["scores"]["trainable"].iloc[0] - model.parameters
    assert head > 0, "all its weights learn, and those of the head"
    for name, weights in model.named_weights().items():
        assert torch.equal(before[name], weights), name


def test_drift_names_the_layer_that_was_changed() -> None:
    before, after = TrainableBag(), TrainableBag(name="moved")
    after.mix += 0.1
    found = wb.run("drift", model=[before, after], corpus=PRIMER, max_sentences=20, device="cpu")
    moved = found.tables["drift"].set_index("layer")["weight_distance"]
    assert moved[0] == 0 < moved[1]
    assert not np.isnan(moved).any()


def test_a_method_that_puts_parts_between_blocks_refuses_a_model_without_them() -> None:
    with pytest.raises(WorkbenchError, match="cannot be adapted with lora"):
        answer("finetune", TrainableBag(), method="lora")
    with pytest.raises(WorkbenchError, match="bias weights"):
        answer("finetune", TrainableBag(), method="bitfit")


KINDS = {"HuggingFace", "WordModel", "BiLM", "Elmo", "Vectors"}
ASKS = {"isinstance", "issubclass", "hasattr", "getattr", "type"}


def questions(source: str) -> list[str]:
    """Calls by which a source asks of what class a model is, or what attributes it has."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name) or not node.args:
            continue
        if node.func.id not in ASKS:
            continue
        first = ast.unparse(node.args[0]).split(".")[-1]
        named = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
        if first == "model" or named & KINDS:
            found.append(ast.unparse(node))
    return found


def call_at(source: str, start: int) -> str:
    """The call that begins there: up to the first bracket with which it is complete."""
    for end in re.finditer(r"\)", source[start:]):
        try:
            ast.parse(call := source[start : start + end.end()], mode="eval")
        except SyntaxError:
            continue
        return call
    return ""


@pytest.mark.parametrize(
    "source",
    [
        "isinstance(model, HuggingFace)",
        "isinstance(x, WordModel | str)",
        "hasattr(self.model, 'net')",
        "isinstance(list(x), (str, Elmo))",
    ],
)
def test_a_question_of_class_is_found(source: str) -> None:
    assert questions(source)
    assert call_at(f"if {source} and (y or z()):", 3) == source


def test_outside_their_room_nothing_asks_of_what_class_a_model_is() -> None:
    root = Path(wb.__file__).parent
    outside = [path for path in root.rglob("*.py") if root / "models" not in path.parents]
    assert len(outside) > 100
    asks = re.compile(rf"\b({'|'.join(ASKS)})\(")
    of_models = re.compile(rf"\bmodel\s*[,)]|\b({'|'.join(KINDS)})\b")
    found: dict[str, str] = {}
    for path in outside:
        source = path.read_text("utf-8")
        for call in asks.finditer(source):  # most of the time goes into trees
            if of_models.search(source, call.end(), call.end() + 400):
                found |= dict.fromkeys(questions(call_at(source, call.start())), str(path))
    assert not found
