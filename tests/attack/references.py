"""References of models with edits, lessons, and saved selections of runs, changed at random.

A reference is opened and its predictions are computed; an edit that can be read is written the
same way again, and means the same. Lessons and selections are stored and read again. Costs
milliseconds, and a forward pass for a reference that opens.
"""

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

from tests.attack.mutations import ODD_TEXTS, changed, json_bytes

MODELS = ("mini:bert", "mini:gpt", "mini:t5", "mini:elmo")
PLACES = ("1", "2.3", "4.mlp", "1.attention", "3.cross", "2.cross.1", "1.n7", "decoder.2.1", "0")
PLACES += ("9.9", "1.n99999", "embeddings.steering-0", "2.steering-0.3", "2.3.4", "decoder.1.cross")
VALUES = ("0", "0.5", "2", "mean", "-1", "1", "1e5", "nan", "99999999", "", "0.1234567", "=")
_words: dict[str, Any] = {}


def prepare(folder: Path) -> None:
    """A built-in lesson, and what is known of the models."""
    from workbench.app.frame import lessons
    from workbench.runs.model_facts import known

    mine = lessons.HEADS.model_copy(update={"title": "Mine"})  # no other name may be stored
    _words["lesson"] = json.loads(mine.model_dump_json())
    for name in MODELS:
        known(name)


def case(draw: random.Random, folder: Path) -> tuple[str, Callable[[], object]]:
    """A reference, a lesson or a file of saved selections."""
    match draw.choice(["reference", "reference", "lesson", "saved"]):
        case "lesson":
            content = json_bytes(draw, _words["lesson"])
            return "lesson", lambda: _lesson(content)
        case "saved":
            sound = {"mine": {"text": "x", "tags": ["a"]}, "two": {"runs": ["describe-0", "b"]}}
            content, name = json_bytes(draw, sound), draw.choice(ODD_TEXTS)
            return "saved", lambda: _saved(folder, content, name)
    reference = _reference(draw)
    return "reference", lambda: _opened(reference)


def _reference(draw: random.Random) -> str:
    terms = [
        f"{draw.choice(PLACES)}={draw.choice(VALUES[:6] if draw.random() < 0.7 else VALUES)}"
        for _ in range(draw.choice([1, 1, 2, 3, 300 if draw.random() < 0.05 else 1]))
    ]
    suffix = f"{'@random' * (draw.random() < 0.2)}@edit:{','.join(terms)}"
    whole = f"{draw.choice(MODELS)}{suffix}{suffix * (draw.random() < 0.05)}"
    if draw.random() < 0.3:
        return changed(draw, whole.encode(), 2).decode(errors="replace")
    return whole + draw.choice(ODD_TEXTS) if draw.random() < 0.1 else whole


def _opened(reference: str) -> None:
    import workbench as wb
    from workbench.models.edit_terms import terms_of, written
    from workbench.models.references import split_ref
    from workbench.runs.model_facts import known

    edit = split_ref(reference).edit
    assert terms_of(written(edit)) == terms_of(edit), "the edit is written in another way"
    assert written(written(edit)) == written(edit)
    facts = known(reference).facts
    model = wb.load(reference)
    assert facts["content_hash"] == model.content_hash, "two names of one model"
    wb.attention(model, "She saw the old ship .")


def _lesson(content: bytes) -> None:
    from workbench.app.frame import lessons

    lesson = lessons.parsed(content)
    name = lessons.write(lesson)
    assert lessons.read(name) == lesson, "another lesson is read than was stored"
    lessons.remove(name)


def _saved(folder: Path, content: bytes, name: str) -> None:
    from workbench.runs import saved

    (folder / saved.FILE).write_bytes(content)
    with patch.dict("os.environ", WORKBENCH_RUNS=str(folder)):
        kept = {**saved.read()}
        saved.write(name, saved.Saved(text="y"))
        stored = " ".join(name.split())
        assert {**saved.read()} == {**kept, stored: saved.Saved(text="y")}, "another was lost"
        saved.rename(stored, "renamed")
        saved.remove("renamed")
