"""The starter: a process that has imported torch, transformers and spaCy, and forks others.

    begin()                                  have it import, unless it does or did so already
    process = fork("workbench.runs.worker", [...], stdin=0, stdout=1, stderr=2)

A forked process is what `python -P -m MODULE ARGUMENTS` would be, without the seconds of imports: a
session of its own, with the environment, working directory and files of the client. The starter
runs no operation of torch, starts no thread and does not touch CUDA, so forking is safe. It ends
when it has not been needed for some minutes, when the code or the installed packages change, or
with the app that began it.

There is one for each user, interpreter, version of the code, and everything that a process would
inherit from the one that starts it (`_key`). Its socket is in a folder that only its user may
enter. `fork` returns None where there is none: on other systems than Linux, if WORKBENCH_STARTER is
0, or if anything fails. Costs: the imports, once, and their memory (mostly shared with children).
"""

import ctypes
import gc
import hashlib
import json
import math
import os
import selectors
import signal
import socket
import stat
import struct
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from workbench.core.ending import run_process
from workbench.core.errors import WorkbenchError
from workbench.core.files import read_regular
from workbench.runs.processes import locks, resources

SWITCH = "WORKBENCH_STARTER"  # 0: no starter; another number: seconds until it ends unused
IDLE = 180.0  # default number of these seconds
PATIENCE = 60.0  # seconds to wait while it imports, on a busy machine
ANSWER = 10.0  # seconds to wait for it when it has imported everything
EVERY = 10.0  # seconds between checks of whether it is still needed
FIRST_FORKS = 3  # processes of a first command: two that check its request, and its run
_LONGEST = 100  # bytes of the path of a socket
_PROGRAM = "workbench.runs.processes.starter"
_READY, _GO = b"r", b"g"
_GPUS = ("/dev/nvidia", "/dev/kfd", "/dev/dxg")
_ROOM = " " * 300  # in its command line, for those of its children
_FIRST = (  # what nearly every run imports
    "numpy", "pandas", "pyarrow.parquet", "threadpoolctl", "spacy", "torch", "transformers",
    "workbench.runs.worker", "workbench.runs.execute", "workbench.runs.subruns",
    "workbench.models.loading", "workbench.corpora.content_hash", "workbench.corpora.primer.gold",
    "workbench.corpora.readers.conllu",
)  # fmt: skip
_THEN = (
    "transformers.models.bert.modeling_bert", "transformers.models.gpt2.modeling_gpt2",
    "transformers.models.t5.modeling_t5", "workbench.models.word_models",
    "workbench.runs.isolated", "scipy.stats", "sklearn.linear_model",
)  # fmt: skip
# Variables of the terminal or of a single request, and those that Streamlit and torch set in their
# process, which do not matter to imports.
_IGNORED = {
    "COLORTERM", "COLUMNS", "DISPLAY", "LINES", "LS_COLORS", "MAPBOX_API_KEY", "MPLBACKEND",
    "OLDPWD", "PS1", "PWD", "SHLVL", "STY", "TERM", "TORCHINDUCTOR_CACHE_DIR", "WAYLAND_DISPLAY",
    "WINDOWID", "_", *resources.THREADS,
}  # fmt: skip
_IGNORED_PREFIXES = (
    "DBUS_", "GNOME_", "ITERM_", "KITTY_", "KONSOLE_", "PYTEST_", "SSH_", "STREAMLIT_", "TERM_",
    "TMUX", "VSCODE_", "VTE_", "WORKBENCH_", "XDG_SESSION_",
)  # fmt: skip
_INHERITED = "cgroup", "limits", "oom_score_adj"  # files of /proc/self
_STATUS = (
    "Uid", "Gid", "Groups", "Umask", "CapPrm", "CapEff", "CapBnd", "NoNewPrivs", "Seccomp",
    "Cpus_allowed", "Mems_allowed",
)  # fmt: skip


# --- where it listens -----------------------------------------------------------------------------


@dataclass(frozen=True)
class _Place:
    """The paths of one starter: its socket while it imports, and when it is ready; its lock."""

    folder: Path
    key: str

    @property
    def ready(self) -> Path:
        return self.folder / self.key

    @property
    def importing(self) -> Path:
        return self.folder / f"{self.key}.new"

    @property
    def lock(self) -> Path:
        return self.folder / f"{self.key}.lock"

    @property
    def unfit(self) -> Path:
        """A file that says that forking is not safe here, so that no other is begun."""
        return self.folder / f"{self.key}.no"

    def is_current(self) -> bool:
        """Return whether the code and the packages are as they were when it began."""
        return self.key.endswith(version())

    def remove(self) -> None:
        """Remove its files; only the process that holds the lock does."""
        for path in (self.ready, self.importing, self.lock):
            path.unlink(missing_ok=True)


def _place() -> _Place | None:
    """Return where the starter of this process listens; None where there cannot be one."""
    if sys.platform != "linux" or _seconds_idle() <= 0 or "WORLD_SIZE" in os.environ:
        return None  # what `torchrun` starts has an environment of its own each time
    runtime = os.environ.get("XDG_RUNTIME_DIR") or os.environ.get("TMPDIR") or "/tmp"
    place = _Place(Path(runtime) / f"workbench-{os.getuid()}", _key())
    if len(os.fsencode(place.importing)) > _LONGEST or place.unfit.exists():
        return None
    with suppress(FileExistsError):
        place.folder.mkdir(0o700)
    facts = place.folder.lstat()
    if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != os.getuid() or facts.st_mode & 0o077:
        return None  # of another user, or open to others
    return place


def _seconds_idle() -> float:
    try:
        return float(os.environ.get(SWITCH) or IDLE)
    except ValueError:
        return IDLE


def _key() -> str:
    """Return a hash of all that a forked process has from the starter, not from its client."""
    variables = {
        name: value
        for name, value in resources.environment().items()
        if name not in _IGNORED and not name.startswith(_IGNORED_PREFIXES)
    }
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    relative = str(Path.cwd()) if any(p and not Path(p).is_absolute() for p in paths) else ""
    facts = [sys.executable, sys.version, sorted(variables.items()), relative, *_inherited()]
    digest = hashlib.sha256(json.dumps(facts).encode()).hexdigest()
    return f"{digest[:16]}-{version()}"


def version() -> str:
    """Return a hash of the times and sizes of the code, and of the installed packages."""
    digest = hashlib.sha256()
    for path, facts in sorted(_code(os.fspath(Path(__file__).parents[2]))):
        digest.update(f"{path} {facts.st_mtime_ns} {facts.st_size}\n".encode())
    for path in dict.fromkeys(_installed_in()):
        with suppress(OSError, ValueError), os.scandir(path) as entries:
            installed = sorted(entry.name for entry in entries if entry.name.endswith(_INSTALLED))
            for name in (*installed, *(f"{each}/{_ENTRIES}" for each in installed)):
                with suppress(OSError):
                    changed = os.stat(os.path.join(path, name)).st_mtime_ns  # noqa: PTH116, PTH118
                    digest.update(f"{name} {changed}\n".encode())
    return digest.hexdigest()[:16]


_INSTALLED = (".dist-info", ".egg-info", ".egg-link", ".pth")
_ENTRIES = "entry_points.txt"


def _installed_in() -> Iterator[str]:
    """Yield the folders of installed packages, those that `.pth` files name among them."""
    for path in sys.path:
        if path.endswith(("site-packages", "dist-packages")):
            yield path
            for file in sorted(Path(path).glob("*.pth")):
                with suppress(OSError):
                    for line in read_regular(file).decode(errors="replace").splitlines():
                        if line.strip() and not line.startswith(("#", "import ", "import\t")):
                            yield os.path.join(path, line.rstrip())  # noqa: PTH118
    yield from filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))


def _code(folder: str) -> Iterator[tuple[str, os.stat_result]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(".py"):
                yield entry.path, entry.stat()
            elif entry.is_dir() and not entry.name.startswith((".", "__")):
                yield from _code(entry.path)


def _inherited() -> Iterator[Any]:
    """Yield limits, permissions, cores, priority and namespaces, which children inherit."""
    own = Path("/proc/self")
    for name in _INHERITED:
        with suppress(OSError):
            yield (own / name).read_text()
    with suppress(OSError):
        lines = (own / "status").read_text().splitlines()
        yield [line for line in lines if line.split(":")[0] in _STATUS]
        yield sorted(str(path.readlink()) for path in (own / "ns").iterdir())
    yield resources.PRIORITY


# --- asking for a process -------------------------------------------------------------------------

_owned: list[int] = []  # ends of pipes, open as long as this process lives
_ends_with_this = False
_kept = -EVERY  # when `keep_ready` last looked


def end_with_this() -> None:
    """Have the starters that this process begins end with it, however it ends, not when idle."""
    global _ends_with_this
    _ends_with_this = True


def begin() -> None:
    """Have the starter of this process import, unless it does so already; return at once."""
    with suppress(OSError):  # a folder without locks, a full disk
        place = _place()
        if place is None or (lock := locks.take(place.lock)) is None:
            return
        listening = socket.socket(socket.AF_UNIX)
        owner, own = os.pipe() if _ends_with_this else (-1, -1)
        try:
            place.ready.unlink(missing_ok=True)  # of one that was killed
            place.importing.unlink(missing_ok=True)
            listening.bind(os.fspath(place.importing))
            listening.listen(128)
            process = subprocess.Popen(
                [
                    *(sys.executable, "-P", "-m", _PROGRAM, os.fspath(place.folder), place.key),
                    *(str(lock), str(listening.fileno()), str(owner), _ROOM),
                ],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=_environment(),
                pass_fds=[lock, listening.fileno(), *([owner] if owner >= 0 else [])],
                start_new_session=True,
            )
            if own >= 0:
                _owned.append(own)
        except BaseException:
            if own >= 0:
                os.close(own)
            raise
        finally:
            listening.close()
            os.close(lock)
            if owner >= 0:
                os.close(owner)
        threading.Thread(target=process.wait, daemon=True).start()  # so it leaves no zombie


def keep_ready() -> None:
    """Have it import again if it has ended, in the background."""
    global _kept
    if time.monotonic() - _kept > EVERY:
        _kept = time.monotonic()
        threading.Thread(target=begin, daemon=True).start()


def _environment() -> dict[str, str]:
    """Return the environment of the starter: that of a run, without limits of threads.

    OpenBLAS and the memory allocator of pyarrow would start threads when they are imported.
    `resources.restore_threads` sets those of OpenBLAS; the other only returns memory sooner.
    """
    variables = resources.environment()
    for name in resources.THREADS:
        variables.pop(name, None)
    allocator = {"JE_ARROW_MALLOC_CONF": "background_thread:false"}
    return {**allocator, **variables, "OPENBLAS_NUM_THREADS": "1"}


def is_ready() -> bool:
    """Return whether there is a starter that forks at once."""
    with suppress(OSError):
        place = _place()
        return place is not None and place.ready.exists() and locks.is_held(place.lock)
    return False


def await_ready(patience: float = PATIENCE) -> None:
    """Wait while the starter imports; return at once if there is none, or when it is ready."""
    with suppress(OSError):
        if (place := _place()) is None:
            return
        deadline = time.monotonic() + patience
        while not place.ready.exists() and time.monotonic() < deadline:
            if not locks.is_held(place.lock):
                return
            time.sleep(0.01)


class Forked:
    """A process forked by the starter, as far as needed like `subprocess.Popen`."""

    def __init__(self, pid: int, connection: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._connection, self._received = connection, b""
        weakref.finalize(self, os.close, connection)

    def poll(self) -> int | None:
        """Return the exit code; None while the process runs."""
        with suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the process to end, and return its exit code; 1 if that is not known."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while self.returncode is None:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            with selectors.DefaultSelector() as selector:
                selector.register(self._connection, selectors.EVENT_READ)
                if not selector.select(left):
                    assert timeout is not None
                    raise subprocess.TimeoutExpired(f"process {self.pid}", timeout)
            try:
                part = os.read(self._connection, 64)
            except OSError:
                part = b""
            self._received += part
            if not part:  # the starter has ended
                self.returncode = 1
            elif self._received.endswith(b"\n"):
                self.returncode = int(self._received)
        return self.returncode

    def kill(self) -> None:
        """Kill the process and all that it started in its session, unless it has ended."""
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)


def fork(
    module: str,
    arguments: Sequence[str],
    *,
    stdin: int,
    stdout: int,
    stderr: int,
    lock: int | None = None,
    environment: Mapping[str, str] | None = None,
    patience: float = 0.0,
) -> Forked | None:
    """Have `python -m module *arguments` forked; None if there is no starter, or it fails.

    The module's `main` is called. `lock` is a descriptor that the process gets too: `--lock N` is
    added to its arguments. `patience` is how many seconds to wait for a starter that still imports.
    The process begins only when this function returns it, so nothing is ever begun twice.
    """
    try:
        place = _place()
        connection = None if place is None else _connected(place, patience)
        if connection is None:
            return None
    except (OSError, WorkbenchError):
        return None
    try:
        folder = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            files = [folder, stdin, stdout, stderr, *([] if lock is None else [lock])]
            variables = dict(resources.environment() if environment is None else environment)
            request = json.dumps([module, [*arguments], variables]).encode()
            connection.settimeout(ANSWER)
            socket.send_fds(connection, [struct.pack("!Q", len(request))], files)
            connection.sendall(request)
            pid = int(_line(connection))
            connection.sendall(_GO)  # if this process dies before, the other ends too
        finally:
            os.close(folder)
        connection.settimeout(None)
        return Forked(pid, connection.detach())
    except (OSError, ValueError):
        connection.close()
        return None
    except BaseException:
        connection.close()
        raise


def _connected(place: _Place, patience: float) -> socket.socket | None:
    """Return a connection to the starter when it is ready."""
    deadline = time.monotonic() + patience
    while True:
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.settimeout(ANSWER)
            connection.connect(os.fspath(place.ready))
            if _user_of(connection) == os.getuid() and connection.recv(1) == _READY:
                return connection
            connection.close()
            return None
        except (FileNotFoundError, ConnectionRefusedError):
            connection.close()
        except BaseException:
            connection.close()
            raise
        if time.monotonic() > deadline or not locks.is_held(place.lock):
            return None
        time.sleep(0.01)


def _user_of(connection: socket.socket) -> int:
    """Return the user of the process at the other end."""
    size = struct.calcsize("3i")
    facts = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
    user: int = struct.unpack("3i", facts)[1]
    return user


def _line(connection: socket.socket) -> bytes:
    line = b""
    while not line.endswith(b"\n"):
        part = connection.recv(64)
        if not part:
            raise ConnectionError("the starter has ended")
        line += part
    return line


# --- the starter itself ---------------------------------------------------------------------------


@dataclass
class _Job:
    """What a forked process is to do, and the files that it has for it."""

    connection: socket.socket  # to the client
    module: str
    arguments: list[str]
    environment: dict[str, str]
    files: list[int]  # folder, standard input, output and error, and perhaps a lock

    def run(self) -> int | None:
        """Become the requested process; return its exit code."""
        os.setsid()
        folder, *standard = self.files[:4]
        os.fchdir(folder)
        os.close(folder)
        for number, file in enumerate(standard):
            os.dup2(file, number)
            os.close(file)
        os.environ.clear()
        os.environ.update(self.environment)
        try:
            self.connection.sendall(f"{os.getpid()}\n".encode())
            begins = self.connection.recv(1) == _GO
        except OSError:
            begins = False
        if not begins:
            return 1  # the client has ended, or starts another process
        self.connection.close()
        sys.argv = [self.module, *self.arguments]
        if len(self.files) > 4:
            sys.argv += ["--lock", str(self.files[4])]
        _show([sys.executable, "-P", "-m", *sys.argv])
        gc.enable()
        if numpy := sys.modules.get("numpy"):
            numpy.random.seed()  # else all children draw the same numbers
        if torch := sys.modules.get("torch"):
            torch.default_generator.seed()
        resources.restore_threads()
        module = sys.modules["__main__"] = import_module(self.module)
        code: int | None = module.main()
        return code

    def close(self) -> None:
        """Close its files in the starter, where they would hold locks."""
        for file in self.files:
            os.close(file)
        self.files.clear()


@dataclass
class _Starter:
    """The loop of the starter: accept a request, fork, and report the exit code."""

    place: _Place
    lock: int
    listening: socket.socket
    inode: int  # of its socket
    later: list[str]  # modules to import when the first command has what it needs
    owner: int = -1  # a pipe that ends when the process that began it does; -1: none
    n_forks: int = 0
    children: dict[int, tuple[int, socket.socket]] = field(default_factory=dict)
    selector: selectors.BaseSelector = field(default_factory=selectors.DefaultSelector)

    def serve(self) -> _Job | None:
        """Fork processes until it is not needed any more; in a child, return its job."""
        self.selector.register(self.listening, selectors.EVENT_READ)
        if self.owner >= 0:
            self.selector.register(self.owner, selectors.EVENT_READ)
        used = checked = time.monotonic()
        idle = _seconds_idle()
        while True:
            imports = bool(self.later) and (not self.children or self.n_forks > FIRST_FORKS)
            for key, _ in self.selector.select(0 if imports else min(EVERY, idle)):
                if key.fileobj == self.owner:
                    self._forget_owner()
                    idle, imports = 0.0, False
                    self.later.clear()
                    continue
                used = time.monotonic()
                if key.fileobj is not self.listening:
                    self._reap(key.data)
                elif (job := self._accepted()) and self._is_child(job):
                    return job
            now = time.monotonic()
            if imports:
                _imported(self.later.pop(0))
                used = now
            if now - checked >= EVERY or imports:
                checked = now
                if not self._is_current():
                    used = -math.inf
            if not self.children and now - used >= idle:
                return None

    def _forget_owner(self) -> None:
        self.selector.unregister(self.owner)
        os.close(self.owner)
        self.owner = -1

    def _is_current(self) -> bool:
        """Return whether it can still fork, and a new process would be the same."""
        with suppress(OSError):
            is_here = self.place.ready.stat().st_ino == self.inode
            return is_here and is_fit() and self.place.is_current()
        return False

    def _accepted(self) -> _Job | None:
        """Return the next request; None if it fails; the client then does without."""
        files: list[int] = []
        connection, _ = self.listening.accept()
        try:
            connection.settimeout(ANSWER)
            if _user_of(connection) != os.getuid() or not is_fit():
                raise PermissionError
            connection.sendall(_READY)
            head, files, *_ = socket.recv_fds(connection, 8, 5, socket.MSG_CMSG_CLOEXEC)
            left = struct.unpack("!Q", head)[0]
            parts = []
            while left:
                parts.append(connection.recv(min(left, 1 << 20)))
                left -= len(parts[-1])
                if not parts[-1]:
                    raise ConnectionError
            module, arguments, variables = json.loads(b"".join(parts))
            return _Job(connection, module, arguments, variables, files)
        except (OSError, ValueError, struct.error):
            connection.close()
            for file in files:
                os.close(file)
            return None

    def _is_child(self, job: _Job) -> bool:
        """Fork; return whether this is the child."""
        try:
            pid = os.fork()
        except OSError:
            job.connection.close()
            job.close()
            return False
        if pid:
            job.close()
            self.n_forks += 1
            pidfd = os.pidfd_open(pid)
            self.selector.register(pidfd, selectors.EVENT_READ, pid)
            self.children[pid] = pidfd, job.connection
            return False
        self.selector.close()
        self.listening.close()
        os.close(self.lock)
        if self.owner >= 0:
            os.close(self.owner)
        for pidfd, connection in self.children.values():
            os.close(pidfd)
            connection.close()
        return True

    def _reap(self, pid: int) -> None:
        """Report the exit code of a child to its client."""
        pidfd, connection = self.children.pop(pid)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        with suppress(OSError):
            connection.sendall(f"{code}\n".encode())
        connection.close()
        self.selector.unregister(pidfd)
        os.close(pidfd)


def is_fit() -> bool:
    """Return whether this process may fork: it has one thread, and has not touched a GPU."""
    if not hasattr(os, "pidfd_open"):
        return False
    for file in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # the one that lists them
            if str(file.readlink()).startswith(_GPUS):
                return False
    return len(list(Path("/proc/self/task").iterdir())) == 1


def _show(command: Sequence[str]) -> None:
    """Show a command in lists of processes, as that of this process: in the memory of its own."""
    facts = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    start, end = int(facts[45]), int(facts[46])
    if 0 < start < end:
        text = "\0".join(command).encode("utf-8", "surrogateescape")[: end - start - 1]
        ctypes.memmove(start, text.ljust(end - start, b"\0"), end - start)


def _imported(name: str) -> None:
    with suppress(Exception):  # the run that needs it has the error
        import_module(name)
    gc.freeze()  # children do not look at what they share, which would copy it


def _analyses() -> Iterator[str]:
    """Yield the modules of all experiments that are built in."""
    from workbench.core.analysis import announced, is_built_in
    from workbench.core.registry import imported

    homes = [home for home in announced("experiments").values() if is_built_in(home)]
    for home in homes:
        declared = imported(home, "experiment")
        for code in (vars(declared)["run"], declared.figures, vars(declared)["findings"]):
            yield str(getattr(code, "home", code)).partition(":")[0]


def main() -> int | None:
    """Import, then fork processes until nobody needs them; in each of them, do what it is for."""
    folder, key, lock, listening, owner, _ = sys.argv[1:]
    place = _Place(Path(folder), key)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # its client may ignore it
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    gc.disable()  # imports make millions of objects, and hardly any garbage
    with socket.socket(fileno=int(listening)) as accepting:
        os.chdir("/")
        for name in _FIRST:
            _imported(name)
        if not is_fit():
            place.unfit.touch()
        elif place.is_current():
            place.importing.rename(place.ready)
            later = [*_THEN, *_analyses()]
            inode = place.ready.stat().st_ino
            starter = _Starter(place, int(lock), accepting, inode, later, int(owner))
            if (job := starter.serve()) is not None:
                return job.run()
        place.remove()
        return 0


if __name__ == "__main__":
    run_process(main)
