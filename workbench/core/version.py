"""The version of Workbench, as in `pyproject.toml`, and those of other packages."""

__version__ = "0.2.0"


def installed_version(package: str) -> str | None:
    """Return the version of a package; None if it is not installed."""
    from importlib.metadata import PackageNotFoundError, version  # as slow as all else

    try:
        return version(package)
    except PackageNotFoundError:
        return None
