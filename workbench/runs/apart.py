"""Facts of a model for a page: asked of a process of its own, which imports torch and may die.

What is known of the files is answered from disk in half a second; else the model is opened once,
in seconds. Nothing is fetched unless asked for. Run as a module, it is that process: a question as
JSON on standard input, the answer on standard output.
"""

import contextlib
import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from typing import Any, Literal

from workbench import places
from workbench.errors import WorkbenchError
from workbench.files import parsed_json, read_regular, written_whole
from workbench.models.references import require_model
from workbench.runs.known import known

Question = Literal["facts", "parts"]
PATIENCE = 900  # seconds
_DIRECTION = re.compile(r"RNN_([01])/.*/Cell(\d+)/")
_ELMO = (
    (r"char_embed", "characters"),
    (r"CNN/", "character filters"),
    (r"CNN_high_|CNN_proj/", "highway and projection"),
    (r"softmax/", "softmax"),
)


def look(ref: str, question: Question, fetch: bool = False) -> dict[str, Any]:
    """Facts of a model, or its parameters by part; with `fetch` the hub may be asked."""
    require_model(ref)  # here: a mistyped name should not take seconds
    offline = {} if fetch else {"HF_HUB_OFFLINE": "1"}
    asked = json.dumps([ref, question])
    try:
        ended = subprocess.run(
            [sys.executable, "-m", __name__],
            input=asked,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=PATIENCE,
            env={**os.environ, **offline, "TRANSFORMERS_VERBOSITY": "error"},
        )
    except subprocess.TimeoutExpired:
        raise WorkbenchError(
            f"opening it took longer than {PATIENCE // 60} minutes.",
            where=ref,
            remedy="Try: workbench models show, which waits.",
        ) from None
    try:
        told: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    except (ValueError, IndexError):
        raise _died(ref, ended) from None
    if error := told.get("error"):
        raise WorkbenchError(error["what"], where=error["where"], remedy=error["remedy"])
    return told


def _died(ref: str, ended: "subprocess.CompletedProcess[str]") -> WorkbenchError:
    last = (ended.stderr.strip().splitlines() or ["no reason was given"])[-1]
    if ended.returncode < 0:
        last = f"its process was ended by signal {-ended.returncode}, as when memory runs out"
    return WorkbenchError(
        f"it could not be opened: {last.rstrip('.')}.",
        where=ref,
        remedy="See whether this machine's memory holds it, and whether its files are whole.",
    )


def _answered(ref: str, question: str) -> dict[str, Any]:
    found = known(ref)
    if question == "facts":
        return {"facts": {**found.facts, "name": ref}}
    path = places.home() / "known" / "parts" / f"{found.hash}.json"
    with contextlib.suppress(OSError, ValueError, LookupError, TypeError):
        kept = parsed_json(read_regular(path))
        if kept["check"] == _check(kept["parts"]):
            return {"parts": kept["parts"]}
    from workbench.models.loading import load
    from workbench.models.parts import parameters_by_part

    parts = _together(parameters_by_part(load(ref, "cpu", "fp32")))
    with contextlib.suppress(WorkbenchError), written_whole(path) as draft:
        draft.write_text(json.dumps({"parts": parts, "check": _check(parts)}))
    return {"parts": parts}


def _together(parts: Mapping[str, int]) -> dict[str, int]:
    """ELMo's tensors by what they belong to; any other model's parts as they are."""
    found: dict[str, int] = {}
    for part, number in parts.items():
        name = next((told for sign, told in _ELMO if re.match(sign, part)), part)
        if direction := _DIRECTION.match(part):
            way = "backward" if direction[1] == "1" else "forward"
            name = f"{way} layer {direction[2]}"
        found[name] = found.get(name, 0) + number
    return found


def _check(parts: Mapping[str, int]) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def main() -> None:
    """Answer the question on standard input."""
    ref, question = json.load(sys.stdin)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            told = _answered(ref, question)
    except WorkbenchError as error:
        told = {"error": {"what": error.what, "where": error.where, "remedy": error.remedy}}
    except Exception as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        what = f"it cannot be opened: {type(error).__name__}: {reason[:300]}"
        remedy = "Its files may be damaged, or not those of a model."
        told = {"error": {"what": what, "where": ref, "remedy": remedy}}
    print(json.dumps(told))


if __name__ == "__main__":
    main()
