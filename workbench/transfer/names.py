"""Names of models, told apart where two are called alike. Costs nothing."""

from collections.abc import Sequence

from workbench.engine.model import Model


def names_of(models: Sequence[Model]) -> list[str]:
    """A name each: where one comes again it is numbered."""
    found: list[str] = []
    for model in models:
        name, number = model.name, 1
        while name in found:
            number += 1
            name = f"{model.name} ({number})"
        found.append(name)
    return found
