"""Workbench: train or load language models, and analyse what they have learnt.

    import workbench as wb
    model = wb.load("mini:bert")
    heads = wb.run("heads", model=model, corpus="primer")
    heads.tables["heads"].query("role == 'syntactic'")
    wb.report(heads, "heads.html")

Open models and corpora:

    load         a model: a folder, a hub id, a run, `mini:bert`, ..., or a net and its tokenizer
                 (Model)
    read, write  a corpus: a file, a folder, `primer`, ..., texts, a data frame   (Corpus)
    describe     the counts of a corpus

Predict, for a text:

    predict      what the model can: hidden words, the next piece, a label, a written text
    fill         the hidden words of a text, written `[MASK]`, `<mask>` or `___`
    generate     a continuation, or what an encoder-decoder writes; `summarise`, `answer`

Explain a prediction:

    attribute    which words of the text speak for it
    lens         what each layer of the model would predict
    contributions  what each head and MLP adds to a logit
    patch        which states, heads and MLPs carry what a counterfactual destroys
    steer        what the difference of two sets of texts does, added to a layer
    erase        what a linear probe finds in a layer, removed from it

Run experiments, and read their results:

    experiments  all experiments by name, each with its `settings`
    run          run an experiment, or read the result of the same request  (Run)
    sweep        run it for every combination of some models, corpora, seeds and settings
    experiment   make an experiment of a function
    callback     run an experiment on a net while it trains
    train        train a model
    runs         the runs on disk; `open_run` opens a run by its name
    compare      several runs: what changed, and their tables row by row
    report       write a report of one or more runs; `export` writes one table or figure
    export_model  write a folder that plain transformers opens

Look inside a forward pass:

    attention    the attention maps of a text
    encode       Docs as a batch
    forward      send a batch through a model, with taps
    Capture, Gate, Reduce   the taps: store maps, scale heads, sum statistics of maps
    Read, Write  store or change states: `block 2`, `block 2 mlp`, `head 2.3`, ...
    word_states  the hidden state of every word in every layer

Words in their contexts:

    neighbours   the occurrences of a corpus nearest to a word of a text
    senses       the occurrences of a word form on a map, in clusters
    occurrences  the index of a corpus that both search
    tokenizations  how the tokenizers of several models split a text, and step by step

Write an analysis: Analysis, Experiment, Settings, Result, Finding; `workbench.experiment` has
Inputs, Progress, Table and Caveat. A user error raises WorkbenchError, with a code and a remedy.

The classes of what functions return need not be named. Printed, an object shows what it is; the
results of attribute, lens, contributions, patch, neighbours, senses and tokenizations have their
numbers in `.table`, a pandas DataFrame, and draw themselves with `.figure()`, as does the
`.grid()` of attention.

`help(wb.NAME)` documents each name with an example. These names are the public interface; the
modules inside may change from one version to the next. Costs: milliseconds for `import workbench`,
because names are imported when they are first used.
"""

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

from workbench.core.version import __version__

if TYPE_CHECKING:
    from workbench.core.analysis import Analysis
    from workbench.core.errors import WorkbenchError
    from workbench.core.findings import Finding
    from workbench.corpora import read, write
    from workbench.corpora.corpus import Corpus
    from workbench.corpora.describe import describe
    from workbench.corpora.encode import encode
    from workbench.engine.activation_store import word_states
    from workbench.engine.forward_pass import forward
    from workbench.engine.map_statistics import Reduce
    from workbench.engine.model import Model
    from workbench.engine.taps import Capture, Gate
    from workbench.experiment import declare as experiment
    from workbench.experiment.definition import Experiment, Result, Settings
    from workbench.models.interventions.states import Read, Write
    from workbench.models.loading import load
    from workbench.report import write_report as report
    from workbench.report.export import export
    from workbench.runs import list_runs as runs
    from workbench.runs.api import experiments, run, sweep, train
    from workbench.runs.compare import compare
    from workbench.runs.exported_model import export_model
    from workbench.runs.run import Run, open_run

    __all__ = [
        "Analysis",
        "Capture",
        "Corpus",
        "Experiment",
        "Finding",
        "Gate",
        "Model",
        "Read",
        "Reduce",
        "Result",
        "Run",
        "Settings",
        "WorkbenchError",
        "Write",
        "__version__",
        "compare",
        "describe",
        "encode",
        "experiment",
        "experiments",
        "export",
        "export_model",
        "forward",
        "load",
        "open_run",
        "read",
        "report",
        "run",
        "runs",
        "sweep",
        "train",
        "word_states",
        "write",
    ]

# Before torch is loaded: threads of OpenMP spin for milliseconds while they wait for each other,
# which makes small models ten times slower next to a busy process (see docs/decisions/runs.md).
if "OMP_WAIT_POLICY" not in os.environ:
    os.environ.setdefault("GOMP_SPINCOUNT", "5000")

# The module of each name, or "module:attribute"; with a colon at the end, the name is the module
# itself. `wb.runs()`, `wb.report(...)` and `@wb.experiment` call packages, which define `__call__`.
_HOMES = {
    # open models and corpora
    "load": "workbench.models.loading",
    "read": "workbench.corpora",
    "write": "workbench.corpora",
    "describe": "workbench.corpora.describe",
    "Model": "workbench.engine.model",
    "Corpus": "workbench.corpora.corpus",
    # run experiments, and read their results
    "run": "workbench.runs.api",
    "sweep": "workbench.runs.api",
    "train": "workbench.runs.api",
    "experiments": "workbench.runs.api",
    "runs": "workbench.runs:",
    "open_run": "workbench.runs.run",
    "compare": "workbench.runs.compare",
    "report": "workbench.report:",
    "export": "workbench.report.export",
    "export_model": "workbench.runs.exported_model",
    "Run": "workbench.runs.run",
    # look inside a forward pass
    "encode": "workbench.corpora.encode",
    "forward": "workbench.engine.forward_pass",
    "word_states": "workbench.engine.activation_store",
    "Capture": "workbench.engine.taps",
    "Gate": "workbench.engine.taps",
    "Reduce": "workbench.engine.map_statistics",
    "Read": "workbench.models.interventions.states",
    "Write": "workbench.models.interventions.states",
    # write an experiment
    "experiment": "workbench.experiment:",
    "Analysis": "workbench.core.analysis",
    "Experiment": "workbench.experiment.definition",
    "Settings": "workbench.experiment.definition",
    "Result": "workbench.experiment.definition",
    "Finding": "workbench.core.findings",
    "WorkbenchError": "workbench.core.errors",
}


def home_of(name: str) -> str | None:
    """Return the module of a name, here or announced by an analysis."""
    if name in _HOMES:
        return _HOMES[name]
    if name.startswith("_"):
        return None
    from workbench.core.analysis import announced

    return announced("functions").get(name)


def __getattr__(name: str) -> Any:
    if name == "__all__":
        return __dir__()
    home = home_of(name)
    if home is None:
        raise AttributeError(f"module 'workbench' has no attribute {name!r}")
    module, colon, attribute = home.partition(":")
    imported = import_module(module)
    return imported if colon and not attribute else getattr(imported, attribute or name)


def __dir__() -> list[str]:
    from workbench.core.analysis import announced

    return sorted([*_HOMES, *announced("functions"), "__version__"])
