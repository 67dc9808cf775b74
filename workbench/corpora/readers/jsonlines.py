"""JSON lines: labelled edges, or a table of texts and labels; the first object decides which.

A file whose first object has "targets" is an edge file in jiant's form; any other is a table. A
file of SQuAD is one object. Costs: the reading of one line, then the cost of `edges_jsonl`, `squad`
or `tables`.
"""

from collections.abc import Sequence
from pathlib import Path

from workbench.corpora.corpus import Options, Reading
from workbench.corpora.readers import edges_jsonl, squad, tables
from workbench.corpora.readers.edges_jsonl import write
from workbench.corpora.readers.json_objects import numbered_objects

READS = (".jsonl", ".json")
WRITES = (".jsonl",)
PLACE = 3  # in lists of formats

__all__ = ["reader", "write"]


def reader(paths: Sequence[Path], options: Options) -> Reading:
    """The reader of SQuAD, edges or tables, by the beginning of the files."""
    if paths and squad.is_squad(paths[0]):
        return squad.squad_reader(options)
    first = next((entry for path in paths for _, entry in numbered_objects(path)), {})
    if "targets" in first:
        return edges_jsonl.edges_reader(paths, options)
    return tables.reader(paths, options)
