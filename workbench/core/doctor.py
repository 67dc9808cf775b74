"""Facts about this machine: versions, device, caches, pipelines, and what is missing.

It reads package metadata and does not import packages, except torch, because only torch knows which
devices it can use. Costs: about one second.
"""

import os
import platform
import shutil
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from importlib.metadata import (
    PackageNotFoundError,
    distributions,
    entry_points,
    requires,
)
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

from workbench.core.machine import home, runs
from workbench.core.version import __version__, installed_version

DISTRIBUTION = "lm-workbench"
EXTRAS = {  # optional extras and their purpose
    "hub": "reading corpora from the Hugging Face hub",
    "notebook": "choices in the attention browser of a notebook come back to Python",
}


@dataclass(frozen=True)
class Package:
    """A dependency: the required versions, the installed one, and the extra it belongs to."""

    name: str
    wanted: str
    installed: str | None
    extra: str = ""

    @property
    def fits(self) -> bool:
        """Whether it is installed in a required version."""
        return self.installed is not None and Requirement(
            f"{self.name}{self.wanted}"
        ).specifier.contains(self.installed, prereleases=True)


@dataclass(frozen=True)
class Device:
    """The device that models run on."""

    kind: str  # cuda, mps or cpu
    names: tuple[str, ...]  # of the GPUs, with their memory
    cores: int
    threads: int


@dataclass(frozen=True)
class Missing:
    """Something that is missing, its purpose, and the command that installs it."""

    what: str
    why: str
    command: str


@dataclass(frozen=True)
class Facts:
    """All facts about this machine, as plain data."""

    workbench: str
    python: str
    platform: str
    device: Device
    packages: tuple[Package, ...]
    pipelines: tuple[str, ...]  # spaCy's, installed
    folders: dict[str, str]
    free_bytes: dict[str, int]  # free space on the disks of these folders
    missing: tuple[Missing, ...]

    def as_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        return asdict(self)


def facts() -> Facts:
    """Collect all facts about this machine."""
    dependencies = packages()
    pipelines = tuple(sorted(entry.name for entry in entry_points(group="spacy_models")))
    paths = folders()
    machine = device()
    return Facts(
        workbench=__version__,
        python=platform.python_version(),
        platform=platform.platform(),
        device=machine,
        packages=dependencies,
        pipelines=pipelines,
        folders={name: str(folder) for name, folder in paths.items()},
        free_bytes={name: _free(folder) for name, folder in paths.items()},
        missing=(
            *_missing_packages(dependencies),
            *_missing_elsewhere(pipelines, machine),
            *_other_projects(_distributions_with("workbench")),
        ),
    )


def packages() -> tuple[Package, ...]:
    """Every dependency and every package of `EXTRAS`, in the order of `pyproject.toml`."""
    try:
        lines = requires(DISTRIBUTION) or []
    except PackageNotFoundError:  # a checkout that is not installed
        return ()
    dependencies = []
    for line in lines:
        requirement = Requirement(line)
        extra = next((e for e in EXTRAS if f'"{e}"' in str(requirement.marker)), "")
        if requirement.marker is None or extra:
            installed = installed_version(requirement.name)
            specifier = str(requirement.specifier)
            dependencies.append(Package(requirement.name, specifier, installed, extra))
    return tuple(dependencies)


def device() -> Device:
    """The GPUs that torch can use, otherwise the CPU."""
    cores = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )
    if installed_version("torch") is None:
        return Device("cpu", (), cores, cores)
    import torch

    threads = torch.get_num_threads()
    if torch.cuda.is_available():
        gpus = [torch.cuda.get_device_properties(i) for i in range(torch.cuda.device_count())]
        names = tuple(f"{gpu.name}, {gpu.total_memory / 2**30:.0f} GiB" for gpu in gpus)
        return Device("cuda", names, cores, threads)
    kind = "mps" if torch.backends.mps.is_available() else "cpu"
    return Device(kind, (), cores, threads)


def folders() -> dict[str, Path]:
    """The folders of models, downloaded data and runs."""
    from huggingface_hub.constants import HF_HUB_CACHE

    return {
        "Hugging Face cache": Path(HF_HUB_CACHE),
        "Workbench cache": home(),
        "runs": runs(),
    }


def _free(folder: Path) -> int:
    """The free bytes on the disk of a folder, which may not exist yet."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return shutil.disk_usage(folder).free


def _missing_packages(dependencies: tuple[Package, ...]) -> list[Missing]:
    missing = []
    for package in dependencies:
        if package.fits:
            continue
        what = f"{package.name} {package.wanted}"
        if package.installed:
            what += f" (installed: {package.installed})"
        why = EXTRAS[package.extra] if package.extra else "required by Workbench"
        command = f'pip install "{package.name}{package.wanted}"'
        missing.append(Missing(what, why, command))
    return missing


def _distributions_with(package: str) -> list[str]:
    """The names of the distributions with this package; to read all packages takes a second."""
    found = []
    for each in distributions():
        record = each.read_text("RECORD")
        if declared := (each.read_text("top_level.txt") or "").split():
            has_it = package in declared
        elif record is not None and package not in record:
            has_it = False
        else:
            files = [file for file in each.files or () if file.suffix == ".py"]
            has_it = package in {file.parts[0].removesuffix(".py") for file in files}
        if has_it:
            found.append(each.metadata["Name"])
    return found


def _other_projects(distributions: Iterable[str]) -> list[Missing]:
    """Other projects, or old versions of this one, whose package has this one's name."""
    return [
        Missing(
            f"an environment without the distribution {name} ({installed_version(name)})",
            "it has a package `workbench`, too, and each overwrites files of the other",
            f"pip uninstall -y {name} {DISTRIBUTION} && pip install {DISTRIBUTION}",
        )
        for name in sorted(set(distributions) - {DISTRIBUTION})
    ]


def _missing_elsewhere(pipelines: tuple[str, ...], machine: Device) -> list[Missing]:
    missing = []
    if not pipelines:
        missing.append(
            Missing(
                "a spaCy pipeline",
                "tags, trees and entities for raw text; without it, text is only split into words "
                "and sentences",
                "python -m spacy download en_core_web_sm",
            )
        )
    if machine.kind == "cpu" and shutil.which("nvidia-smi"):
        missing.append(
            Missing(
                "a torch that can use the NVIDIA GPU",
                "the machine has a GPU, but torch cannot use it",
                "pip install --force-reinstall torch   (or update the driver; see nvidia-smi)",
            )
        )
    return missing
