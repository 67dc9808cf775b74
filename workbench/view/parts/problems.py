"""Errors on a page: what was wrong and what to do, in a box; never a traceback. Costs nothing."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import streamlit as st

from workbench.errors import WorkbenchError
from workbench.view.parts.plain import plain


@contextmanager
def told(stop: bool = False) -> Iterator[None]:
    """Tell a `WorkbenchError` of the block on the page; with `stop` the page ends there."""
    try:
        yield
    except WorkbenchError as error:
        tell(error)
        if stop:
            st.stop()


@contextmanager
def guarded() -> Iterator[None]:
    """The last resort round a whole page: what nobody foresaw goes to the log, not to the user."""
    with told():
        try:
            yield
        except WorkbenchError:
            raise
        except Exception as error:
            logging.getLogger("workbench").exception("a page failed")
            raise WorkbenchError(
                f"something went wrong inside Workbench ({type(error).__name__}).",
                remedy="Load the page again. If it stays, the details are where the app was "
                "started from: please report them.",
            ) from None


def tell(error: WorkbenchError) -> None:
    """One error as text: nothing in it is read as markup."""
    lines = (plain(line.strip()) for line in str(error).splitlines())
    st.error("\n\n".join(["This did not work.", *lines]), icon=":material/error:")
