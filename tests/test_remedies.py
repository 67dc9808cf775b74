"""Every error that a user can meet says what to do; mypy proves that a remedy is given at all."""

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from workbench import WorkbenchError
from workbench.corpora.readers.conllu import LineError

ROOT = Path(__file__).resolve().parents[1]
FILES = [
    ROOT / "streamlit_app.py",
    *(path for part in ("workbench", "pages") for path in (ROOT / part).rglob("*.py")),
]
BY_PLACE = {"Failure": 2, "LineError": 2, "Fault": 2, "Need": 2, "_CellError": 1}  # not by name
NAMED = re.compile("|".join(["remedy", "WorkbenchError", *BY_PLACE]))  # in the text of any of them


def empty_remedies(source: str) -> Iterator[tuple[int, str]]:
    """Line and code of each remedy that is, or may be, an empty text."""
    for node in ast.walk(ast.parse(source)) if NAMED.search(source) else ():
        given: list[ast.expr | None] = []
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else None
            name = node.func.id if isinstance(node.func, ast.Name) else name
            given += [word.value for word in node.keywords if word.arg == "remedy"]
            given += node.args[(place := BY_PLACE.get(name or "", 99)) : place + 1]
            if name in ("Failure", "WorkbenchError") and not given and not _spread(node):
                yield node.lineno, f"{name} without a remedy"
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(isinstance(target, ast.Name) and "remedy" in target.id for target in targets):
                given.append(node.value)
        for value in given:
            if value is not None and _may_be_empty(value):
                yield node.lineno, ast.unparse(value)


def _spread(call: ast.Call) -> bool:
    return any(word.arg is None for word in call.keywords)


def _may_be_empty(value: ast.expr) -> bool:
    """Whether one of the texts that this can be is empty."""
    if isinstance(value, ast.IfExp):
        return _may_be_empty(value.body) or _may_be_empty(value.orelse)
    if isinstance(value, ast.BoolOp):
        return any(map(_may_be_empty, value.values))
    return isinstance(value, ast.Constant) and not str(value.value or "").strip()


def test_no_remedy_in_the_sources_is_empty() -> None:
    assert len(FILES) > 200
    found = [
        f"{path.relative_to(ROOT)}:{line}: {code}"
        for path in FILES
        for line, code in empty_remedies(path.read_text("utf-8"))
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "source",
    [
        "raise WorkbenchError('it is wrong.')",
        "raise errors.WorkbenchError('it is wrong.', where='here')",
        "raise WorkbenchError('it is wrong.', remedy='')",
        "raise WorkbenchError('it is wrong.', remedy=f'Do {it}.' if it else '')",
        "raise WorkbenchError('it is wrong.', remedy=it or ' ')",
        "remedy = ''",
        "remedy: str = ''",
        "Failure('it is wrong.')",
        "LineError(1, 'it is wrong.', '')",
    ],
)
def test_what_the_check_finds(source: str) -> None:
    assert list(empty_remedies(source))


@pytest.mark.parametrize(
    "source",
    [
        "raise WorkbenchError('it is wrong.', remedy='Mend it.')",
        "raise WorkbenchError('it is wrong.', remedy=f'Try {\", \".join(names)}.')",
        "LineError(1, 'it is wrong.', 'Mend it.')",
    ],
)
def test_what_the_check_lets_pass(source: str) -> None:
    assert not list(empty_remedies(source))


@pytest.mark.parametrize("kind", [WorkbenchError, LineError])
def test_a_remedy_must_be_given(kind: type[Exception]) -> None:
    assert inspect.signature(kind).parameters["remedy"].default is inspect.Parameter.empty
