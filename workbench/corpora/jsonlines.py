"""JSON lines hold either labelled edges or a table of tasks; the first object tells which.

An object with "targets" is an edge file in the form jiant introduced; any other is a table. Costs
the reading of one line, and what `edges_jsonl` or `tables` cost.
"""

from collections.abc import Sequence
from pathlib import Path

from workbench.corpora import edges_jsonl, tables
from workbench.corpora.corpus import Options, Reading
from workbench.corpora.edges_jsonl import write
from workbench.corpora.json_objects import numbered_objects

__all__ = ["reader", "write"]


def reader(paths: Sequence[Path], options: Options) -> Reading:
    """Hand over to the reader of edges or of tables."""
    first = next((entry for path in paths for _, entry in numbered_objects(path)), {})
    if "targets" in first:
        return edges_jsonl.reader(paths, options)
    return tables.reader(paths, options)
