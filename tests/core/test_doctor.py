"""The doctor reports what is installed, what is missing, and how to install it."""

import json
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest

from workbench.core import doctor
from workbench.core.doctor import Device, Package, facts

CPU = Device("cpu", (), 2, 1)


def test_facts_agree_with_what_is_installed_and_are_plain_data() -> None:
    found = facts()
    by_name = {package.name: package for package in found.packages}
    assert by_name["torch"].installed == version("torch")
    assert by_name["datasets"].extra == "hub"
    assert "pytest" not in by_name
    assert found.python == ".".join(map(str, sys.version_info[:3]))
    assert found.device.cores >= 1
    assert set(found.free_bytes) == set(found.folders)
    plain = found.as_dict()
    assert json.loads(json.dumps(plain))["workbench"] == plain["workbench"]


def test_version_out_of_bounds_does_not_fit() -> None:
    assert Package("torch", ">=2.11,<2.14", "2.13.0+cpu").fits
    assert not Package("torch", ">=2.11,<2.14", "2.15.0").fits
    assert not Package("torch", ">=2.11,<2.14", None).fits
    assert Package("numpy", "", "2.0").fits


def test_missing_packages_come_with_the_command_that_installs_them() -> None:
    packages = (
        Package("torch", ">=2.11,<2.14", "2.15.0"),
        Package("datasets", ">=4.0", None, extra="hub"),
        Package("numpy", ">=2.0", "2.4.0"),
    )
    torch, datasets = doctor._missing_packages(packages)
    assert torch.command == 'pip install "torch>=2.11,<2.14"'
    assert "2.15.0" in torch.what
    assert datasets.command == 'pip install "datasets>=4.0"'


def test_nothing_is_missing_if_everything_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor.shutil, "which", lambda name: None)
    assert doctor._missing_elsewhere(("en_core_web_sm",), CPU) == []


def test_a_missing_pipeline_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor.shutil, "which", lambda name: None)
    (pipeline,) = doctor._missing_elsewhere((), CPU)
    assert pipeline.command == "python -m spacy download en_core_web_sm"


def test_gpu_that_torch_cannot_use_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor.shutil, "which", lambda name: f"/usr/bin/{name}")
    (missing,) = doctor._missing_elsewhere(("en_core_web_sm",), CPU)
    assert "GPU" in missing.what


def test_a_checkout_that_is_not_installed_has_no_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> list[str]:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(doctor, "requires", absent)
    assert doctor.packages() == ()


def test_workbench_home_is_the_users_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path / "here"))
    assert doctor.folders()["Workbench cache"] == tmp_path / "here"
    monkeypatch.delenv("WORKBENCH_HOME")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert doctor.folders()["Workbench cache"] == tmp_path / "workbench"


@pytest.mark.parametrize("listed", ["RECORD", "top_level.txt"])
def test_a_distribution_with_the_same_package_is_found(
    listed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    facts = {"METADATA": "Name: other", "RECORD": "workbenches/__init__.py,,\n"}
    facts[listed] = {"RECORD": "workbench/__init__.py,,\n", "top_level.txt": "workbench"}[listed]
    (tmp_path / "other-1.dist-info").mkdir()
    for folder in ("workbench", "workbenches"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "__init__.py").touch()
    for name, text in facts.items():
        (tmp_path / "other-1.dist-info" / name).write_text(text)
    before = doctor._distributions_with("workbench")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert sorted(doctor._distributions_with("workbench")) == sorted([*before, "other"])


def test_another_project_with_the_same_package_is_reported() -> None:
    (other,) = doctor._other_projects(["lm-workbench", "workbench", "workbench"])
    assert "distribution workbench" in other.what
    assert other.command == ("pip uninstall -y workbench lm-workbench && pip install lm-workbench")
    assert doctor._other_projects(["lm-workbench"]) == []
