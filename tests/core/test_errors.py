"""The one error a user meets."""

import ast
import pickle
from pathlib import Path

from workbench.core.errors import WorkbenchError, did_you_mean, missing_package


def test_message_says_where_what_and_remedy() -> None:
    error = WorkbenchError(
        "two columns, not ten.", code="column-missing", where="a.conllu:7", remedy="Mend line 7."
    )
    assert str(error) == "a.conllu:7: two columns, not ten. [column-missing]\n  Mend line 7."


def test_message_without_place_is_what_was_wrong_and_the_remedy() -> None:
    error = WorkbenchError("limit is -1.", remedy="Say at least 1.")
    assert str(error) == "limit is -1. [invalid-input]\n  Say at least 1."


def test_error_survives_the_way_between_processes() -> None:
    error = WorkbenchError("what", code="a-code", where="where", remedy="remedy")
    again = pickle.loads(pickle.dumps(error))
    assert (again.what, again.code, again.where) == ("what", "a-code", "where")
    assert again.remedy == "remedy"
    assert str(again) == str(error)


def test_near_name_is_suggested() -> None:
    assert did_you_mean("tets", ["train", "test"]) == "Did you mean 'test'? Known: test, train."


def test_far_name_gets_all_there_are() -> None:
    assert did_you_mean("xyz", ["train", "test"]) == "Known: test, train."
    assert did_you_mean("xyz", []) == "No names are known."
    assert did_you_mean("--effort", ["--set"]) == "Known: --set.", "dashes are no likeness"


def test_missing_package_names_the_command() -> None:
    assert "pip install datasets" in str(missing_package("datasets", "Reading from the hub"))


def test_many_names_are_cut_and_say_how_many_more() -> None:
    said = did_you_mean("xyz", (f"n{number:04}" for number in range(2012)))
    assert said.startswith("Known: n0000, n0001, ")
    assert said.endswith("n0011, … and 2,000 more.")


def test_names_cannot_steer_the_terminal() -> None:
    assert did_you_mean("xyz", ["a\x1b[2Jb\n", "\udcff", "naïve"]) == (
        "Known: a\\x1b[2Jb\\n, naïve, \\udcff."
    )


def errors_without_code() -> list[str]:
    """Every call of `WorkbenchError`, or of a subclass' `super().__init__`, that names no code."""
    root = Path(__file__).parents[2]
    sites = []
    for path in sorted((root / "workbench").rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        if "WorkbenchError" not in source and "remedy" not in source:
            continue  # neither of the calls is there
        for call in (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)):
            called = call.func.attr if isinstance(call.func, ast.Attribute) else ""
            called = call.func.id if isinstance(call.func, ast.Name) else called
            keywords = {keyword.arg for keyword in call.keywords}
            is_error = called == "WorkbenchError" or (called == "__init__" and "remedy" in keywords)
            if is_error and not keywords & {"code", None}:
                sites.append(f"{path.relative_to(root)}:{call.lineno}")
    return sites


def test_every_error_has_a_code() -> None:
    assert errors_without_code() == []
