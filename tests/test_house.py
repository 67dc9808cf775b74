"""The figures of `python -m tests.house`, on checkouts small enough to count by hand."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests import house

PYPROJECT = """
[tool.importlinter]
root_packages = ["workbench"]

[[tool.importlinter.contracts]]
name = "Floors"
type = "layers"
layers = [
    "workbench.runs",
    "workbench.analyses.probes | workbench.heads",
    "workbench.models : workbench.corpora",
]

[[tool.importlinter.contracts]]
name = "Of one room"
type = "layers"
containers = ["workbench.runs"]
layers = ["door", "(disk)"]
"""


def made(folder: Path, files: Mapping[str, str]) -> Path:
    """A checkout of these files, next to the few that every checkout has."""
    always = {"workbench/__init__.py": "", "README.md": "", "pyproject.toml": PYPROJECT}
    for name, text in {**always, **files}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def imports(folder: Path, files: Mapping[str, str]) -> dict[str, set[str]]:
    return house.imports(house.Files(made(folder, files)))


# --- files and statements -------------------------------------------------------------------------


def test_statements_are_counted_without_imports_and_docstrings(tmp_path: Path) -> None:
    text = '"""A module."""\nimport os\nfrom os import path\nx = 1\n'
    text += 'def f():\n    """A function."""\n    import re\n    return x\n'  # two: def and return
    text += 'class C:\n    """A class."""\n    y: int = 2; "no docstring"\n'  # three
    assert house.statements(house.Files(made(tmp_path, {"workbench/a.py": text}))) == 1 + 2 + 3


def test_short_files_are_those_under_60_lines(tmp_path: Path) -> None:
    texts = {"workbench/a.py": "x = 1\n" * 59, "workbench/b.py": "x = 1\n" * 60}
    texts |= dict.fromkeys(
        ["pages/p.py", "streamlit_app.py", "workbench/analyses/probes/__init__.py"], ""
    )
    files = house.Files(made(tmp_path, {**texts, "tests/test_a.py": "", "other/c.py": ""}))
    assert house.short_files(files) == ["streamlit_app.py (0)", "workbench/a.py (59)"]
    assert len(files.trees) == 6


# --- imports --------------------------------------------------------------------------------------

WAYS = [
    "from workbench.corpora.b import f",
    "from workbench.corpora import b",
    "import workbench.corpora.b as other",
    "from .b import f",
    "from . import b",
    "from ..corpora.b import f",
    "def g():\n    from workbench.corpora.b import f",
    "if TYPE_CHECKING:\n    pass\nelse:\n    from .b import f",
    "if TYPE_CHECKING:\n    from .b import f",
]
LATER = "from importlib import import_module\nimport_module('workbench.corpora.b')"
PAIR = dict.fromkeys(["workbench/corpora/__init__.py", "workbench/corpora/b.py"], "")


@pytest.mark.parametrize("text", [*WAYS, LATER])
def test_imports_are_found_wherever_they_stand(text: str, tmp_path: Path) -> None:
    found = imports(tmp_path, {**PAIR, "workbench/corpora/a.py": text})
    assert found["workbench.corpora.a"] == {"workbench.corpora.b"}


def test_imports_of_other_packages_do_not_count(tmp_path: Path) -> None:
    text = "import os\nfrom workbenches import b\nimport typing\n"
    assert not imports(tmp_path, {"workbench/a.py": text, "workbench/b.py": ""})["workbench.a"]


def test_the_linter_finds_the_same_imports(tmp_path: Path) -> None:
    ways = {f"workbench/corpora/a{number}.py": text for number, text in enumerate(WAYS)}
    ours = imports(tmp_path, {**PAIR, **ways})
    program = (
        "import grimp, json; g = grimp.build_graph('workbench', cache_dir=None);"
        "print(json.dumps({m: sorted(g.find_modules_directly_imported_by(m)) for m in g.modules}))"
    )
    printed = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        check=True,
    ).stdout
    assert {module: sorted(found) for module, found in ours.items()} == json.loads(printed)


def test_circles_of_files_and_of_rooms(tmp_path: Path) -> None:
    found = imports(
        tmp_path,
        {
            "workbench/runs/a.py": "from workbench.runs.b import f",
            "workbench/runs/b.py": "def f():\n    from workbench.runs.c import g",
            "workbench/runs/c.py": "import workbench.runs.a, workbench.heads.a",
            "workbench/heads/a.py": "",
            "workbench/heads/b.py": "from workbench.runs import d",
            "workbench/runs/d.py": "",
            "workbench/analyses/probes/a.py": "import workbench.runs.a",
        },
    )
    assert house.circles_of(found) == [["workbench.runs.a", "workbench.runs.b", "workbench.runs.c"]]
    assert house.circles_of(house.rooms(found)) == [["heads", "runs"]]


def test_upward_imports_are_those_against_the_contracts(tmp_path: Path) -> None:
    found = imports(
        tmp_path,
        {
            "workbench/runs/a.py": "import workbench.analyses.probes.a",  # downward
            "workbench/runs/disk.py": "import workbench.runs.door",  # upward, in the room
            "workbench/runs/door.py": "import workbench.runs.disk",
            "workbench/analyses/probes/a.py": "import workbench.heads.a",  # kept apart
            "workbench/heads/a.py": "import workbench.heads.b",  # one room
            "workbench/heads/b.py": "def f():\n    import workbench.runs.a",  # upward
            "workbench/corpora/a.py": "import workbench.models.a",  # neighbours that may
            "workbench/models/a.py": "import workbench.nowhere",  # on no floor
            "workbench/nowhere.py": "import workbench.runs.a",
        },
    )
    assert house.upward_imports(tmp_path, found) == [
        "workbench.analyses.probes.a -> workbench.heads.a",
        "workbench.heads.b -> workbench.runs.a",
        "workbench.runs.disk -> workbench.runs.door",
    ]


# --- model classes distinguished ------------------------------------------------------------------

MODELS = """
from torch import nn
class Word:
    def encode(self): ...
    def forward(self): ...
class Half:
    def encode(self): ...
class Whole(Half):
    def forward(self): ...
class Small(Word): ...
class Net(nn.Module): ...
class Facts:
    def encode(self): ...
Either = Word | Whole
ONE, OTHER = Word, Net
Short = Word
isinstance(1, Word)
"""


def counts(folder: Path, text: str) -> tuple[int, ...]:
    tree = made(folder, {"workbench/models/all.py": MODELS, "workbench/heads/a.py": text})
    return tuple(map(len, house.model_checks(house.Files(tree))))


def test_model_classes_are_those_that_keep_the_contract(tmp_path: Path) -> None:
    files = house.Files(made(tmp_path, {"workbench/models/all.py": MODELS}))
    named = {"Word", "Whole", "Small", "Net", "Model", "Either", "Short"}
    assert house.model_classes(files) == named


@pytest.mark.parametrize(
    "text",
    [
        "isinstance(x, Word)",
        "isinstance(x, Facts | Net)",
        "isinstance(x, (str, all.Small))",
        "isinstance(x, Either)",
        "from workbench.models.all import Word as W\nBOTH = (str, W)\nisinstance(x, BOTH)",
        "issubclass(type(x), Short)",
        "type(x) is Whole",
        "match x:\n    case Word(): pass",
    ],
)
def test_an_isinstance_on_a_model_class_is_found(text: str, tmp_path: Path) -> None:
    assert counts(tmp_path, text) == (1, 0, 0)


def test_attributes_and_kinds_of_models_are_found(tmp_path: Path) -> None:
    attributes = "hasattr(self.model, 'bilm')\ngetattr(net, 'config', None)\n"
    kinds = "model.family in ('elmo',)\nconfig.model_type != 'bert'\nmodel_type == 'bert'\n"
    kinds += "facts['family'] == 'elmo'\nmatch own_model.kind:\n    case 'words': pass\n"
    assert counts(tmp_path, attributes + kinds) == (0, 2, 5)


def test_other_checks_are_not_of_models(tmp_path: Path) -> None:
    text = "isinstance(x, str | Facts)\ngetattr(model, 'name')\ngetattr(model, name, None)\n"
    text += "hasattr(site, 'heads')\nsite.kind == 'cross'\nfamily == 'elmo'\nmodel.kind\n"
    assert counts(tmp_path, text) == (0, 0, 0)


# --- what users see -------------------------------------------------------------------------------


def test_public_names_are_those_of_all(tmp_path: Path) -> None:
    text = "NAMES = ['run', 'load']\n__all__ = [*NAMES, '__version__']\nother = 1\n"
    assert house.exported(made(tmp_path, {"workbench/__init__.py": text})) == ["load", "run"]


def test_other_imports_in_the_documents_are_found(tmp_path: Path) -> None:
    readme = ">>> import workbench as wb\n>>> from workbench.engine.taps import Capture\n"
    readme += "import os\nThe names come\nfrom workbench itself.\n"
    page = 'python -c "import workbench.runs"\nfrom workbench.analyses.probes import a\n'
    tree = made(tmp_path, {"README.md": readme, "docs/a.md": page})
    assert [line.partition(": ")[0] for line in house.other_imports(tree)] == [
        "README.md:2",
        "docs/a.md:1",
        "docs/a.md:2",
    ]


# --- the trace and the table ----------------------------------------------------------------------

COMMAND = """
import subprocess, sys, threading
from workbench.analyses.probes import called, imported
from workbench.corpora import ground
called.f()
thread = threading.Thread(target=ground.f)
thread.start()
thread.join()
subprocess.run([sys.executable, "-P", "-c", "from workbench.runs import worker; worker.f()"])
"""
FUNCTION = "def f():\n    pass\n"


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout whose command enters three files: in a call, in a thread, in a child process."""
    return made(
        tmp_path_factory.mktemp("tree"),
        {
            "workbench/__main__.py": COMMAND,
            "workbench/corpora/ground.py": FUNCTION,
            "workbench/runs/worker.py": FUNCTION,
            "workbench/analyses/probes/__init__.py": "",
            "workbench/analyses/probes/called.py": FUNCTION,
            "workbench/analyses/probes/imported.py": "class C:\n    def f(self): pass\nC().f()\n",
        },
    )


def test_files_are_entered_where_a_function_is_called(tree: Path) -> None:
    assert sorted(house.entered_files(tree, ["-m", "workbench"])) == [
        "workbench/analyses/probes/called.py",
        "workbench/corpora/ground.py",
        "workbench/runs/worker.py",
    ]


def test_a_command_that_fails_is_not_measured(tree: Path) -> None:
    with pytest.raises(SystemExit, match="no_such_module"):
        house.entered_files(tree, ["-m", "workbench.no_such_module"])


def table(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(sys, "argv", ["house", *arguments])
    return house.main()


def test_the_table_has_every_figure(
    tree: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert table(["--tree", str(tree), "--json"], monkeypatch) == 0
    now = {row["what"].strip(): row["now"] for row in json.loads(capsys.readouterr().out)}
    assert now == {
        "Python files": [7],
        "statements": [5 + 3 * 2 + 4],
        "files under 60 lines": [5],
        "probes: own files entered by its smallest run": [1],
        "probes: files from command to tables": [2],
        "probes: ground rooms, output rooms": [1, 0],
        "heads: own files entered by its smallest run": [0],
        "heads: files from command to tables": [2],
        "heads: ground rooms, output rooms": [1, 0],
        "rooms directly in workbench/": [3],
        "files in the largest folder": [3],
        "import circles of files, files in them": [0, 0],
        "import circles of rooms, rooms in them": [0, 0],
        "upward imports": [0],
        "model classes distinguished: isinstance, hasattr, kind": [0, 0, 0],
        "names exported by workbench": [0],
        "other imports in README and docs": [0],
        "minutes of the README's test command": [],
    }


def test_the_table_is_printed_with_its_listings(
    tree: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert table(["--tree", str(tree), "--verbose"], monkeypatch) == 0
    printed = capsys.readouterr().out
    assert (
        "≤ 43,000" in printed
        and "not measured" in printed
        and "\n  workbench/analyses/probes/called.py" in printed
    )


def test_a_folder_that_is_no_checkout_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        table(["--tree", str(tmp_path)], monkeypatch)
    assert "no checkout" in capsys.readouterr().err
