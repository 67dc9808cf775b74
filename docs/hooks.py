"""Generate pages of the site from the code, notebooks and results; convert formulas to MathML.

MkDocs calls the functions `on_…` (`hooks` in mkdocs.yml). The generated pages are never committed:
commands come from the typer app, settings and tables from the experiments' declarations, errors
from the calls of `WorkbenchError`, the Python page from `workbench.__all__`, notebooks from
`docs/examples/`, with the outputs that `docs/run_notebooks.py` has computed, and reports from the
built-in results that `docs/reports.md` names. None of it imports torch. Costs: less than a second,
mostly for parsing the code, and a second for each report.
"""

import ast
import html
import json
import re
import types
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

try:
    from griffe import Extension
except ImportError:  # the pages can be generated, and tested, without mkdocs
    Extension = object

ROOT = Path(__file__).parents[1]
PICTURES = "tests/app/pictures"  # of the app, which its tests take
RESULTS = "workbench/runs/built_in"  # whose reports the site has
DEFAULT_CODE = "invalid-input"  # of an error that names no code
EXAMPLES = ROOT / "docs" / "examples"
EXECUTED = ROOT / "build" / "notebooks"  # with outputs, never committed
REPORTS = ROOT / "build" / "reports"


def on_files(files: Any, config: Any) -> Any:
    """Add the generated pages to the site."""
    from mkdocs.structure.files import File

    for uri, text in pages().items():
        files.append(File.generated(config, uri, content=text))
    for path in notebooks():
        uri = f"examples/{path.stem}.md"
        files.append(File.generated(config, uri, content=notebook_page(path)))
    for path in sorted((ROOT / PICTURES).glob("*.png")):
        uri = f"pictures/app/{path.name}"
        files.append(File.generated(config, uri, abs_src_path=str(path)))
    for name in results():
        uri = f"reports/{name}.html"
        files.append(File.generated(config, uri, abs_src_path=str(report(name))))
    return files


def on_page_markdown(markdown: str, **context: Any) -> str:
    """Link pictures of the tests, notebooks and built-in results to what the site has of them."""
    uri = context["page"].file.src_uri
    up = "../" * uri.count("/")
    markdown = re.sub(rf"\((?:\.\./)+{PICTURES}/", f"({up}pictures/app/", markdown)
    markdown = re.sub(rf"\((?:\.\./)+{RESULTS}/([\w-]+)\)", rf"({up}reports/\1.html)", markdown)
    if uri == "examples/README.md":
        markdown = re.sub(r"\]\(([\w-]+)\.ipynb\)", r"](\1.md)", markdown)
    return markdown


def on_page_content(content: str, **context: Any) -> str:
    """Replace each formula (LaTeX, marked by pymdownx.arithmatex) by MathML."""
    return re.sub(
        r'<(span|div) class="arithmatex">(?:\\\(|\\\[)(.*?)(?:\\\)|\\\])</\1>',
        lambda found: mathml(html.unescape(found[2]), "block" if found[1] == "div" else "inline"),
        content,
        flags=re.DOTALL,
    )


def on_post_page(output: str, **context: Any) -> str:
    """Insert the outputs of a notebook; not earlier, or the search would find their scripts."""
    path = EXAMPLES / Path(context["page"].file.src_uri).with_suffix(".ipynb").name
    if path not in notebooks() or "data-output" not in output:
        return output
    found = [shown for cell in with_outputs(path)["cells"] for shown in outputs_of(cell)]
    return re.sub(
        r'<div data-output="(\d+)"></div>',
        lambda place: f'<div class="notebook-output">{found[int(place[1])]}</div>',
        output,
    )


def mathml(latex: str, display: str) -> str:
    from latex2mathml.converter import convert

    return str(convert(latex.strip(), display=display))


class Examples(Extension):
    """Have griffe read docstrings as they are meant.

    `Example:` is its section `Examples:`, so that doctests are code; a tensor's shape, written as a
    comment, is no heading.
    """

    def on_instance(self, *, obj: Any, **context: Any) -> None:
        if obj.docstring:
            text = re.sub(r"^Example:$", "Examples:", obj.docstring.value, flags=re.MULTILINE)
            obj.docstring.value = re.sub(r"^# (.*)$", r"`\1`", text, flags=re.MULTILINE)


def pages() -> dict[str, str]:
    """The generated pages by their path in the site."""
    return {
        "reference/command-line.md": command_line(),
        "reference/settings.md": settings(),
        "reference/tables.md": tables(),
        "reference/python.md": python_api(),
        "reference/errors.md": errors(),
        "contributing.md": _of_root("CONTRIBUTING.md"),
        "changelog.md": _of_root("CHANGELOG.md"),
        "glossary.md": _of_root("workbench/app/glossary.md"),
    }


# --- reports --------------------------------------------------------------------------------------


def results() -> list[str]:
    """The built-in results that the page of reports names."""
    return re.findall(
        rf"\(\.\./{RESULTS}/([\w-]+)\)", (ROOT / "docs/reports.md").read_text("utf-8")
    )


@cache
def report(name: str) -> Path:
    """The report of a built-in result, written once while the site is served."""
    from workbench.report import write_report

    REPORTS.mkdir(parents=True, exist_ok=True)
    return write_report(f"built-in/{name}", REPORTS / f"{name}.html")


# --- notebooks ------------------------------------------------------------------------------------


def notebooks() -> list[Path]:
    """The notebooks of the site, which are kept without outputs."""
    return sorted(EXAMPLES.glob("*.ipynb"))


def with_outputs(path: Path) -> Any:
    """A notebook as it was executed; without outputs if it was not, or had other cells then."""
    book = json.loads(path.read_text("utf-8"))
    executed = EXECUTED / path.name
    if executed.is_file():
        other = json.loads(executed.read_text("utf-8"))
        if [*map(_source, other["cells"])] == [*map(_source, book["cells"])]:
            return other
    return book


def notebook_page(path: Path) -> str:
    """The cells of a notebook, with a place for each output."""
    lines, n_outputs = [], 0
    for cell in with_outputs(path)["cells"]:
        if cell["cell_type"] == "markdown":
            lines += [_source(cell), ""]
            continue
        lines += ["```python", _source(cell), "```", ""]
        for _ in outputs_of(cell):
            lines += [f'<div data-output="{n_outputs}"></div>', ""]
            n_outputs += 1
    where = (
        f"[The notebook]({path.name}) runs in JupyterLab, Notebook 7, VS Code, Colab and marimo."
    )
    if not n_outputs:
        where += " Built without outputs: `python docs/run_notebooks.py` computes them."
    return "\n".join([*lines, "---", "", where, ""])


def _source(cell: Any) -> str:
    return _joined(cell["source"])


def _joined(text: str | list[str]) -> str:
    return text if isinstance(text, str) else "".join(text)


def outputs_of(cell: Any) -> Iterator[str]:
    """The outputs of a cell as HTML; bars and widgets of a kernel and standard error are not."""
    for output in cell.get("outputs", ()):
        data = output.get("data", {})
        if output.get("name") == "stderr" or any("jupyter.widget" in kind for kind in data):
            continue
        if "text/html" in data:
            yield _joined(data["text/html"])
        elif "image/png" in data:
            yield f'<img alt="" src="data:image/png;base64,{_joined(data["image/png"]).strip()}">'
        elif text := _joined(data.get("text/plain", output.get("text", ""))):
            yield f"<pre>{html.escape(text)}</pre>"


# --- commands -------------------------------------------------------------------------------------


def command_line() -> str:
    """Every command with its arguments and options."""
    from typer.main import get_command

    from workbench.cli.main import commands

    lines = [
        "# Command line",
        "",
        "With `--json` a command prints one JSON object on standard output and nothing else. "
        "Notes, progress and errors go to standard error.",
        "",
        "| exit code | meaning |",
        "|---|---|",
        "| 0 | done |",
        "| 1 | failed |",
        "| 2 | wrong usage or bad input |",
        "| 130 | interrupted |",
        "",
        "`--help` lists the options of a command. `workbench --install-completion` installs shell "
        "completion for commands, experiments, corpora and runs.",
        "",
        *_command(get_command(commands()), "workbench"),
    ]
    return "\n".join(lines) + "\n"


def _command(command: Any, name: str) -> Iterator[str]:
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    options = [p for p in command.params if p.param_type_name == "option"]
    usage = " ".join([name, *(p.metavar or p.name.upper() for p in arguments)])
    yield f"## `{name}`"
    yield ""
    if command.help:
        yield _text(command.help)
        yield ""
    below = getattr(command, "commands", {})
    yield from ("```text", usage + (" COMMAND" if below else "") + " [OPTIONS]", "```", "")
    if shown := [*(p for p in arguments if getattr(p, "help", "")), *options]:
        yield from _table(("argument or option", "meaning", "default"), map(_parameter, shown))
        yield ""
    for sub in below:
        yield from _command(below[sub], f"{name} {sub}")


def _parameter(parameter: Any) -> tuple[str, str, str]:
    if parameter.param_type_name == "argument":
        return f"`{parameter.metavar or parameter.name.upper()}`", _text(parameter.help or ""), ""
    names = ", ".join(f"`{name}`" for name in [*parameter.opts, *parameter.secondary_opts])
    metavar = "" if parameter.is_flag else f" `{_metavar(parameter)}`"
    value = parameter.default
    shown = value is not None and not callable(value) and str(value) not in ("", "()", "[]")
    default = "" if parameter.is_flag or not shown else f"`{value}`"
    return f"{names}{metavar}", _text(parameter.help or ""), default


def _metavar(parameter: Any) -> str:
    """What stands for an option's value: as declared, its choices, or the option's name."""
    kind = getattr(getattr(parameter, "type_descriptor", None), "annotation", None)
    if get_origin(kind) is Literal:
        choices = get_args(kind)
    else:
        choices = getattr(getattr(parameter, "type", None), "choices", ())
    return parameter.metavar or "|".join(choices) or parameter.name.strip("_").upper()


# --- settings and tables --------------------------------------------------------------------------


def _experiments() -> dict[str, Any]:
    from workbench.experiment.definition import EXPERIMENTS

    return dict(EXPERIMENTS.items())


def settings() -> str:
    """The settings of every experiment."""
    lines = [
        "# Settings",
        "",
        "Set a setting with `--set NAME=VALUE` (or `--NAME VALUE`) of `workbench run`, or as a "
        "keyword argument of `wb.run`. A list is written with commas: `--set seeds=0,1,2`. "
        "`workbench experiments show EXPERIMENT` prints the same list.",
        "",
    ]
    for name, experiment in _experiments().items():
        kind = experiment.settings
        rows = [
            (
                f"`{field}`",
                _text(info.description or ""),
                _annotation(info.annotation) + _bounds(info.metadata),
                _default(info),
            )
            for field, info in kind.model_fields.items()
        ]
        lines += [f"## {name}", "", _text(experiment.about), "", *_facts(experiment), ""]
        lines += [*_table(("setting", "meaning", "value", "default"), rows), ""]
    return "\n".join(lines)


def tables() -> str:
    """The tables of every experiment: what each holds and the columns that identify a row."""
    lines = [
        "# Tables",
        "",
        "Each run leaves tables as Parquet files. `workbench export RUN TABLE --out FILE.csv` "
        'exports one, and `run.tables["NAME"]` is a pandas DataFrame. The key columns identify a '
        "row; `workbench runs compare` aligns two runs by them.",
        "",
    ]
    for name, experiment in _experiments().items():
        rows = [
            (
                f"`{table}`",
                _text(declared.about),
                ", ".join(f"`{column}`" for column in declared.keys),
            )
            for table, declared in experiment.tables.items()
        ]
        lines += [f"## {name}", "", _text(experiment.about), ""]
        lines += [*_table(("table", "contents", "key columns"), rows), ""]
    return "\n".join(lines)


def _facts(experiment: Any) -> Iterator[str]:
    needs = [need.what for need in experiment.needs_for(experiment.settings())]
    layers = () if callable(experiment.layers) else experiment.layers
    facts = [
        f"models: {_span(*experiment.models)}",
        f"corpora: {_span(*experiment.corpora)}",
        f"default split: {experiment.split}",
        f"version: {experiment.version}",
        *([f"a model needs: {', '.join(needs)}"] if needs else []),
        *([f"a corpus needs: {', '.join(layers)}"] if layers else []),
    ]
    yield "; ".join(facts)[0].upper() + "; ".join(facts)[1:] + "."


def _span(least: int, most: int | None) -> str:
    if most is None:
        return f"{least} or more"
    return str(least) if least == most else f"{least} to {most}"


def _annotation(kind: Any) -> str:
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Literal:
        return ", ".join(f"`{value}`" for value in inner)
    if origin in (Union, types.UnionType):
        return " or ".join(_annotation(each) for each in inner if each is not type(None))
    if origin in (tuple, list, frozenset):
        return f"list of {_annotation(inner[0])}"
    if origin is not None and inner:
        return _annotation(inner[0])
    names = {"int": "integer", "float": "number", "bool": "true or false", "str": "text"}
    return names.get(getattr(kind, "__name__", ""), getattr(kind, "__name__", str(kind)))


def _bounds(metadata: Iterable[Any]) -> str:
    signs = {"ge": "≥", "gt": ">", "le": "≤", "lt": "<"}
    found = [
        f"{sign} {getattr(each, name):g}"
        for each in metadata
        for name, sign in signs.items()
        if getattr(each, name, None) is not None
    ]
    return f" ({', '.join(found)})" if found else ""


def _default(info: Any) -> str:
    if info.is_required():
        return "required"
    value = info.get_default(call_default_factory=True)
    if value is None or value in ("", ()):
        return ""
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return f"`{','.join(map(str, value)) if isinstance(value, tuple) else value}`"


# --- the Python API -------------------------------------------------------------------------------


def python_api() -> str:
    """Every name of `workbench.__all__` by subject, each followed by the classes it returns."""
    from importlib import import_module

    import workbench
    from workbench.core.analysis import analyses, is_built_in

    source = Path(workbench.__file__).read_text("utf-8")
    group = re.search(r"^_HOMES = \{\n(.*?)^\}", source, flags=re.MULTILINE | re.DOTALL)
    assert group is not None
    lines = [
        "# Python",
        "",
        "`import workbench as wb` gives all names below. `help(wb.NAME)` shows the same text. "
        "Names are imported when they are first used, so the import itself takes milliseconds. "
        "Modules below `workbench` may move from one version to the next; these names do not. "
        "A function is followed by the class of what it returns, which nobody needs to import.",
        "",
    ]
    entries: list[tuple[str, str]] = []  # name and home; without a home, a heading
    for line in group[1].splitlines():
        if title := re.fullmatch(r"\s*# (.*)", line):
            entries.append((f"{title[1][0].upper()}{title[1][1:]}", ""))
        elif found := re.match(r'\s*"(\w+)":', line):
            name = found[1]
            function = re.search(rf"from ([\w.]+) import (\w+) as {name}$", source, re.MULTILINE)
            home = ".".join(function.groups()) if function else f"workbench.{name}"
            entries.append((name, home))
    for package, analysis in analyses().items():
        if not is_built_in(package):  # another package that is installed here
            continue
        if analysis.functions:
            question = (import_module(package).__doc__ or package).partition("\n")[0]
            entries.append((question, ""))
        entries += [(n, f"{package}.{m}.{n}") for n, m in analysis.functions.items()]
    shown = {found[0] for _, home in entries if home and (found := _definition(home))}
    for name, home in entries:
        lines += _documented(name, home) if home else [f"## {name}", ""]
        for returned in _returned(home, shown) if home else ():
            lines += _documented(returned.rpartition(".")[2], returned, is_returned=True)
    return "\n".join(lines)


def _documented(name: str, home: str, is_returned: bool = False) -> list[str]:
    """The lines that have mkdocstrings document one name."""
    lines = [f"::: {home}", "    options:", f"      heading: {name}", f"      toc_label: {name}"]
    if is_returned:
        lines += ["      heading_level: 4", "      inherited_members: true"]
    return [*lines, ""]


def _returned(home: str, shown: set[str]) -> Iterator[str]:
    """The classes that a function, or the methods of a class, return; `shown` gets them."""
    found = _definition(home)
    if found is None:
        return
    home, node = found
    functions = node.body if isinstance(node, ast.ClassDef) else [node]
    for function in functions:
        if not isinstance(function, ast.FunctionDef) or function.name.startswith("_"):
            continue
        for name in _names_in(function.returns):
            below = _definition(f"{home.rpartition('.')[0]}.{name}")
            if below and isinstance(below[1], ast.ClassDef) and below[0] not in shown:
                shown.add(below[0])
                yield below[0]
                yield from _returned(below[0], shown)


def _names_in(annotation: ast.AST | None) -> Iterator[str]:
    for node in ast.walk(annotation) if annotation else ():
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from _names_in(ast.parse(node.value, mode="eval"))


def _definition(home: str) -> tuple[str, ast.stmt] | None:
    """The function or class of this name, with its full name; imports are followed."""
    module, _, name = home.rpartition(".")
    path = ROOT.joinpath(*module.split("."))
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    defined, imported = _names_of(path)
    if name in defined:
        return home, defined[name]
    return _definition(imported[name]) if name in imported else None


@cache
def _names_of(path: Path) -> tuple[dict[str, ast.stmt], dict[str, str]]:
    """The functions and classes of a module, and the full names of what it has of Workbench."""
    tree = ast.parse(path.read_text("utf-8"))
    defined: dict[str, ast.stmt] = {}
    imported: dict[str, str] = {}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            defined.setdefault(node.name, node)  # of overloads, the first
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("workb"):
            for alias in node.names:
                imported.setdefault(alias.asname or alias.name, f"{node.module}.{alias.name}")
    return defined, imported


# --- errors ---------------------------------------------------------------------------------------


def errors() -> str:
    """Every error code with the messages and remedies of the places that raise it."""
    lines = [
        "# Error codes",
        "",
        "A mistake of the user ends with one message, never with a traceback, and exit code 2:",
        "",
        "```text",
        "WHERE: WHAT HAPPENED. [CODE]",
        "  WHAT TO DO",
        "```",
        "",
        "In Python it is a `wb.WorkbenchError` with the attributes `code`, `what`, `where` and "
        "`remedy`. Below, each message has the module that raises it, and what to do. A word in "
        "braces stands for a value.",
        "",
    ]
    for code, found in sorted(error_sites().items()):
        lines += [f"## `{code}`", ""]
        for what, remedy, module in sorted(set(found)):
            lines += [f"- {what} ({module})", f"    - {remedy}" if remedy else "", ""]
    return "\n".join(lines)


def error_sites() -> dict[str, list[tuple[str, str, str]]]:
    """For each code: message, remedy and module of every call that makes such an error."""
    found: dict[str, list[tuple[str, str, str]]] = defaultdict(list)
    for path in sorted((ROOT / "workbench").rglob("*.py")):
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        text = path.read_text("utf-8")
        if "WorkbenchError" not in text and "code=" not in text:
            continue
        tree = ast.parse(text)
        constants = {
            statement.targets[0].id: statement.value.value
            for statement in tree.body
            if isinstance(statement, ast.Assign)
            and isinstance(statement.targets[0], ast.Name)
            and isinstance(statement.value, ast.Constant)
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.Call):
                for code, what, remedy in _sites(node, constants):
                    found[code].append((what, remedy, f"`{module.removesuffix('.__init__')}`"))
    return found


def _sites(call: ast.Call, constants: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Code, message and remedy of a call that makes an error; several if the code depends."""
    given = {each.arg: each.value for each in call.keywords if each.arg}
    what = call.args[0] if call.args else given.get("what")
    if what is None or not (ast.unparse(call.func).endswith("WorkbenchError") or "code" in given):
        return
    code = given.get("code", ast.Constant(DEFAULT_CODE))
    remedy = given.get("remedy", ast.Constant(""))
    if isinstance(code, ast.IfExp):
        for branch in ("body", "orelse"):
            parts = [_chosen(part, code.test, branch) for part in (code, what, remedy)]
            yield from _site(*parts, constants)
    else:
        yield from _site(code, what, remedy, constants)


def _chosen(node: ast.expr, test: ast.expr, branch: str) -> ast.expr:
    """The branch of an expression that depends on this test; else the expression."""
    if isinstance(node, ast.IfExp) and ast.dump(node.test) == ast.dump(test):
        chosen: ast.expr = getattr(node, branch)
        return chosen
    return node


def _site(
    code: ast.expr, what: ast.expr, remedy: ast.expr, constants: dict[str, Any]
) -> Iterator[tuple[str, str, str]]:
    if isinstance(code, ast.Constant) and isinstance(code.value, str):
        yield code.value, _text(_template(what, constants)), _text(_template(remedy, constants))


def _template(node: ast.expr, constants: dict[str, Any]) -> str:
    """The text of an expression, where a name in braces stands for what is computed."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(_template(value, constants) for value in node.values)
    if isinstance(node, ast.FormattedValue):
        return _template(node.value, constants)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _template(node.left, constants) + _template(node.right, constants)
    if isinstance(node, ast.IfExp):
        return f"{_template(node.body, constants)} / {_template(node.orelse, constants)}"
    if isinstance(node, ast.Name) and node.id in constants:
        return str(constants[node.id])
    return f"{{{_name(node)}}}"


def _name(node: ast.expr) -> str:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return node.attr
    if isinstance(node, ast.Call):
        return _name(node.func)
    if isinstance(node, ast.Subscript):
        return _name(node.value)
    return "…"


# --- pieces of pages ------------------------------------------------------------------------------


def _of_root(name: str) -> str:
    """A page of the repository's root, with its links as they are in the site."""
    text = (ROOT / name).read_text("utf-8")
    text = re.sub(r"\]\(docs/", "](", text)
    names = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md"}
    names |= {"CHANGELOG.md": "changelog.md", "workbench/app/glossary.md": "glossary.md"}
    for old, new in names.items():
        text = text.replace(f"]({old}", f"]({new}")
    return re.sub(r"\[([^\]]+)\]\((?:LICENSE|AGENTS\.md|pyproject\.toml)\)", r"\1", text)


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    for row in rows:
        yield f"| {' | '.join(map(_cell, row))} |"


def _cell(text: str) -> str:
    """Text whose bars outside of code do not end the cell."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(part if part[:1] == "`" else part.replace("|", "&#124;") for part in parts)


def _text(text: str) -> str:
    """Text on one line, in which no character means anything to Markdown but a backtick."""
    parts = re.split(r"(`[^`]*`)", " ".join(text.split()))
    return "".join(part if part[:1] == "`" else _escaped(part) for part in parts)


def _escaped(text: str) -> str:
    return re.sub(r"([*_\[\]$])", r"\\\1", html.escape(text, quote=False))
