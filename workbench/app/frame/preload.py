"""Prepares the app in the background when it starts: imports of pages, and the starter of runs.

Without it the first visit of each page would import what it needs while its reader waits. A page
that is opened before everything is imported waits: two threads that import torch and transformers
at a time see half of them. The starter ends with the app. A GPU is left alone: the first model is
opened ahead only where there is none. Costs: seconds of processor time when the app starts, in a
thread and in other processes.
"""

import gc
import logging
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module

from streamlit import runtime
from streamlit.runtime.scriptrunner import get_script_run_ctx

from workbench.app import foreground
from workbench.core.analysis import analyses
from workbench.core.errors import WorkbenchError
from workbench.runs.processes import starter
from workbench.runs.processes.forked_call import always_fork

MODULES = (  # in the order in which a reader is likely to need them
    "pandas", "plotly.graph_objects", "workbench.corpora", "torch", "transformers",
    "workbench.runs.api", "workbench.models.loading", "workbench.corpora.primer.gold",
    "transformers.models.bert.modeling_bert", "workbench.core.doctor",
    "workbench.app.library.corpus_browser",
    "workbench.app.runs.any_experiment", "workbench.app.runs.run_view", "workbench.app.frame.home",
    "workbench.app.runs.runs_page", "workbench.app.library.model_facts", "workbench.report.content",
    "workbench.report.prose", "workbench.report.html", "workbench.report.export",
    "workbench.drawing.vector", "workbench.drawing.parameters", "workbench.drawing.pixels",
    "scipy.stats", "workbench.fetch",
)  # fmt: skip
PATIENCE = 10.0  # seconds to wait until the server of the app runs
LONGEST = 120.0  # seconds that a page waits for imports
_once = threading.Lock()
_imports = threading.Event()  # all are done


def begin() -> None:
    """Import what pages need, and have the starter import, in the background, once a process."""
    if _once.acquire(blocking=False):
        threading.Thread(target=_prepare, name="preload", daemon=True).start()


def is_ready() -> bool:
    """Whether everything that pages need is imported."""
    return _imports.is_set()


def await_imports() -> None:
    """Wait until everything that pages need is imported."""
    _imports.wait(LONGEST)


def _prepare() -> None:
    try:
        _import_all()
    finally:
        _imports.set()
        gc.freeze()  # Streamlit collects garbage after each page: 0.6 s among all these modules
    starter.await_ready()
    if starter.is_ready():  # else visitors would wait while this process computes it
        with suppress(WorkbenchError, OSError):
            for _ in _show_ahead():
                foreground.let_pages_be_drawn()
        gc.freeze()


def _import_all() -> None:
    always_fork()
    starter.end_with_this()
    starter.begin()
    deadline = time.monotonic() + PATIENCE
    for name in (*MODULES, *_of_analyses()):
        while _has_caches(name) and not runtime.exists() and time.monotonic() < deadline:
            time.sleep(0.05)  # they would warn that there is no app
        with suppress(Exception):  # the page that needs it has the error
            import_module(name)


def _of_analyses() -> Iterator[str]:
    """Yield the modules that pages of analyses import."""
    for analysis in analyses().values():
        homes = [*analysis.results.values(), analysis.first_look, *(t.draw for t in analysis.tabs)]
        homes += [page.draw for page in (analysis.page, *analysis.pages) if page is not None]
        yield from analysis.modules
        yield from (analysis.home(home).partition(":")[0] for home in filter(None, homes))


def _has_caches(name: str) -> bool:
    return name.startswith("workbench.app.") or ".views" in name


def _show_ahead() -> Iterator[None]:
    """Store what the pages show of the first model and corpus, step by step."""
    from workbench.app import cache, navigation
    from workbench.app.choice import CORPORA, FIRST_MODEL, FIRST_READER
    from workbench.app.frame import home
    from workbench.runs.builtin import builtin_run_of
    from workbench.runs.isolated import look
    from workbench.runs.request import make_request

    # what is cached has spinners, and Streamlit would warn that no page shows them
    logging.getLogger(get_script_run_ctx.__module__).setLevel(logging.ERROR)
    home.draw_ahead()
    yield
    cache.prepare_corpus(CORPORA[0])
    for kind in ("facts", "parts"):
        look(FIRST_MODEL, kind)
    shown = [navigation.result_page_of(each) for a in analyses().values() for each in a.results]
    opened = {next(iter(page.experiments.values())): page for page in shown}  # of pages, at first
    for experiment, page in opened.items():
        if run := builtin_run_of(experiment, FIRST_MODEL, CORPORA[0]):
            page.ahead(run)
            yield
    first_split = next(iter(cache.corpus(CORPORA[0]).splits))
    cache.sentence(CORPORA[0], first_split, 0)
    yield
    for experiment in opened:
        make_request(experiment, [FIRST_MODEL], [CORPORA[0]]).unmet_requirements()
        yield
    if cache.machine().device.kind == "cpu":
        for analysis in analyses().values():
            for ahead in analysis.ahead:
                analysis.imported(ahead)(FIRST_READER, CORPORA[0])
                yield
