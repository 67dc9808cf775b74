"""The one error a user meets: what was wrong, where, and what to do about it.

Every mistake that comes from outside (a path, a file's contents, a setting, a missing package) is
raised as a `WorkbenchError`; the command line prints it without a traceback and exits 2. Anything
else that escapes is a bug of ours. None is without a remedy: mypy asks for one, and a test for
one that is not empty.
"""

from collections.abc import Iterable
from difflib import get_close_matches
from functools import partial

LISTED = 12  # names in a remedy, at most


class WorkbenchError(Exception):
    """An error of the user's side: what was wrong, where, and what to do.

    Args:
        what: What was wrong.
        code: Short name of the kind of error, such as `corpus-not-found`, for programs and search.
        where: Where it was found: `file`, or `file:line`.
        remedy: What to do.

    Example:
        >>> try:
        ...     wb.read("no-such-file.conllu")
        ... except wb.WorkbenchError as error:
        ...     print(error.code, error.what, sep=": ")
        corpus-not-found: there is no such file or folder.
    """

    def __init__(
        self, what: str, *, code: str = "invalid-input", where: str = "", remedy: str
    ) -> None:
        self.what, self.code, self.where, self.remedy = what, code, where, remedy
        head = f"{where}: {what}" if where else what
        super().__init__(f"{head} [{code}]\n  {remedy}" if remedy else f"{head} [{code}]")

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle the error, so that a job's process can send it to the process that started it."""
        return partial(WorkbenchError, code=self.code, where=self.where, remedy=self.remedy), (
            self.what,
        )


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A remedy for a name that is not known: the nearest known one, or all there are."""
    known = sorted(known)
    near = get_close_matches(name, known, n=1, cutoff=0.6)
    if near:
        return f"Did you mean {near[0]!r}? Known: {listed(known)}."
    return f"Known: {listed(known)}." if known else "There are none."


def listed(names: Iterable[str]) -> str:
    """The first names, what does not print in them as Python would write it, and how many more."""
    names = list(names)
    more = f", … and {len(names) - LISTED:,} more" if len(names) > LISTED else ""
    return ", ".join(map(_printable, names[:LISTED])) + more


def _printable(name: str) -> str:
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in name)


def missing_package(package: str, needed_for: str) -> WorkbenchError:
    """The error for an optional dependency that is not installed, with the command to mend it."""
    return WorkbenchError(
        f"{needed_for} needs the package {package!r}, which is not installed.",
        code="package-missing",
        remedy=f"Run: pip install {package}",
    )
