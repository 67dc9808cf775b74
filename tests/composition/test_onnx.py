"""Models as ONNX: the same logits for any number of texts and pieces, or a true refusal."""

import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import workbench as wb
from tests.composition.test_elsewhere import opened
from workbench import WorkbenchError
from workbench.engine.task import Task
from workbench.models import head_removal
from workbench.models.output_heads.standard_heads import with_standard_head

MISSING = "onnx is not installed: pip install 'lm-workbench[onnx]' onnxruntime"
TASK = Task("verdict", "class", "verdict", ("bad", "good"), False, "accuracy")
TEXTS = (["Ben walks"], ["Ann saw a dog .", "Ben", "The old tree and the hill ."])


def test_the_missing_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(WorkbenchError, match=r"workbench\[onnx\]"):
        wb.export_model(wb.load("mini:bert", device="cpu"), tmp_path / "out", "onnx")
    assert not list(tmp_path.iterdir())


def test_what_the_exporter_cannot_write_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*args: Any, **named: Any) -> None:
        raise RuntimeError("data-dependent branch\nat some line")

    monkeypatch.setattr("importlib.util.find_spec", lambda name: object())
    monkeypatch.setattr(torch.onnx, "export", fails)
    with pytest.raises(WorkbenchError, match="data-dependent branch"):
        wb.export_model(wb.load("mini:bert", device="cpu"), tmp_path / "out", "onnx")
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["mini:bert", "mini:gpt", "classifier", "pruned classifier", "distilbert"]
)
def test_logits_are_equal(name: str, tmp_path: Path) -> None:
    onnxruntime = pytest.importorskip("onnxruntime", reason=MISSING)
    pytest.importorskip("onnxscript", reason=MISSING)
    model: Any = wb.load(name if name.startswith("mini:") else "mini:bert", device="cpu")
    if name == "distilbert":  # reads no segments, though its tokenizer gives them
        model = with_standard_head(opened(name, tmp_path / name), TASK, seed=0)
    if "classifier" in name:
        model = with_standard_head(model, TASK, seed=0)
    if "pruned" in name:
        model = head_removal.without(model, [(0, 0), (2, 1), (2, 3)])
    wb.export_model(model, tmp_path / "out", "onnx")
    session = onnxruntime.InferenceSession(str(next((tmp_path / "out").glob("*.onnx"))))
    for texts in TEXTS:
        read = model.tokenizer(texts, padding=True, return_tensors="pt")
        names = [each.name for each in session.get_inputs()]
        found = torch.tensor(session.run(None, {each: read[each].numpy() for each in names})[0])
        with torch.no_grad():
            expected = model.net(**{each: read[each] for each in names}).logits
        real = read["attention_mask"].bool()
        if expected.ndim == 3:
            found, expected = found[real], expected[real]
        torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-4)
