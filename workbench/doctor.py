"""What this machine offers: versions, device, caches, pipelines, and what is missing with its cure.

Reads package metadata rather than importing, except for torch, which alone knows what it can use:
about a second.
"""

import os
import platform
import shutil
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, entry_points, requires, version
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

from workbench import __version__
from workbench.core.machine import home, runs

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
EXTRAS = {  # those a user may want, and what for
    "hub": "reading corpora from the Hugging Face hub",
    "images": "saving figures as images",
}


@dataclass(frozen=True)
class Package:
    """A dependency: the versions that will do, the one installed, and the extra it belongs to."""

    name: str
    wanted: str
    installed: str | None
    extra: str = ""

    @property
    def fits(self) -> bool:
        """Whether it is installed in a version that will do."""
        return self.installed is not None and Requirement(
            f"{self.name}{self.wanted}"
        ).specifier.contains(self.installed, prereleases=True)


@dataclass(frozen=True)
class Device:
    """What models run on."""

    kind: str  # cuda, mps or cpu
    names: tuple[str, ...]  # of the GPUs, with their memory
    cores: int
    threads: int


@dataclass(frozen=True)
class Missing:
    """Something that is not there, what it would be good for, and the command that mends it."""

    what: str
    why: str
    command: str


@dataclass(frozen=True)
class Facts:
    """All of it, as plain data."""

    workbench: str
    python: str
    platform: str
    device: Device
    packages: tuple[Package, ...]
    pipelines: tuple[str, ...]  # spaCy's, installed
    browser: str | None  # for saving figures as images
    folders: dict[str, str]
    free_bytes: dict[str, int]  # on the disks of those folders
    missing: tuple[Missing, ...]

    def as_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        return asdict(self)


def facts() -> Facts:
    """Look around."""
    found = packages()
    pipelines = tuple(sorted(entry.name for entry in entry_points(group="spacy_models")))
    browser = find_browser()
    where = folders()
    machine = device()
    return Facts(
        workbench=__version__,
        python=platform.python_version(),
        platform=platform.platform(),
        device=machine,
        packages=found,
        pipelines=pipelines,
        browser=browser,
        folders={name: str(folder) for name, folder in where.items()},
        free_bytes={name: _free(folder) for name, folder in where.items()},
        missing=(
            *_missing_packages(found),
            *_missing_elsewhere(pipelines, browser, machine),
        ),
    )


def packages() -> tuple[Package, ...]:
    """Every dependency that a user may want, in the order of `pyproject.toml`."""
    try:
        lines = requires("workbench") or []
    except PackageNotFoundError:  # a bare checkout on the path
        return ()
    found = []
    for line in lines:
        requirement = Requirement(line)
        extra = next((e for e in EXTRAS if f'"{e}"' in str(requirement.marker)), "")
        if requirement.marker is None or extra:
            wanted = str(requirement.specifier)
            found.append(Package(requirement.name, wanted, _version(requirement.name), extra))
    return tuple(found)


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def device() -> Device:
    """The GPUs that torch can use, else the processor."""
    cores = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )
    if _version("torch") is None:
        return Device("cpu", (), cores, cores)
    import torch

    threads = torch.get_num_threads()
    if torch.cuda.is_available():
        gpus = [torch.cuda.get_device_properties(i) for i in range(torch.cuda.device_count())]
        names = tuple(f"{gpu.name}, {gpu.total_memory / 2**30:.0f} GiB" for gpu in gpus)
        return Device("cuda", names, cores, threads)
    kind = "mps" if torch.backends.mps.is_available() else "cpu"
    return Device(kind, (), cores, threads)


def find_browser() -> str | None:
    """A Chrome or Chromium, which the export of figures as images drives."""
    named = os.environ.get("BROWSER_PATH")
    if named and Path(named).is_file():
        return named
    return next(filter(None, map(shutil.which, BROWSERS)), None)


def folders() -> dict[str, Path]:
    """Where models, fetched data and runs are kept."""
    from huggingface_hub.constants import HF_HUB_CACHE

    return {
        "Hugging Face cache": Path(HF_HUB_CACHE),
        "Workbench cache": home(),
        "runs": runs(),
    }


def _free(folder: Path) -> int:
    """Bytes free on the disk of a folder, which need not be there yet."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return shutil.disk_usage(folder).free


def _missing_packages(found: tuple[Package, ...]) -> list[Missing]:
    missing = []
    for package in found:
        if package.fits:
            continue
        what = f"{package.name} {package.wanted}"
        if package.installed:
            what += f" (installed: {package.installed})"
        why = EXTRAS[package.extra] if package.extra else "Workbench needs it"
        command = f'pip install "{package.name}{package.wanted}"'
        missing.append(Missing(what, why, command))
    return missing


def _missing_elsewhere(
    pipelines: tuple[str, ...], browser: str | None, machine: Device
) -> list[Missing]:
    missing = []
    if not pipelines:
        missing.append(
            Missing(
                "a spaCy pipeline",
                "tags, trees and entities for raw text; without one it is only cut into words",
                "python -m spacy download en_core_web_sm",
            )
        )
    if browser is None:
        apt = shutil.which("apt-get") is not None
        command = "apt-get install chromium" if apt else "plotly_get_chrome"
        missing.append(Missing("Chrome or Chromium", "saving figures as images", command))
    if machine.kind == "cpu" and shutil.which("nvidia-smi"):
        missing.append(
            Missing(
                "a torch that sees the NVIDIA GPU",
                "the machine has a GPU, but torch cannot use it",
                "pip install --force-reinstall torch   (or update the driver; see nvidia-smi)",
            )
        )
    return missing
