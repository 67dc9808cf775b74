"""JSON lines: one object per line, with its line number.

Values that Python's parser accepts but later steps cannot store (`NaN`, half a surrogate pair) are
errors here. Costs: the parse; one line is in memory at a time.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from workbench.core.errors import WorkbenchError
from workbench.core.files import numbered_lines


def numbered_objects(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (line number from 1, object); blank lines are skipped."""
    for number, line in numbered_lines(path):
        if line.strip():
            yield number, _object(line, f"{path}:{number}")


def _object(line: str, where: str) -> dict[str, Any]:
    if line.lstrip().startswith("["):
        raise WorkbenchError(
            "this is a JSON array, not JSON lines.",
            code="file-format",
            where=where,
            remedy="Write one object per line, for example: jq -c '.[]' IN.json > OUT.jsonl",
        )
    try:
        value = json.loads(line, parse_constant=_refuse)
        if "\\u" in line:
            json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        raise _not_json("half a surrogate pair, which is not a character", where) from None
    except RecursionError:
        raise _not_json("nested too deeply", where) from None
    except ValueError as error:
        raise _not_json(str(error), where) from None
    if not isinstance(value, dict):
        raise WorkbenchError(
            f"this is a JSON {type(value).__name__}, not an object.",
            code="file-format",
            where=where,
            remedy='Write one object per line, for example {"text": "...", "label": "..."}.',
        )
    return value


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not a JSON value; write null")


def _not_json(reason: str, where: str) -> WorkbenchError:
    return WorkbenchError(
        f"not a line of JSON: {reason}.",
        code="file-format",
        where=where,
        remedy="Write one whole object per line. To rewrite a file: jq -c . IN.json > OUT.jsonl",
    )
