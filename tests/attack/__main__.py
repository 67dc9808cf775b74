"""Kills, fuzz and browsers, for some minutes: `python -m tests.attack --minutes 10 --seed 7`.

Runs are killed while inputs of every kind are tried; in the last quarter of the time pages click at
random through the app. What is found is one line that reproduces it; the exit code is then
1. Costs two cores for so long, and 2 GB of memory.
"""

import argparse
import itertools
import random
import shutil
import sys
import threading
import time
from collections.abc import Callable

from tests.attack import fuzz

STRANDS = ("kills", "browsers", *fuzz.KINDS)
EVERY = 30.0  # seconds between two lines of progress
ROUND = 20.0  # seconds that each kind of input is tried before the next has its turn


def main() -> int:
    """Attack for some minutes, or reproduce one case."""
    parser = argparse.ArgumentParser(prog="python -m tests.attack", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="how long (default 10)")
    parser.add_argument("--seed", type=int, help="of all that is drawn (default: a new one)")
    parser.add_argument("--only", choices=STRANDS, action="append", help="this alone; repeatable")
    parser.add_argument("--case", type=int, help="one case of --only, by its number")
    options = parser.parse_args()
    seed = random.SystemRandom().randrange(10**6) if options.seed is None else options.seed
    only = tuple(options.only or STRANDS)
    if options.case is not None:
        if len(only) != 1:
            parser.error("--case needs one --only")
        return _reproduce(only[0], seed, options.case)
    return attack(seed, 60 * options.minutes, only)


def _reproduce(strand: str, seed: int, number: int) -> int:
    """One case again; 1 where it goes wrong again."""
    if strand in fuzz.KINDS:
        outcome = fuzz.reproduced(strand, seed, number)
        print(outcome)
        return 0 if outcome.endswith((": accepted", ": refused")) else 1
    if strand == "kills":
        from tests.attack import kills

        found = kills.attack(seed, iter([number]), lambda: False).findings
    else:
        from tests.attack import browsers

        found = browsers.attack(seed, 60.0, first=number, pages=1).findings
    print("\n".join(found) or "nothing was found")
    return 1 if found else 0


def attack(seed: int, seconds: float, only: tuple[str, ...]) -> int:
    """All strands for so many seconds; 1 where anything was found."""
    print(f"seed {seed}, {seconds / 60:.1f} minutes: {', '.join(only)}", flush=True)
    began = time.monotonic()
    end = began + seconds
    alone = "browsers" in only and len(only) > 1
    first = began + 0.75 * seconds if alone else end  # when kills and inputs end
    tallies = {kind: fuzz.Tally() for kind in only if kind in fuzz.KINDS}
    others: dict[str, object] = {}
    failed: list[str] = []

    def strand(name: str, work: Callable[[], object]) -> threading.Thread:
        def guarded() -> None:
            try:
                others[name] = work()
            except Exception as error:
                failed.append(f"{name}: the attack itself failed: {error!r}")

        thread = threading.Thread(target=guarded, name=name, daemon=True)
        thread.start()
        return thread

    threads = []
    if tallies:
        threads.append(strand("inputs", lambda: _inputs(seed, first, tallies)))
    if "kills" in only:
        from tests.attack import kills

        told = kills.Kills()
        others["kills"] = told
        threads.append(
            strand(
                "kills",
                lambda: kills.attack(
                    seed, itertools.count(), lambda: time.monotonic() > first, told
                ),
            )
        )
    if "browsers" in only:
        if shutil.which("chromium") or shutil.which("chromium-browser"):
            from tests.attack import browsers

            def browse() -> object:
                for thread in before:
                    thread.join()
                return browsers.attack(seed, max(30.0, end - time.monotonic()), pages=3)

            before = list(threads)
            threads.append(strand("browsers", browse))
        else:
            failed.append("browsers: there is no Chromium; on Debian: apt-get install chromium")
    while any(thread.is_alive() for thread in threads):
        for thread in threads:
            thread.join(EVERY / len(threads))
        tried = sum(sum(tally.tried.values()) for tally in tallies.values())
        found = sum(len(tally.findings) for tally in tallies.values())
        killed = getattr(others.get("kills"), "kills", 0)
        gone = time.monotonic() - began
        print(f"{gone:5.0f} s: {tried:,} inputs, {killed} kills, {found} findings", flush=True)
    return _summary(tallies, others, failed)


def _inputs(seed: int, end: float, tallies: dict[str, fuzz.Tally]) -> None:
    """Each kind in turn, a while each, until the time is over."""
    numbers = {kind: itertools.count() for kind in tallies}
    while time.monotonic() < end:
        for kind, tally in tallies.items():
            left = end - time.monotonic()
            if left > 0 or not tally.tried:  # each kind is tried, however slow its beginning is
                fuzz.cases(kind, seed, numbers[kind], max(ROUND, left / 8), tally)


def _summary(tallies: dict[str, fuzz.Tally], others: dict[str, object], failed: list[str]) -> int:
    """A table of what was tried, and a line for everything that was found."""
    findings = list(failed)
    if tallies:
        print(f"\n{'inputs':24}{'tried':>9}{'accepted':>10}{'refused':>9}{'found':>7}", end="")
        print(f"{'slowest':>10}{'peak':>10}")
    for kind, tally in tallies.items():
        tried, accepted = sum(tally.tried.values()), sum(tally.accepted.values())
        print(
            f"{kind:24}{tried:9,}{accepted:10,}{sum(tally.refused.values()):9,}"
            f"{len(tally.findings):7}{tally.slowest:8.1f} s{tally.peak / 2**20:6.0f} MiB"
        )
        for label, number in sorted(tally.tried.items()):
            print(f"  {label:22}{number:9,}{tally.accepted[label]:10,}{tally.refused[label]:9,}")
        findings += tally.findings
    for other in others.values():
        if other is not None:
            print(f"\n{other}")
            findings += other.findings  # type: ignore[attr-defined]
    print(f"\n{len(findings)} findings" if findings else "\nnothing was found")
    alike: dict[str, list[str]] = {}
    for line in findings:
        alike.setdefault(line.partition("#")[2] or line, []).append(line)
    for lines in alike.values():
        print(lines[0] + (f" (and {len(lines) - 1} more)" if len(lines) > 1 else ""))
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
