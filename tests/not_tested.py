"""The last lines of pytest: what was not tested, and the command that adds it.

A plugin that `tests/conftest.py` registers. Costs: a look at each test that was skipped.
"""

import re
from collections import defaultdict
from collections.abc import Sequence

import pytest
from xdist.workermanage import WorkerController

NEEDS = (  # what the reason of a skip has, what the tests need, and how to have it
    (r"Chromium", "a browser", "apt-get install chromium"),
    (r"WORKBENCH_DATA", "public corpora", "WORKBENCH_DATA=FOLDER pytest"),
    (r"pip install", "a package", ""),  # the reason has its name
    (r"(no|needs a) (CUDA|GPU)", "a GPU", "python -m tests.gpu, where there is one"),
)
OTHERS = "pytest -rs"
SLOW = pytest.StashKey[int]()


def lines(reasons: Sequence[str], slow: int) -> list[str]:
    """Return a line for each thing that tests need, from the reasons why they were skipped."""
    groups: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for reason in reasons:
        fitting = ((what, how) for has, what, how in NEEDS if re.search(has, reason))
        groups[next(fitting, ("", OTHERS))].append(reason)
    found = []
    for what, how in (*((what, how) for _, what, how in NEEDS), ("", OTHERS)):
        if group := groups[what, how]:
            why = f"needs {what}" if what else "other reasons"
            found.append(f"{why} ({len(group)}): {how or ', '.join(_commands(group))}")
    return [*found, f"slow ({slow}): pytest -m slow"] if slow else found


def _commands(reasons: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(reason[reason.index("pip install") :] for reason in reasons))


def pytest_deselected(items: Sequence[pytest.Item]) -> None:
    if all(item.get_closest_marker("slow") for item in items):
        items[0].config.stash[SLOW] = len(items)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A process of pytest-xdist sends its number of slow tests."""
    if (sent := getattr(session.config, "workeroutput", None)) is not None:
        sent["slow"] = session.config.stash.get(SLOW, 0)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: WorkerController) -> None:
    """All processes of pytest-xdist collect the same tests."""
    sent = getattr(node, "workeroutput", {})
    node.config.stash[SLOW] = max(sent.get("slow", 0), node.config.stash.get(SLOW, 0))


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    skipped = terminalreporter.stats.get("skipped", [])
    reasons = [each.longrepr[2] for each in skipped if isinstance(each.longrepr, tuple)]
    if found := lines(reasons, config.stash.get(SLOW, 0)):
        terminalreporter.section("not tested")
        for line in found:
            terminalreporter.line(line)
