"""Jinja2 for one form of a report: what a template shows is escaped for that form, always.

A template lies in `templates/` and holds all the words and marks of its form; `content` prepares
what is shown. Whatever a template writes goes through the form's own escape unless a filter has
done so, and a name it does not know is an error. Costs milliseconds to compile a template.
"""

from collections.abc import Callable, Mapping
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from workbench.report.format import FIRST, HOW_ALIGNED

Escape = Callable[[str], str]  # text that shows as it is, whatever it holds


def environment(
    escape: Escape, code: Escape, filters: Mapping[str, Callable[..., str]], **options: Any
) -> Environment:
    """The templates of a form; `code` sets a name apart."""

    def written(value: object) -> Markup:
        return value if isinstance(value, Markup) else Markup(escape(str(value)))

    def prose(value: str) -> Markup:
        """Words of ours, with names in `backticks` set apart."""
        parts = value.split("`")
        if not len(parts) % 2:
            return written(value)
        return Markup("").join(
            Markup(code(part)) if place % 2 else written(part) for place, part in enumerate(parts)
        )

    def safely(make: Callable[..., str]) -> Callable[..., Markup]:
        return lambda *given: Markup(make(*given))

    found = Environment(
        loader=PackageLoader("workbench.report"),
        autoescape=True,  # escapes nothing more, since all is `Markup`; so macros give it too
        finalize=written,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        **options,
    )
    found.filters |= {
        "prose": prose,
        "grouped": "{:,}".format,
        "headline": lambda name: name[:1].upper() + name[1:].replace("_", " "),
        **{name: safely(make) for name, make in filters.items()},
    }
    found.globals |= {"FIRST": FIRST, "HOW_ALIGNED": HOW_ALIGNED}
    return found
