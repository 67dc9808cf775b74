"""The one error a user meets."""

import ast
import pickle
import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import workbench
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


CALLS = (re.compile(r"WorkbenchError\("), re.compile(r"__init__\("))


def calls_of(source: str) -> Iterator[re.Match[str]]:
    """Where a call may begin, outside definitions and examples in docstrings."""
    for found in chain.from_iterable(call.finditer(source) for call in CALLS):
        before = source[: found.start()].rpartition("\n")[2].split()
        if not before or (before[-1] not in ("class", "def") and before[0] not in (">>>", "...")):
            yield found


def calls_without_code(source: str) -> list[int]:
    """Lines of calls of `WorkbenchError`, or of a subclass' `super().__init__`, that name no code.

    Only the calls are parsed: whole files take ten times as long.
    """
    lines = []
    for found in calls_of(source):
        for end in re.finditer(r"\)", source[found.end() :]):
            try:
                call = ast.parse(source[found.start() : found.end() + end.end()], mode="eval").body
            except SyntaxError:  # a bracket within the call
                continue
            keywords = {keyword.arg for keyword in call.keywords}  # type: ignore[attr-defined]
            is_error = found.group().startswith("Workbench") or "remedy" in keywords
            if is_error and not keywords & {"code", None}:
                lines.append(source.count("\n", 0, found.start()) + 1)
            break
    return lines


def test_every_error_has_a_code() -> None:
    root = Path(workbench.__file__).parent
    sources = {path: path.read_text(encoding="utf-8") for path in root.rglob("*.py")}
    assert sum(source.count("WorkbenchError(") for source in sources.values()) > 500
    assert not {path: found for path in sources if (found := calls_without_code(sources[path]))}


def test_a_call_without_a_code_is_found() -> None:
    bad = 'x = 1\nraise WorkbenchError(\n    f"no ) {len(x)}.", remedy="Write one."\n)\n'
    good = 'super().__init__(what, code="a-code", remedy=(remedy))\nWorkbenchError(**facts)\n'
    other = "super().__init__()\ndef __init__(self, remedy: str) -> None: ...\n"
    assert calls_without_code(good + other + bad) == [6]
    assert calls_without_code("super().__init__(what, remedy=remedy)") == [1]
