"""A folder for processes that record the requests they would send to other machines."""

import os
import shutil
from pathlib import Path

import pytest

from tests.app.conftest import page, visitor
from tests.app.test_serving import MINI

__all__ = ["page", "visitor"]
HERE = Path(__file__).parent
# In a process that has torch imported: it begins to note, and the hub is no longer offline.
NOTES = """
import sys
sys.modules.pop("sitecustomize", None)
import sitecustomize
from huggingface_hub import constants, is_offline_mode
constants.HF_HUB_OFFLINE = False
assert not is_offline_mode()
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return made(tmp_path)


def made(folder: Path) -> Path:
    """A folder with a model, where a process started with `environment` notes in `audit`."""
    shutil.copy(HERE / "sitecustomize.py", folder / "sitecustomize.py")
    shutil.copytree(MINI, folder / "model")
    (folder / "audit").touch()
    return folder


def environment(folder: Path) -> dict[str, str]:
    """The environment of such a process; the hub is not set to offline mode."""
    return {
        **{name: value for name, value in os.environ.items() if not name.endswith("_OFFLINE")},
        "HF_HUB_OFFLINE": "0",
        "PYTHONPATH": str(folder),
        "WORKBENCH_AUDIT": str(folder / "audit"),
        "WORKBENCH_HOME": str(folder / "home"),
        "WORKBENCH_RUNS": str(folder / "runs"),
    }


def noted(folder: Path) -> str:
    """The foreign addresses there were."""
    return (folder / "audit").read_text()
