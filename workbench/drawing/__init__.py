"""Figures: pure functions of the tables that a run left."""

from importlib.resources import files

SHARED = ("dom", "words", "colour")  # scripts in `js/` of the attention browser and of token views


def js_file(name: str, package: str) -> str:
    """The text of a file in `js/` of a package, or of one of the shared scripts."""
    home = __package__ if name.removesuffix(".js") in SHARED else package
    return (files(home) / "js" / name).read_text(encoding="utf-8")
