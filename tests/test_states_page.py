"""Each of the eleven tasks of a TransformerLens user takes no more lines than there."""

import re

from tests.examples import ROOT

PAGE = ROOT / "docs" / "how-to" / "states.md"


def test_eleven_tasks_take_no_more_lines_than_in_transformer_lens() -> None:
    _, _, tasks = PAGE.read_text("utf-8").partition("## Eleven tasks")
    tasks, _, _ = tasks.partition("\n## ")
    found = re.findall(r"### (.+?)\n(.*?)(?=\n### |\Z)", tasks, flags=re.DOTALL)
    assert len(found) == 11
    for title, text in found:
        (theirs,) = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
        (ours,) = re.findall(r"```pycon\n(.*?)```", text, flags=re.DOTALL)
        lines = [line for line in ours.splitlines() if line.startswith((">>> ", "... "))]
        assert 0 < len(lines) <= len([line for line in theirs.splitlines() if line.strip()]), title
