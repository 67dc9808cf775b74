"""Measures of the structure of the code: before the rebuild, now, and the aims of the rebuild.

    python -m tests.house                     prints the table
    python -m tests.house --verbose           lists the files, imports and lines that were counted
    python -m tests.house --tree PATH --json  measures another checkout, for a program to read

Except for the table of rooms below, no module is named here, so one script measures the code before
and after. How each figure is measured:

- *Python files*: all of `workbench/`, `pages/`, and `streamlit_app.py`.
- *Statements*: `ast.stmt` nodes, without imports and docstrings.
- *Short files*: fewer than 60 lines; `__init__.py` and `pages/` are left out.
- *Files entered*: a trace of the smallest run of an analysis, `python -m workbench run ...`, in an
  empty home and an empty folder of runs. Every process of the run (the command and the worker
  that it starts) imports a `sitecustomize.py` from PYTHONPATH that calls `sys.setprofile` and
  `threading.setprofile`. A file counts when one of its functions is called while no module is being
  imported; module and class bodies, and what they call, do not count. The trace lasts until the
  command ends, so it includes drawing the figures and printing the tables.
- *Files from command to tables*: all files entered, except those of the `GROUND` and `OUTPUT`
  rooms, which have a line of their own. This leaves the doors, the files at the top of `workbench`,
  the core, the runs and the analysis' own package.
- *Import circles*: strongly connected components of two or more files, or rooms. A room is a
  subpackage or a file directly in `workbench`, or a folder in `workbench/analyses`.
  Imports inside functions and under `TYPE_CHECKING` count, and `import_module("NAME")`; names in
  strings that are resolved later do not.
- *Upward imports*: from a lower floor to a higher, or between rooms of one floor that are kept
  apart (`|`). The floors are those of the import-linter contracts in the checkout's
  `pyproject.toml`.
- *Model classes distinguished*: three counts, all outside `workbench/models`.
  `isinstance`, `issubclass`, `type(x) ==` and `case` patterns on a model class: the protocol
  `Model`, a class in `workbench/models` or `workbench/engine` that defines `encode` and `forward`
  or is an `nn.Module`, a subclass of one of these, or an alias, union or tuple of them.
  `hasattr`, and `getattr` with a default, of a constant name on something called `model` or `net`.
  Comparisons with a `model_type`, or with the `kind` or `family` of something called `model`, `net`
  or `facts`.
- *Names exported*: public names in `workbench.__all__`.
- *Other imports in README and docs*: lines that import from `workbench` in any form but
  `import workbench as wb`.

Costs half a minute of one core, nearly all of it for the traced run.
"""

import argparse
import ast
import json
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).parents[1]

# The table of rooms, before the rebuild and after it; no other module is named in this script.
GROUND = {"corpora", "engine", "models"}  # before and after
OUTPUT = {"report", "view"} | {"app", "attention_browser", "figures", "report", "drawing"}
MODELS, CONTRACT = "workbench/models/", "workbench/engine/"  # where model classes are defined

RUNS = {  # by the folder of the analysis whose smallest run is traced
    "workbench/analyses/probes/": (
        "run edge-probing --model mini:bert --corpus primer:size=40 --device cpu "
        "--set tasks=pos effort=quick"
    ),
    "workbench/analyses/heads/": (
        "run heads --model mini:bert --corpus primer:size=40 --device cpu --set max_sentences=20"
    ),
}

SHORT = 60  # lines
Listing = list[str]  # what was counted, as file:line, or as names
Graph = Mapping[str, set[str]]


@dataclass(frozen=True)
class Row:
    """One line of the table; `start` was measured by this script before the rebuild."""

    what: str
    start: tuple[int, ...]
    now: tuple[int, ...]
    target: str
    listing: Listing = field(default_factory=list)


def table(tree: Path) -> list[Row]:
    """Every figure of a checkout."""
    files = Files(tree)
    traced = [row for folder, run in RUNS.items() for row in _traced(tree, folder, run)]
    folders, inside = largest_folders(files), rooms_inside(files)
    modules = imports(files)
    circles, room_circles = circles_of(modules), circles_of(rooms(modules))
    upward = upward_imports(tree, modules)
    checks = model_checks(files)
    short = short_files(files)
    names, others = exported(tree), other_imports(tree)
    return [
        Row("Python files", (441,), (len(files.trees),), ""),
        Row("statements", (29693,), (statements(files),), "≤ 43,000"),
        Row(f"files under {SHORT} lines", (71,), (len(short),), "", short),
        *traced,
        Row("rooms directly in workbench/", (), (len(inside),), "≤ 12", inside),
        Row("files in the largest folder", (), (folders[0][0],), "≤ 25", [f[1] for f in folders]),
        Row(
            "import circles of files, files in them",
            (1, 6),
            (len(circles), sum(map(len, circles))),
            "0",
            [", ".join(circle) for circle in circles],
        ),
        Row(
            "import circles of rooms, rooms in them",
            (1, 2),
            (len(room_circles), sum(map(len, room_circles))),
            "0",
            [", ".join(circle) for circle in room_circles],
        ),
        Row("upward imports", (0,), (len(upward),), "0", upward),
        Row(
            "model classes distinguished: isinstance, hasattr, kind",
            (38, 2, 9),
            tuple(map(len, checks)),
            "0",
            [
                f"{means}: {line}"
                for means, lines in zip(("isinstance", "hasattr", "kind"), checks, strict=True)
                for line in lines
            ],
        ),
        Row("names exported by workbench", (9,), (len(names),), "≤ 50", names),
        Row("other imports in README and docs", (7,), (len(others),), "0", others),
        Row("minutes of the README's test command", (17,), (), "≤ 6"),
    ]


def _traced(tree: Path, folder: str, run: str) -> Iterator[Row]:
    """The files that a run enters: of its analysis, from command to tables, and the others."""
    entered = entered_files(tree, ["-m", "workbench", *run.split()])
    own = [name for name in entered if name.startswith(folder)]
    ground = [name for name in entered if room_of_file(name) in GROUND]
    output = [name for name in entered if room_of_file(name) in OUTPUT or "/figures" in name]
    path = sorted({*entered} - {*ground, *output})
    name = folder.strip("/").rpartition("/")[2]
    apart = ground + output
    yield Row(f"{name}: own files entered by its smallest run", (), (len(own),), "≤ 6", own)
    yield Row(f"{name}: files from command to tables", (), (len(path),), "≤ 25", path)
    yield Row(f"{name}: ground rooms, output rooms", (), (len(ground), len(output)), "", apart)


# --- files and statements -------------------------------------------------------------------------


class Files:
    """The Python files of a checkout, by path relative to it."""

    def __init__(self, tree: Path) -> None:
        found = [tree / "streamlit_app.py"]
        for folder in ("workbench", "pages"):
            found += (tree / folder).rglob("*.py")
        self.texts = {
            path.relative_to(tree).as_posix(): path.read_text(encoding="utf-8")
            for path in sorted(found)
            if path.is_file()
        }

    @cached_property
    def trees(self) -> dict[str, ast.Module]:
        return {name: ast.parse(text, name) for name, text in self.texts.items()}


def largest_folders(files: Files) -> list[tuple[int, str]]:
    """The folders with their numbers of Python files, the largest first."""
    found = Counter(name.rpartition("/")[0] for name in files.texts)
    return sorted(((n, f"{folder} ({n})") for folder, n in found.items()), reverse=True)


def rooms_inside(files: Files) -> Listing:
    """Subpackages and files directly in `workbench`."""
    parts = [name.split("/") for name in files.texts if name.startswith("workbench/")]
    return sorted({each[1] for each in parts if not each[1].startswith("__")})


def short_files(files: Files) -> Listing:
    return [
        f"{name} ({lines})"
        for name, text in files.texts.items()
        if (lines := len(text.splitlines())) < SHORT
        and not name.endswith("__init__.py")
        and not name.startswith("pages/")
    ]


def statements(files: Files) -> int:
    """The number of statements in all files, without imports and docstrings."""
    nodes = [node for tree in files.trees.values() for node in ast.walk(tree)]
    every = sum(isinstance(node, ast.stmt) for node in nodes)
    imported = sum(isinstance(node, ast.Import | ast.ImportFrom) for node in nodes)
    return every - imported - sum(map(_has_docstring, nodes))


def _has_docstring(node: ast.AST) -> bool:
    documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    return isinstance(node, documented) and ast.get_docstring(node, clean=False) is not None


# --- the trace ------------------------------------------------------------------------------------

TRACER = '''
"""Notes each file of a checkout when first one of its functions is called."""
import os, sys, threading

tree, notes, seen = os.environ["HOUSE_TREE"] + os.sep, os.environ["HOUSE_NOTES"], set()

def note(frame, event, argument):
    code = frame.f_code
    file = code.co_filename
    if event != "call" or file in seen or not file.startswith(tree) or not code.co_flags & 1:
        return  # flag 1: a function's code, not a module's or a class's
    above = frame.f_back
    while above is not None:
        if above.f_code.co_filename.startswith("<frozen importlib"):
            return  # some module is being imported
        above = above.f_back
    seen.add(file)
    with open(notes, "a") as out:
        out.write(file.removeprefix(tree) + "\\n")

threading.setprofile(note)
sys.setprofile(note)
'''


def entered_files(tree: Path, command: Iterable[str]) -> Listing:
    """The files of a checkout that `python COMMAND` and its child processes enter, in order."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        (place / "sitecustomize.py").write_text(TRACER)
        (place / "notes").touch()
        done = subprocess.run(
            [sys.executable, *command],
            cwd=place,
            env={
                **os.environ,
                "HOUSE_TREE": str(tree.resolve()),
                "HOUSE_NOTES": str(place / "notes"),
                "PYTHONPATH": os.pathsep.join([folder, str(tree.resolve())]),
                "WORKBENCH_HOME": str(place / "home"),
                "WORKBENCH_RUNS": str(place / "runs"),
                "HF_HUB_OFFLINE": "1",
                "OMP_NUM_THREADS": "1",
            },
            capture_output=True,
            text=True,
        )
        if done.returncode:
            raise SystemExit(f"the traced command failed:\n{done.stdout}{done.stderr}")
        return list(dict.fromkeys((place / "notes").read_text().splitlines()))


def room_of_file(name: str) -> str:
    """The room of a file: a subpackage or a file directly in `workbench`, or another package."""
    return room_of(name.removesuffix(".py").replace("/", "."))


# --- imports --------------------------------------------------------------------------------------


def imports(files: Files) -> dict[str, set[str]]:
    """The modules of `workbench` that each of them imports, anywhere in the file."""
    own = {
        module_of(name): tree for name, tree in files.trees.items() if name.startswith("workbench/")
    }
    packages = {module_of(name) for name in files.trees if name.endswith("__init__.py")}
    found: dict[str, set[str]] = {}
    for module, tree in own.items():
        home = module if module in packages else module.rpartition(".")[0]
        named = (name for node in ast.walk(tree) for name in _imported(node, home))
        found[module] = {_known(name, own) for name in named} - {"", module}
    return found


def module_of(name: str) -> str:
    return name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _imported(node: ast.AST, home: str) -> Iterator[str]:
    """The full names that a node imports; in `from A import B`, B may be a module or not."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        above = home.split(".")[: len(home.split(".")) - node.level + 1] if node.level else []
        source = ".".join([*above, *([node.module] if node.module else [])])
        yield from (f"{source}.{alias.name}" for alias in node.names)
    elif isinstance(node, ast.Call) and _last(node.func) == "import_module":
        yield from (str(a.value) for a in node.args if isinstance(a, ast.Constant))


def _known(name: str, own: Iterable[str]) -> str:
    """The longest of the known names that `name` is or lies in; "" if there is none."""
    while name and name not in own:
        name = name.rpartition(".")[0]
    return name


def room_of(module: str) -> str:
    first, *rest = module.split(".")
    if first != "workbench" or not rest:
        return first
    return rest[1] if rest[0] == "analyses" and len(rest) > 1 else rest[0]


def rooms(modules: Graph) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {room_of(module): set() for module in modules}
    for module, imported in modules.items():
        found[room_of(module)] |= set(map(room_of, imported)) - {room_of(module)}
    return found


def circles_of(graph: Graph) -> list[Listing]:
    """The strongly connected components of two or more nodes."""
    reached = {node: _reached(node, graph) for node in graph}
    found = {
        tuple(sorted(other for other in reached[node] if node in reached[other]))
        for node in graph
        if node in reached[node]
    }
    return sorted(list(circle) for circle in found if len(circle) > 1)


def _reached(start: str, graph: Graph) -> set[str]:
    found: set[str] = set()
    ahead = list(graph[start])
    while ahead:
        if (node := ahead.pop()) not in found:
            found.add(node)
            ahead += graph[node]
    return found


def upward_imports(tree: Path, modules: Graph) -> Listing:
    """Imports that break the order of the floors, each as `importer -> imported`."""
    linter = tomllib.loads((tree / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
    found: set[str] = set()
    for contract in linter["importlinter"]["contracts"]:
        if contract["type"] == "layers":
            floors = _floors(contract)
            for module, imported in modules.items():
                for other in imported:
                    if _is_upward(_floor(module, floors), _floor(other, floors)):
                        found.add(f"{module} -> {other}")
    return sorted(found)


@dataclass(frozen=True)
class Floor:
    """A room's depth below the top, and whether it may not import from its neighbours."""

    depth: int
    room: str
    is_apart: bool


def _floors(contract: Mapping[str, list[str]]) -> dict[str, Floor]:
    found = {}
    for container in contract.get("containers", [""]):
        for depth, layer in enumerate(contract["layers"]):
            for name in re.findall(r"[\w.]+", layer):
                whole = f"{container}.{name}" if container else name
                found[whole] = Floor(depth, whole, "|" in layer)
    return found


def _floor(module: str, floors: Mapping[str, Floor]) -> Floor | None:
    named = _known(module, floors)
    return floors[named] if named else None


def _is_upward(one: Floor | None, other: Floor | None) -> bool:
    if one is None or other is None or one.room == other.room:
        return False
    return one.depth > other.depth or (one.depth == other.depth and one.is_apart)


# --- model classes distinguished ------------------------------------------------------------------

CALLED_MODEL = re.compile(r"(.*_)?(model|net)", re.IGNORECASE)
CALLED_FACTS = re.compile(r"(.*_)?(model|net|facts)", re.IGNORECASE)


def model_checks(files: Files) -> tuple[Listing, Listing, Listing]:
    """Where code outside `workbench/models` tells models apart: by class, attribute, kind."""
    names = model_classes(files)
    found: tuple[list[tuple[str, int]], ...] = ([], [], [])
    for file, tree in files.trees.items():
        if file.startswith(MODELS):
            continue
        own = names | _renamed(tree, names)
        for node in ast.walk(tree):
            for kind, is_one in enumerate(
                (_asks_class(node, own), _asks_attribute(node), _asks_kind(node))
            ):
                if is_one:
                    found[kind].append((file, _line(node)))
    classes, attributes, kinds = ([f"{file}:{line}" for file, line in sorted(one)] for one in found)
    return classes, attributes, kinds


def model_classes(files: Files) -> set[str]:
    """The names of all model classes and of their aliases."""
    methods: defaultdict[str, set[str]] = defaultdict(set)
    bases: defaultdict[str, set[str]] = defaultdict(set)
    for file, tree in files.trees.items():
        for node in ast.walk(tree) if file.startswith((MODELS, CONTRACT)) else ():
            if isinstance(node, ast.ClassDef):
                methods[node.name] |= {m.name for m in node.body if isinstance(m, ast.FunctionDef)}
                bases[node.name] |= set(map(_last, node.bases))
    found = {"Model"}
    while True:
        for name in bases:
            methods[name] = methods[name].union(*(methods.get(base, ()) for base in bases[name]))
        more = {
            name
            for name in bases
            if {"encode", "forward"} <= methods[name] or bases[name] & {*found, "Module"}
        }
        for tree in files.trees.values():
            more |= _aliases(tree, found | _renamed(tree, found))
        if more <= found:
            return found
        found |= more


def _renamed(tree: ast.Module, names: set[str]) -> set[str]:
    """Other names under which a file imports them."""
    return {
        alias.asname
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.asname and alias.name in names
    }


def _aliases(tree: ast.Module, names: set[str]) -> set[str]:
    """Variables of a module that hold one of them, or a union or a tuple with one of them."""
    found = set()
    for node in tree.body:
        if isinstance(node, ast.Assign) and _are_classes(node.value, names):
            found |= {_last(target) for target in node.targets}
        elif isinstance(node, ast.AnnAssign) and node.value and _are_classes(node.value, names):
            found.add(_last(node.target))
    return found - {""}


def _are_classes(node: ast.expr, names: set[str]) -> bool:
    if isinstance(node, ast.BinOp):
        return _are_classes(node.left, names) or _are_classes(node.right, names)
    if isinstance(node, ast.Tuple | ast.List):
        return any(_are_classes(each, names) for each in node.elts)
    return _last(node) in names


def _asks_class(node: ast.AST, names: set[str]) -> bool:
    match node:
        case ast.Call(func=ast.Name(id="isinstance" | "issubclass"), args=[_, kinds]):
            return _are_classes(kinds, names)
        case ast.Compare(left=ast.Call(func=ast.Name(id="type")), comparators=[kinds]):
            return _are_classes(kinds, names)
        case ast.MatchClass(cls=kind):
            return _are_classes(kind, names)
    return False


def _asks_attribute(node: ast.AST) -> bool:
    match node:
        case ast.Call(
            func=ast.Name(id=("hasattr" | "getattr") as how),
            args=[model, ast.Constant(value=str()), *default],
        ):
            has_default = how == "hasattr" or bool(default)
            return has_default and CALLED_MODEL.fullmatch(_last(model)) is not None
    return False


def _asks_kind(node: ast.AST) -> bool:
    if isinstance(node, ast.Compare):
        return any(map(_is_kind, [node.left, *node.comparators]))
    return isinstance(node, ast.Match) and _is_kind(node.subject)


def _is_kind(node: ast.expr) -> bool:
    match node:
        case ast.Subscript(value=owner, slice=ast.Constant(value=str(name))):
            pass
        case ast.Attribute(value=owner, attr=name):
            pass
        case ast.Name(id=name):
            return name == "model_type"
        case _:
            return False
    is_models = CALLED_FACTS.fullmatch(_last(owner)) is not None
    return name == "model_type" or (name in ("kind", "family") and is_models)


def _last(node: ast.AST) -> str:
    """The last part of a dotted name; "" of anything else."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _line(node: ast.AST) -> int:
    line: int = getattr(node, "lineno", 0)
    return line


# --- what users see -------------------------------------------------------------------------------

IMPORT = re.compile(  # at the start of a line, of a prompt, or of a quoted program
    r"""(?:^|[>;"'`])\s*"""
    r"""((?:from\s+workbench[\w.]*\s+import|import\s+workbench)\b.*)"""
)


def exported(tree: Path) -> Listing:
    """The public names of `import workbench as wb`."""
    program = "import workbench as wb; print(*getattr(wb, '__all__', dir(wb)))"
    printed = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": str(tree.resolve())},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return sorted(name for name in printed.split() if not name.startswith("_"))


def other_imports(tree: Path) -> Listing:
    """Lines of README and docs that import from the packages otherwise than as `wb`."""
    found = []
    for page in [tree / "README.md", *sorted((tree / "docs").rglob("*.md"))]:
        for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), start=1):
            for statement in IMPORT.findall(line):
                if not re.match(r"import\s+workbench\s+as\s+wb\b(?!\s*,)", statement):
                    found.append(f"{page.relative_to(tree).as_posix()}:{number}: {statement}")
    return found


# --- the table ------------------------------------------------------------------------------------


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--tree", type=Path, default=ROOT, help="a checkout (default: this one)")
    parser.add_argument("--json", action="store_true", help="for a program to read")
    parser.add_argument("--verbose", action="store_true", help="list what is counted")
    given = parser.parse_args()
    if not (given.tree / "workbench").is_dir():
        parser.error(f"{given.tree} is no checkout: it has no workbench folder")
    found = table(given.tree.resolve())
    if given.json:
        print(json.dumps([vars(row) for row in found], indent=1, ensure_ascii=False))
        return 0
    lines = [("", "at the start", "now", "target")]
    lines += [(row.what, _shown(row.start), _shown(row.now), row.target) for row in found]
    width = max(len(line[0]) for line in lines)
    for what, start, now, target in lines:
        print(f"{what:<{width}}  {start:>14}  {now:>14}  {target:>8}")
    for row in found if given.verbose else ():
        if row.listing:
            print(f"\n{row.what.strip()}:", *row.listing, sep="\n  ")
    return 0


def _shown(numbers: tuple[int, ...]) -> str:
    return ", ".join(f"{number:,}" for number in numbers) or "not measured"


if __name__ == "__main__":
    sys.exit(main())
