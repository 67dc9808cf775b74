"""What every test stands on: few threads, no network by accident, public data where it is."""

import gc
import os
import shutil
import tempfile
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest
from hypothesis import settings
from playwright.sync_api import Browser, sync_playwright
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

from tests import not_tested, warm
from workbench.runs import launch, run, subruns
from workbench.runs.interactive import background
from workbench.runs.processes import device_queue, forked_call, starter

# Before anything imports torch or a tokenizer: two cores must serve every process.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["WORKBENCH_STARTER"] = "0"  # commands leave no process behind
os.environ["COLUMNS"] = "80"  # tables come as wide as anywhere that is no terminal


gc.disable()  # until all is imported: that makes millions of objects, and hardly any garbage

COLLECTED = "WORKBENCH_TESTS_COLLECTED"  # `tests/later.py` waits for the file of this name
FIRST = (
    ("torch", "torch._dynamo", "transformers.modeling_utils"),
    ("scipy.stats", "sklearn.linear_model", "streamlit", "plotly.graph_objects"),
)
HOSTILE = "evil.example"  # a name that leads to this machine, as a hostile name server can say
CHROMIUM = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
    "--force-prefers-reduced-motion",  # a spinner takes as much processor time as a page
    f"--host-resolver-rules=MAP {HOSTILE} 127.0.0.1",
]  # fmt: skip

# The same examples each time, and no deadline: a check must not fail for a busy machine.
settings.register_profile("same", derandomize=True, deadline=None, max_examples=15)
settings.register_profile("search", deadline=None, max_examples=1000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))


# Of the zoo; by day, models of two and three layers have each order of depths, and
# `test_rectangular_models_number_their_sites` has twelve layers.
DEEP = {"bart-6-12", "bart-12-6", "t5-6-12", "t5-12-6"}
# Of the zoo; by day, where a test tries all of it, other families have the same attention, blocks
# and objective: BERT, bart-3-2 and t5-3-2. Each day all are captured, though.
ALIKE = {"roberta", "distilbert", "electra", "bart", "t5", "mt5"}
TRIED_EACH_DAY = {"test_attention.py"}


class TogetherByFile(LoadFileScheduling):  # type: ignore[misc]
    """Which tests one process does: a file's, for they share what they made.

    All tests of the browser share one browser and one app. xdist's own groups (`--dist loadgroup`)
    are silently lost with pytest 9.2.
    """

    def _split_scope(self, nodeid: str) -> str:
        file = str(super()._split_scope(nodeid))
        path = self.config.rootpath / file
        return "browser" if "pytest.mark.browser" in path.read_text("utf-8") else file


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> TogetherByFile:
    return TogetherByFile(config, log)


def pytest_xdist_setupnodes() -> None:
    """All processes of tests have others forked by one server: each of its own imports anew.

    They know its name only if it is there before the first of them is.
    """
    if COLLECTED not in os.environ:
        os.environ[COLLECTED] = str(Path(tempfile.mkdtemp()) / "collected")
    warm.name()


def pytest_configure_node(node: WorkerController) -> None:
    warm.begin()


def pytest_xdist_node_collection_finished() -> None:
    Path(os.environ[COLLECTED]).touch()


def pytest_unconfigure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput") and warm.FOLDER in os.environ:
        warm.end()


def pytest_configure(config: pytest.Config) -> None:
    """Two processes begin with other packages each: in a fresh environment they compile them."""
    config.pluginmanager.register(not_tested)
    if given := getattr(config, "workerinput", None):
        for name in FIRST[int(given["workerid"].removeprefix("gw")) % len(FIRST)]:
            import_module(name)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The models with twelve layers on one side, and those like others, are for the night."""
    named = [(item, _strings(item)) for item in items]
    of_test: dict[str, set[str]] = {}
    for item, names in named:
        of_test.setdefault(item.nodeid.partition("[")[0], set()).update(names)
    for item, names in named:
        tries_all = of_test[item.nodeid.partition("[")[0]] >= ALIKE
        is_alike = tries_all and names & ALIKE and item.path.name not in TRIED_EACH_DAY
        if names & DEEP or is_alike:
            item.add_marker(pytest.mark.slow)


def _strings(item: pytest.Item) -> set[str]:
    """What a test is parametrized with."""
    called = getattr(item, "callspec", None)
    return {each for each in called.params.values() if isinstance(each, str)} if called else set()


def pytest_collection_finish() -> None:
    """From here on garbage is collected, only among what the tests make, and not too often."""
    gc.freeze()
    gc.set_threshold(10_000, 20, 100)
    gc.enable()


@pytest.fixture(autouse=True)
def _calls_are_forked_or_not_as_at_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """The app, in this process, has all calls forked from then on."""
    monkeypatch.setattr(forked_call, "_always", False)


@pytest.fixture(scope="session")
def data() -> Path:
    """The folder of public corpora, or a skip that says how to have it."""
    if not (named := os.environ.get("WORKBENCH_DATA")):
        pytest.skip("set WORKBENCH_DATA to a folder with the public corpora")
    folder = Path(named)
    assert folder.is_dir(), f"WORKBENCH_DATA names no folder: {folder}"
    return folder


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Chromium, one for all tests of a process; or a skip that says how to have it."""
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        pytest.skip("no Chromium; on Debian: apt-get install chromium")
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=path, args=CHROMIUM)
        yield opened
        opened.close()


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs in this process draw no figures: for tests of what their tables say."""
    monkeypatch.setattr(run, "write_figures", lambda *given: [])


@pytest.fixture(autouse=True, scope="module")
def _workers_are_forked() -> Iterator[None]:
    """Fork the processes of runs from one that has imported what they need."""
    if os.environ.get("WORKBENCH_TESTS_FRESH"):
        yield
        return
    with pytest.MonkeyPatch.context() as patch:
        warm.fork_workers(patch)
        patch.setattr(launch, "EVERY", 0.02)  # such a run takes less than the pause between looks
        patch.setattr(subruns, "EVERY", 0.02)
        patch.setattr(device_queue, "EVERY", 0.02)
        patch.setattr(background, "EVERY", 0.02)
        yield


@pytest.fixture(scope="module")
def warm_workers(_workers_are_forked: None) -> None:
    """Wait until that one has imported it."""
    if not os.environ.get("WORKBENCH_TESTS_FRESH"):
        warm.begin()
        starter.await_ready(120)
