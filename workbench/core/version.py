"""The version of Workbench, as in `pyproject.toml`, and those of other packages."""

from importlib.metadata import PackageNotFoundError, version

__version__ = "0.2.0"


def installed_version(package: str) -> str | None:
    """Return the version of a package; None if it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None
