"""The error class for user errors: what is wrong, where, a code, and what to do.

Every problem with input (a path, the contents of a file, a setting, a missing package) is raised as
a `WorkbenchError`; the command line prints it without a traceback and exits with 2. Any other
exception is a bug in Workbench. Every error has a remedy: mypy requires it, and a test checks that
it is not empty. Costs: nothing.
"""

import importlib.util
import sys
from collections.abc import Collection, Iterable
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from traceback import extract_tb

LISTED = 12  # maximum number of names in a remedy


class WorkbenchError(Exception):
    """A user error: what is wrong, where, and what to do.

    Args:
        what: What is wrong.
        code: Short name of the kind of error, such as `corpus-not-found`, for programs and search.
        where: Where the problem is: `file`, or `file:line`.
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
        """Pickle the error with all its fields, to send it from one process to another."""
        return partial(WorkbenchError, code=self.code, where=self.where, remedy=self.remedy), (
            self.what,
        )


def did_you_mean(name: str, known: Iterable[str], *, ordered: bool = False) -> str:
    """Return a remedy for an unknown name: the nearest known name, and the known names.

    They are sorted, unless their order says something (`ordered`).
    """
    known = list(known) if ordered else sorted(known)
    bare = {each.lstrip("-"): each for each in known}  # the dashes of options are no likeness
    near = get_close_matches(name.lstrip("-"), bare, n=1, cutoff=0.6)
    if near:
        return f"Did you mean {bare[near[0]]!r}? Known: {listed(known)}."
    return f"Known: {listed(known)}." if known else "No names are known."


def require_one_of(
    name: str, known: Collection[str], what: str, *, code: str, where: str = ""
) -> None:
    """Raise the error `what` with the nearest known names if a name is none of them."""
    if name not in known:
        raise WorkbenchError(what, code=code, where=where, remedy=did_you_mean(name, known))


def listed(names: Iterable[str]) -> str:
    """Return the first names, separated by commas, and how many more there are.

    Characters that cannot be printed are escaped as in Python.
    """
    names = list(names)
    more = f", … and {len(names) - LISTED:,} more" if len(names) > LISTED else ""
    return ", ".join(map(_printable, names[:LISTED])) + more


def _printable(name: str) -> str:
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in name)


def what_is_wrong(error: BaseException) -> str:
    """Return an error of any kind in one line."""
    if isinstance(error, WorkbenchError):
        return f"{error.where}: {error.what}" if error.where else error.what
    first = str(error).partition("\n")[0].rstrip(".")
    return f"{type(error).__name__}: {first}."


def line_of(error: BaseException) -> str:
    """Return `package/file.py:12`, the line of an author that an error comes from ("": none).

    It is in the file of the experiment, or in one of the author's own that an experiment of
    Workbench calls, such as the class of a model.
    """
    house = Path(__file__).parents[1]
    ours = [str(house / floor) for floor in ("core", "experiment", "runs")]
    skipped = (*ours, str(Path(importlib.util.__file__).parent), "<frozen")
    frames = [
        each for each in extract_tb(error.__traceback__) if not each.filename.startswith(skipped)
    ]
    installed = (str(house), sys.prefix, sys.base_prefix)
    own = [
        each
        for each in frames
        if Path(each.filename).is_absolute()
        and not each.filename.startswith(installed)
        and "site-packages" not in each.filename
    ]
    if own and frames[0].filename.startswith(str(house)):
        frames = own[-1:]
    theirs = [(each.filename, each.lineno) for each in frames]
    theirs = [place for place in theirs if place[0] == theirs[0][0]]
    if isinstance(error, SyntaxError) and error.filename:  # no frame has its line
        theirs = [(error.filename, error.lineno)]
    return f"{'/'.join(Path(theirs[-1][0]).parts[-2:])}:{theirs[-1][1]}" if theirs else ""


def missing_package(package: str, needed_for: str) -> WorkbenchError:
    """Return the error for a missing optional package, with the command that installs it."""
    return WorkbenchError(
        f"{needed_for} needs the package {package!r}, which is not installed.",
        code="package-missing",
        remedy=f"Run: pip install {package}",
    )


def require_extra(extra: str, packages: Iterable[str], needed_for: str, where: str) -> None:
    """Raise if a package of an optional extra is missing, with the command that installs it."""
    if missing := [name for name in packages if importlib.util.find_spec(name) is None]:
        raise WorkbenchError(
            f"{needed_for} needs {' and '.join(missing)}, which "
            f"{'is' if len(missing) == 1 else 'are'} not installed.",
            code="package-missing",
            where=where,
            remedy=f'Install the extra: pip install "lm-workbench[{extra}]".',
        )
