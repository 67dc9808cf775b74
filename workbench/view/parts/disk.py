"""How much room folders take, looked at for a few seconds at most. Costs a walk through them."""

import os
import time
from collections.abc import Mapping
from pathlib import Path

import streamlit as st

from workbench.view.parts.plain import size
from workbench.view.parts.words import facts

SECONDS = 3.0  # for each folder
REMEMBERED = 300  # seconds


def folders(where: Mapping[str, str], free: Mapping[str, int]) -> None:
    """Folders, what they hold, and what is free on their disks."""
    rows = []
    for name, folder in where.items():
        held = "nothing yet"
        if Path(folder).is_dir():
            number, whole = taken(folder)
            held = size(number) if whole else f"more than {size(number)}"
        rows.append((name, f"{folder}\n{held}; {size(free[name])} free"))
    facts(rows)


@st.cache_data(ttl=REMEMBERED, show_spinner="Measuring folders …")
def taken(folder: str) -> tuple[int, bool]:
    """Bytes of the files in a folder, links not followed; and whether all of it was looked at."""
    total, waiting, deadline = 0, [folder], time.monotonic() + SECONDS
    while waiting:
        if time.monotonic() > deadline:
            return total, False
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
                    else:
                        total += entry.stat(follow_symlinks=False).st_size
        except OSError:
            continue
    return total, True
