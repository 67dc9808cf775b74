"""Nothing reads a file that others may have put there but through `workbench.core.files`.

A pipe in the place of a file is waited for without end by `open`, `np.load` and their like, and
deep brackets overflow the stack of `json.loads`. So every such call names a regular file with
`require_regular`, writes to a draft of `atomic_write`, or is listed here with its reason.
"""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCES = ("workbench", "pages", "streamlit_app.py")
READERS = frozenset(
    "open read_text read_bytes write_text write_bytes load_file safe_open read_table read_parquet "
    "read_csv from_pretrained get_config_dict copyfile copytree copy2 memmap open_memmap fromfile "
    "loadtxt genfromtxt File".split()
)
LOADERS = frozenset(
    f"{module}.{name}"
    for module in ("json", "np", "torch", "pickle", "spacy")
    for name in ("load", "loads")
)
NAMED = re.compile(rf"\b(?:{'|'.join(sorted(READERS))}|loads?)\b")  # in the text of such a call
SAFE = frozenset({"require_regular", "open_regular", "read_regular", "open_for_append"})
DRAFTS = frozenset({"draft"})  # of `atomic_write`, which are new files

PIPES = "opened so that it does not wait for a pipe"
CHECKED = "the folder is checked for pipes and devices before"
OURS = "a part of the package, or of the system"
SCRATCH = "a file in a temporary folder of this process"
JSON = "RecursionError is caught, and what is read is never written again"
MESSAGE = "no file, but what a process or a page of ours says"
COPIED = "each file is copied with require_regular"
ALLOWED = {
    "workbench/runs/copied_model.py copied": COPIED,
    "workbench/analyses/compression/compress.py run": "a folder that this run has written",
    "workbench/analyses/smaller_model/recipe.py run": "a folder that this run has written",
    "workbench/analyses/compression/cost.py costs": MESSAGE,
    "workbench/models/compression/quantisation.py quantise": SCRATCH,
    "workbench/models/compression/vocabulary.py cut_vocabulary": MESSAGE,
    "workbench/models/compression/vocabulary.py removable_pieces": MESSAGE,
    "workbench/corpora/readers/tables.py _of_objects": JSON,
    "workbench/corpora/validate.py _objects": JSON,
    "workbench/corpora/validate.py _write": SCRATCH,
    "workbench/corpora/readers/json_objects.py _object": JSON,
    "workbench/corpora/train_parser.py train_parser": SCRATCH,
    "workbench/corpora/readers/text.py _load": CHECKED,
    "workbench/engine/activation_store.py Store.layer": "require_regular a line above",
    "workbench/fetch/__init__.py _locked": "opened to read and write, which waits for no pipe",
    "workbench/fetch/catalogue.py": "File is an entry of the catalogue",
    "workbench/core/files.py _flush_to_disk": "a draft",
    "workbench/core/files.py _regular": PIPES,
    "workbench/core/files.py parse_json": "this is what is called instead",
    "workbench/core/doctor.py _distributions_with": "what installers have written of packages",
    "workbench/core/machine.py machine_memory": OURS,
    "workbench/corpora/catalogue.py _formats": OURS,
    "workbench/corpora/formats.py formats": OURS,
    "workbench/models/formats/checkpoint.py read_config": CHECKED,
    "workbench/models/formats/checkpoint.py read_tokenizer.read": CHECKED,
    "workbench/models/loading.py _weights.read": CHECKED,
    "workbench/models/loading.py _opened_gguf.read": "its header is read with open_regular before",
    "workbench/models/formats/peft_adapter.py opened.merged": CHECKED,
    "workbench/models/word_models.py read_vectors": "read_table, which opens with open_regular",
    "workbench/cli/demo.py tour": "a page is opened in a browser",
    "workbench/cli/demo_all.py every_experiment": "a page is opened in a browser",
    "workbench/runs/builtin.py pack": "the results of a run of this process",
    "workbench/runs/builtin.py _compact": "the results of a run of this process",
    "workbench/report/html.py _own": OURS,
    "workbench/report/pdf.py typeset": SCRATCH,
    "workbench/report/prose.py bibliography": OURS,
    "workbench/runs/isolated.py look": MESSAGE,
    "workbench/runs/isolated.py main": MESSAGE,
    "workbench/runs/processes/forked_call.py forked_call": MESSAGE,
    "workbench/runs/processes/forked_call.py main": MESSAGE,
    "workbench/runs/process.py spawn": OURS,
    "workbench/runs/processes/resources.py lower_priority": OURS,
    "workbench/runs/processes/starter.py _Starter._accepted": MESSAGE,
    "workbench/runs/processes/starter.py _inherited": OURS,
    "workbench/runs/processes/starter.py _show": OURS,
    "workbench/runs/processes/starter.py fork": OURS,
    "workbench/runs/request.py from_text": "a setting as a user typed it",
    "workbench/runs/request.py _unmet_by_corpora": "a request of this process, as text",
    "workbench/runs/processes/locks.py held": PIPES,
    "workbench/runs/processes/locks.py is_dying": OURS,
    "workbench/runs/processes/locks.py take": PIPES,
    "workbench/runs/processes/locks.py unheld": PIPES,
    "workbench/runs/run.py Tables._open": "an open file, of open_regular",
    "workbench/cli/main.py flushed_output": OURS,
    "workbench/analyses/training/objectives/electra.py _half": CHECKED,
    "workbench/analyses/training/initial_model.py _continued_model": CHECKED,
    "workbench/analyses/training/initial_model.py _teacher": CHECKED,
    "workbench/analyses/training/tokenizers.py _unigram": MESSAGE,
    "workbench/analyses/training/tokenizers.py save_tokenizer": SCRATCH,
    "workbench/core/machine.py _peak": OURS,
    "workbench/core/machine.py _reset_peak": OURS,
    "workbench/app/uploaded_files.py _chunks": "a part of a zip, and a new file (mode x)",
    "workbench/analyses/attention/browser/frames.py _block": OURS,
    "workbench/drawing/__init__.py js_file": OURS,
    "workbench/drawing/sanitize.py harmless": MESSAGE,
    "workbench/app/runs/export.py made": SCRATCH,
    "workbench/app/glossary.py terms": OURS,
    "workbench/app/library/uploads.py receive_corpus.fill": "a new file in a new folder",
    "workbench/analyses/probes/figures/probing.py published": OURS,
}  # fmt: skip


def readers(source: str) -> Iterator[tuple[str, str]]:
    """The function, and the call in it, of whatever opens a file by its path."""
    if NAMED.search(source):
        yield from _readers(ast.parse(source), [])


def _readers(node: ast.AST, within: list[str]) -> Iterator[tuple[str, str]]:
    for child in ast.iter_child_nodes(node):
        named = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        inner = [*within, child.name] if named else within  # type: ignore[attr-defined]
        if (isinstance(child, ast.Call) and _reads(child.func) and not _is_safe(child)) or (
            isinstance(child, ast.Attribute)
            and child.attr in ("read_text", "read_bytes")
            and not (isinstance(node, ast.Call) and node.func is child)
        ):
            yield ".".join(within), ast.unparse(child)
        yield from _readers(child, inner)


def _reads(called: ast.expr) -> bool:
    if not isinstance(called, ast.Attribute):
        return getattr(called, "id", "") in READERS
    return called.attr in READERS or f"{getattr(called.value, 'id', '')}.{called.attr}" in LOADERS


def _is_safe(call: ast.Call) -> bool:
    """Whether its file, or what it is asked of, is a regular file's or a draft's."""
    receiver = call.func.value if isinstance(call.func, ast.Attribute) else None
    for part in (receiver, *call.args[:1]):
        root: ast.AST | None = part
        while isinstance(root, ast.BinOp):  # draft / "name"
            root = root.left
        if isinstance(root, ast.Name) and root.id in DRAFTS:
            return True
        if isinstance(root, ast.Call) and getattr(root.func, "id", "") in SAFE:
            return True
        if isinstance(root, ast.Call) and ast.unparse(root).startswith("(draft / "):
            return True
    return False


@cache
def _found() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for source in SOURCES:
        there = ROOT / source
        for path in sorted(there.rglob("*.py")) if there.is_dir() else [there]:
            for within, call in readers(path.read_text("utf-8")):
                found.setdefault(f"{path.relative_to(ROOT)} {within}".strip(), []).append(call)
    return found


def test_no_file_is_opened_that_may_be_a_pipe() -> None:
    new = {where: calls for where, calls in _found().items() if where not in ALLOWED}
    assert not new, "use require_regular, read_regular, open_regular, read_json or parse_json"


def test_every_exception_is_still_needed() -> None:
    assert not ALLOWED.keys() - _found().keys()


@pytest.mark.parametrize(
    "source",
    [
        "open(path)",
        "path.read_text()",
        "save(path.read_bytes)",
        "np.load(folder / 'states.npy')",
        "def f():\n    with path.open('rb') as file: pass",
        "x = [json.loads(line) for line in file]",
    ],
)
def test_such_a_call_is_seen(source: str) -> None:
    assert list(readers(source))


@pytest.mark.parametrize(
    "source",
    [
        "np.load(require_regular(path))",
        "draft.open('wb')",
        "(draft / 'a').write_text(x)",
        "f.load(x)",
    ],
)
def test_a_call_that_waits_for_nothing_is_not(source: str) -> None:
    assert not list(readers(source))
