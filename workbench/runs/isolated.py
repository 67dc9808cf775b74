"""Facts of a model for a page: asked of a process of its own, which imports torch and may die.

Anybody may have written the model's files, so that process has limits of memory and of time, which
follow the size of the files. When time is up it is killed with all that it started, whether or not
a browser still waits; when the process that asked is gone, it ends by itself. What is known of the
files is answered from disk in half a second; else the model is opened once, in seconds. Nothing is
fetched unless asked for. Run as a module, it is that process: a question as JSON in the first line
of standard input, which stays open as long as the answer is wanted; the answer on standard output.
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
from typing import IO, Any, Literal

from workbench.core import machine
from workbench.core.errors import WorkbenchError
from workbench.core.files import parsed_json, read_regular, written_whole
from workbench.core.machine import limit_memory, machine_memory, ran_out
from workbench.models.references import RANDOM, require_model
from workbench.runs.model_facts import files_of, known

Question = Literal["facts", "parts"]
FETCHING = 900.0  # seconds that a download may take
PATIENCE = 60.0  # seconds that opening the smallest model may take, on a busy machine
SPEED = 32 << 20  # bytes of files read and hashed in a second, at least
ROOM = 4 << 30  # bytes for torch and its kin (0.5 GiB) and for tokenizers
COPIES = 4  # bytes of memory for a byte of a file: half precision is opened in single
SHARE = 0.75  # of the machine's memory, at most; of fresh weights, for which no file speaks, half
_READ = 16 << 20  # bytes of an answer; ids and labels of a large model take a few
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
    memory, seconds = limits(ref, fetch)
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            [sys.executable, "-m", __name__],
            stdin=subprocess.PIPE,
            stdout=out,
            stderr=log,
            env={**os.environ, **offline, "TRANSFORMERS_VERBOSITY": "error"},
            start_new_session=True,
        )
        assert process.stdin is not None
        try:
            with contextlib.suppress(BrokenPipeError):
                process.stdin.write(json.dumps([ref, question, memory]).encode() + b"\n")
                process.stdin.flush()
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise _too_slow(ref, seconds) from None
        finally:
            _end(process)
            with contextlib.suppress(BrokenPipeError):
                process.stdin.close()
        try:
            told: dict[str, Any] = json.loads(_end_of(out).splitlines()[-1])
        except (ValueError, IndexError):
            raise _died(ref, process.returncode, _end_of(log)) from None
    if error := told.get("error"):
        raise WorkbenchError(error["what"], where=error["where"], remedy=error["remedy"])
    return told


def limits(ref: str, fetch: bool = False) -> tuple[int, float]:
    """How many bytes of memory opening a model may take, and how many seconds."""
    there = machine_memory()
    try:
        size = sum(path.stat().st_size for path in files_of(ref.removesuffix(RANDOM)))
    except (OSError, ValueError, RuntimeError):
        size = 0  # opening it will say what is wrong
    memory = int(min(SHARE * there, ROOM + COPIES * size))
    if fetch or not size:
        return int(SHARE * there), FETCHING if fetch else PATIENCE
    if ref.endswith(RANDOM):
        memory = max(memory, there // 2)
    return memory, PATIENCE + size / SPEED


def _end(process: "subprocess.Popen[bytes]") -> None:
    """Kill a process and all that it started, if it has not ended."""
    if process.poll() is not None:
        return
    if sys.platform == "win32":
        process.kill()
    else:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _end_of(file: IO[bytes]) -> str:
    """The last of what a process wrote; it may have written without end."""
    file.seek(max(0, file.seek(0, os.SEEK_END) - _READ))
    return file.read().decode(errors="replace")


def _too_slow(ref: str, seconds: float) -> WorkbenchError:
    return WorkbenchError(
        f"opening it took longer than {seconds:,.0f} seconds, and was stopped.",
        where=ref,
        remedy="Check the numbers in config.json against the checkpoint it belongs to. Without a "
        "limit of time: workbench models show REF.",
    )


def _too_large(ref: str, memory: int) -> WorkbenchError:
    return WorkbenchError(
        f"opening it needs more than {memory / 2**30:,.1f} GiB of memory, which is the limit for "
        "files of this size on this machine.",
        where=ref,
        remedy="Check the numbers in config.json against the checkpoint it belongs to. Without a "
        "limit of memory: workbench models show REF.",
    )


def _died(ref: str, code: int, log: str) -> WorkbenchError:
    last = (log.strip().splitlines() or ["no reason was given"])[-1][-300:]
    if code < 0:
        last = f"its process was ended by signal {-code}, as when memory runs out"
    return WorkbenchError(
        f"it could not be opened: {last.rstrip('.')}.",
        where=ref,
        remedy="See whether this machine's memory holds it, and whether its files are whole.",
    )


def _answered(ref: str, question: str) -> dict[str, Any]:
    found = known(ref)
    if question == "facts":
        return {"facts": {**found.facts, "name": ref}}
    path = machine.home() / "known" / "parts" / f"{found.hash}.json"
    with contextlib.suppress(OSError, ValueError, LookupError, TypeError):
        kept = parsed_json(read_regular(path))
        if kept["check"] == _check(kept["parts"]):
            return {"parts": kept["parts"]}
    from workbench.models.loading import load

    parts = _together(load(ref, "cpu", "fp32").parameters_by_part())
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
    ref, question, memory = json.loads(sys.stdin.buffer.readline())
    limit_memory(memory)
    threading.Thread(target=_end_with_asker, daemon=True).start()
    try:
        with contextlib.redirect_stdout(sys.stderr):
            told = _answered(ref, question)
    except Exception as error:
        found = _too_large(ref, memory) if ran_out(error) else _as_told(ref, error)
        told = {"error": {"what": found.what, "where": found.where, "remedy": found.remedy}}
    print(json.dumps(told), flush=True)
    os._exit(0)  # the thread still reads, and nothing is left to clear up


def _end_with_asker() -> None:
    """End this process once nobody waits for its answer: standard input is closed then."""
    sys.stdin.buffer.read()
    os._exit(1)


def _as_told(ref: str, error: Exception) -> WorkbenchError:
    if isinstance(error, WorkbenchError):
        return error
    reason = (str(error).strip() or type(error).__name__).splitlines()[0]
    return WorkbenchError(
        f"it cannot be opened: {type(error).__name__}: {reason[:300]}",
        where=ref,
        remedy="Its files may be damaged, or not those of a model.",
    )


if __name__ == "__main__":
    main()
