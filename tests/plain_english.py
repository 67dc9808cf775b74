"""Words that readers stumble over, in everything a person reads.

    python -m tests.plain_english        lists them in strings, docstrings and docs: FILE:LINE: WORD

Strings and docstrings of `workbench/`, `pages/` and `streamlit_app.py`; strings of the
JavaScript; the templates; README, CONTRIBUTING, AGENTS and `docs/`. Identifiers and comments are
not looked at. Costs: a second.
"""

import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
WORDS = re.compile(
    r"\b(nought|anew|by lot|told|asked|slopes?|where none is said|what (?:it|they) comes? to)\b",
    re.IGNORECASE,
)
CODE = ("workbench", "pages")
VOCABULARY = "workbench/corpora/primer/english.py"  # words of the built-in corpus
PROSE = ("README.md", "CONTRIBUTING.md", "AGENTS.md", "CHANGELOG.md")
JS_STRING = re.compile(r'"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\'|`(?:[^`\\]|\\.)*`')


def found(root: Path = ROOT) -> list[str]:
    """Every such word, as FILE:LINE: WORD."""
    return [
        f"{path.relative_to(root).as_posix()}:{line}: {match[0]}"
        for path, line, text in sorted(_texts(root), key=lambda each: (each[0], each[1]))
        for match in WORDS.finditer(text)
    ]


def _texts(root: Path) -> Iterator[tuple[Path, int, str]]:
    """Every text that a person may read, with its file and first line."""
    folders = [root / name for name in CODE]
    for path in [root / "streamlit_app.py", *(p for one in folders for p in one.rglob("*.py"))]:
        if path == root / VOCABULARY:
            continue
        source = path.read_text("utf-8")
        if WORDS.search(source) or WORDS.search(re.sub(r"\{[^{}]*\}", "", source)):
            yield from ((path, *text) for text in strings(source))
    for path in (p for one in folders for p in one.rglob("*.js")):
        source = path.read_text("utf-8")
        for match in JS_STRING.finditer(source):
            yield path, source.count("\n", 0, match.start()) + 1, match[0]
    templates = [p for one in folders for p in one.rglob("*.j2")]
    prose = [root / name for name in PROSE] + [*(root / "docs").rglob("*.md")]
    for path in [*templates, *(p for p in prose if p.is_file())]:
        for line, text in enumerate(path.read_text("utf-8").splitlines(), 1):
            yield path, line, text


def strings(source: str) -> Iterator[tuple[int, str]]:
    """The strings and docstrings of Python code, f-strings without their expressions."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        kind = tokenize.tok_name[token.type]
        if kind == "FSTRING_MIDDLE":  # Python 3.12 cuts f-strings itself
            yield token.start[0], token.string
        elif kind == "STRING":
            prefix = re.match(r"[a-zA-Z]*", token.string)[0].lower()  # type: ignore[index]
            text = re.sub(r"\{[^{}]*\}", "", token.string) if "f" in prefix else token.string
            if re.search(r"\s", text) or not text.strip("\"'").isidentifier():
                yield token.start[0], text


if __name__ == "__main__":
    rows = found()
    print(*rows, sep="\n")
    sys.exit(bool(rows))
