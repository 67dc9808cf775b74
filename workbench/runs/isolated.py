"""Facts of a model for a page, computed in a separate process, which imports torch and may die.

The model's files are not trusted, so the process has limits of memory and time that depend on the
size of the files. When the time is over it is killed with all processes it started, even if a
browser still waits; when its parent process ends, it ends too. Nothing is downloaded by default.
Run as a module, this file is that process: it reads a request as JSON in the first line of standard
input, which stays open while the result is needed, and prints the result on standard output.
Costs: hashing the files if the facts are stored; else the model is opened once, some seconds.
"""

import contextlib
import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any, Literal

from workbench.core import machine
from workbench.core.errors import WorkbenchError
from workbench.core.files import atomic_write, read_json
from workbench.core.machine import is_out_of_memory, limit_memory, machine_memory
from workbench.models.references import BUILT_IN_MODELS, require_model, split_ref
from workbench.runs.model_facts import Known, files_of, known, stored
from workbench.runs.processes import starter
from workbench.runs.processes.forked_call import forked_call

Question = Literal["facts", "parts"]
FETCHING = 900.0  # maximum seconds of a download
PATIENCE = 60.0  # maximum seconds to open the smallest model, on a busy machine
SPEED = 32 << 20  # minimum bytes of files read and hashed per second
ROOM = 4 << 30  # bytes for torch and its dependencies (0.5 GiB) and for tokenizers
COPIES = 4  # bytes of memory per byte of a file: half precision is opened as single
SHARE = 0.75  # maximum share of the machine's memory; half of it for random weights without files
_READ = 16 << 20  # maximum bytes of a result; ids and labels of a large model take a few MB
_OWN = {"TRANSFORMERS_VERBOSITY": "error", starter.SWITCH: "0"}  # it opens the model itself
_DIRECTION = re.compile(r"RNN_([01])/.*/Cell(\d+)/")
_ELMO = (
    (r"char_embed", "characters"),
    (r"CNN/", "character filters"),
    (r"CNN_high_|CNN_proj/", "highway and projection"),
    (r"softmax/", "softmax"),
)


def look(ref: str, kind: Question, fetch: bool = False) -> dict[str, Any]:
    """Return facts of a model, or its parameters by part; `fetch` allows a download."""
    require_model(ref)  # checked here, so that a mistyped name fails at once
    if not fetch and (known_before := _stored(ref, kind)):
        return known_before
    if split_ref(ref).source in BUILT_IN_MODELS and starter.is_ready():
        return forked_call(facts_or_parts, ref, kind)  # its files are ours
    offline = {} if fetch else {"HF_HUB_OFFLINE": "1"}
    memory, seconds = limits(ref, fetch)
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            [sys.executable, "-m", __name__],
            stdin=subprocess.PIPE,
            stdout=out,
            stderr=log,
            env={**os.environ, **offline, **_OWN},
            start_new_session=True,
        )
        assert process.stdin is not None
        try:
            with contextlib.suppress(BrokenPipeError):
                process.stdin.write(json.dumps([ref, kind, memory]).encode() + b"\n")
                process.stdin.flush()
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise _too_slow(ref, seconds) from None
        finally:
            _end(process)
            with contextlib.suppress(BrokenPipeError):
                process.stdin.close()
        try:
            result: dict[str, Any] = json.loads(_end_of(out).splitlines()[-1])
        except (ValueError, IndexError):
            raise _died(ref, process.returncode, _end_of(log)) from None
    if error := result.get("error"):
        raise WorkbenchError(
            error["what"], code=error["code"], where=error["where"], remedy=error["remedy"]
        )
    return result


def limits(ref: str, fetch: bool = False) -> tuple[int, float]:
    """Return the maximum bytes of memory and the maximum seconds for opening a model."""
    available = machine_memory()
    try:
        size = sum(path.stat().st_size for path in files_of(split_ref(ref).source))
    except (OSError, ValueError, RuntimeError):
        size = 0  # opening it reports the error
    memory = int(min(SHARE * available, ROOM + COPIES * size))
    if fetch or not size:
        return int(SHARE * available), FETCHING if fetch else PATIENCE
    if split_ref(ref).is_random:
        memory = max(memory, available // 2)
    return memory, PATIENCE + size / SPEED


def _end(process: "subprocess.Popen[bytes]") -> None:
    """Kill a process and all processes it started, unless it has ended."""
    if process.poll() is not None:
        return
    if sys.platform == "win32":
        process.kill()
    else:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _end_of(file: IO[bytes]) -> str:
    """Return the end of what a process wrote, which may be very long."""
    file.seek(max(0, file.seek(0, os.SEEK_END) - _READ))
    return file.read().decode(errors="replace")


def _too_slow(ref: str, seconds: float) -> WorkbenchError:
    return WorkbenchError(
        f"opening the model took longer than {seconds:,.0f} seconds, and was stopped.",
        code="time-limit",
        where=ref,
        remedy="Check that config.json belongs to the checkpoint. To open the model without a time "
        "limit: workbench models show REF.",
    )


def _too_large(ref: str, memory: int) -> WorkbenchError:
    return WorkbenchError(
        f"opening the model needs more than {memory / 2**30:,.1f} GiB of memory, which is the "
        "limit for files of this size on this machine.",
        code="out-of-memory",
        where=ref,
        remedy="Check that config.json belongs to the checkpoint. To open the model without a "
        "memory limit: workbench models show REF.",
    )


def _died(ref: str, code: int, log: str) -> WorkbenchError:
    last = (log.strip().splitlines() or ["no error message was given"])[-1][-300:]
    if code < 0:
        last = f"its process was ended by signal {-code}, for example because memory ran out"
    return WorkbenchError(
        f"the model could not be opened: {last.rstrip('.')}.",
        code="model-unreadable",
        where=ref,
        remedy="Check that this machine has enough memory, and that the files are complete.",
    )


def facts_or_parts(ref: str, kind: str) -> dict[str, Any]:
    """Return facts of a model, which are stored for the next time; it may be opened here."""
    model = known(ref)
    if kind == "facts":
        return {"facts": {**model.facts, "name": ref}}
    path = _parts_file(model)
    if cached := _stored_parts(path):
        return {"parts": cached}
    from workbench.models.loading import load

    parts = _together(load(ref, "cpu", "fp32").parameters_by_part())
    with contextlib.suppress(WorkbenchError), atomic_write(path) as draft:
        draft.write_text(json.dumps({"parts": parts, "check": _check(parts)}))
    return {"parts": parts}


def _stored(ref: str, kind: Question) -> dict[str, Any] | None:
    """Return the result for a model that was opened before with the same files; else None."""
    if (model := stored(ref)) is None:
        return None
    if kind == "facts":
        return {"facts": {**model.facts, "name": ref}}
    parts = _stored_parts(_parts_file(model))
    return {"parts": parts} if parts else None


def _parts_file(model: Known) -> Path:
    return machine.home() / "known" / "parts" / f"{model.hash}.json"


def _stored_parts(path: Path) -> dict[str, int] | None:
    with contextlib.suppress(OSError, ValueError, LookupError, TypeError):
        cached = read_json(path)
        if cached["check"] == _check(cached["parts"]):
            return dict(cached["parts"])
    return None


def _together(parts: Mapping[str, int]) -> dict[str, int]:
    """Group the tensors of ELMo by part of the model; the parts of other models stay."""
    grouped: dict[str, int] = {}
    for part, number in parts.items():
        name = next((title for pattern, title in _ELMO if re.match(pattern, part)), part)
        if direction := _DIRECTION.match(part):
            side = "backward" if direction[1] == "1" else "forward"
            name = f"{side} layer {direction[2]}"
        grouped[name] = grouped.get(name, 0) + number
    return grouped


def _check(parts: Mapping[str, int]) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def main() -> None:
    """Print the result of the request on standard input."""
    ref, kind, memory = json.loads(sys.stdin.buffer.readline())
    limit_memory(memory)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        with contextlib.redirect_stdout(sys.stderr):
            result = facts_or_parts(ref, kind)
    except Exception as error:
        failure = _too_large(ref, memory) if is_out_of_memory(error) else _as_error(ref, error)
        fields = ("what", "code", "where", "remedy")
        result = {"error": {name: getattr(failure, name) for name in fields}}
    print(json.dumps(result), flush=True)
    os._exit(0)  # the thread still reads, and nothing is left to clean up


def _end_with_parent() -> None:
    """End this process when the parent closes standard input: it no longer needs the result."""
    sys.stdin.buffer.read()
    os._exit(1)


def _as_error(ref: str, error: Exception) -> WorkbenchError:
    if isinstance(error, WorkbenchError):
        return error
    reason = (str(error).strip() or type(error).__name__).splitlines()[0]
    return WorkbenchError(
        f"the model cannot be opened: {type(error).__name__}: {reason[:300]}",
        code="model-unreadable",
        where=ref,
        remedy="Check that the files are complete, and that they belong to a model.",
    )


if __name__ == "__main__":
    main()
