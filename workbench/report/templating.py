"""Jinja2 environments for the formats of a report; all output is escaped for its format.

A template in `templates/` has all text and markup of its format; `content` prepares the data. All
output of a template is escaped for the format unless a filter has escaped it, and an unknown name
is an error. Costs: milliseconds to compile a template.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from workbench.report.format import HOW_ALIGNED
from workbench.report.prose import cited

_PERCENT = re.compile(r"(?<=\d) %")
_STOP = re.compile(r"(?<!\bal)\.\s")  # not of `et al. 2019`
Escape = Callable[[str], str]  # makes any text appear literally


def environment(
    escape: Escape, code: Escape, filters: Mapping[str, Callable[..., str]], **options: Any
) -> Environment:
    """Return the templates of a format; `code` formats a name as code."""

    def written(value: object) -> Markup:
        return value if isinstance(value, Markup) else Markup(escape(str(value)))

    def prose(value: str) -> Markup:
        """Format text of Workbench, with names in `backticks` as code."""
        parts = value.split("`")
        if not len(parts) % 2:
            return written(value)
        return Markup("").join(
            Markup(code(part)) if index % 2 else written(part) for index, part in enumerate(parts)
        )

    def safely(make: Callable[..., str]) -> Callable[..., Markup]:
        return lambda *arguments: Markup(make(*arguments))

    templates = Environment(
        loader=PackageLoader("workbench.report"),
        autoescape=True,  # no further escaping, because all values are `Markup`
        finalize=written,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        **options,
    )
    templates.filters |= {
        "prose": prose,
        "cited": cited,
        "unbroken": lambda text: _PERCENT.sub("\N{NO-BREAK SPACE}%", text),
        "first_sentence": lambda text: f"{_STOP.split(text)[0].rstrip('.')}." if text else "",
        "grouped": "{:,}".format,
        "headline": lambda name: name[:1].upper() + name[1:].replace("_", " "),
        **{name: safely(make) for name, make in filters.items()},
    }
    templates.globals |= {"HOW_ALIGNED": HOW_ALIGNED}
    return templates
