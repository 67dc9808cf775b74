"""Text that a model writes on a device: the pieces and probabilities that the CPU finds.

On a GPU transformers looks for the end of a text only every few pieces and drops those after it, so
the recorded steps are compared one by one. Costs a second a family.
"""

from tests.gpu.checks import Figures, Setting
from tests.gpu.made import batch_of, opened, saved
from workbench.models.scoring.generation import Sampling, Step, continued

WRITERS = ("gpt2", "llama", "bart")
PIECES = 12


def writing(setting: Setting, figures: Figures) -> None:
    """Greedy text as on the CPU, steps as they are reported, and the same draws for a seed."""
    for name in WRITERS[:1] if setting.small else WRITERS:
        folder = saved(name, setting.folder)
        here, there = opened(folder), opened(folder, setting.device)
        text = here.encode(batch_of(1))
        reported: list[Step] = []
        expected, ended = continued(here, text, PIECES)
        found, also_ended = continued(
            there, text.to(setting.device), PIECES, on_step=reported.append
        )
        pieces = [step.piece for step in found]
        figures.holds(f"{name}: the pieces of the CPU", pieces == [s.piece for s in expected])
        figures.holds(f"{name}: ends where the CPU does", ended == also_ended)
        figures.holds(f"{name}: every step is reported once", reported == found)
        far = max(
            abs(one.probability - other.probability)
            for one, other in zip(found, expected, strict=False)
        )
        figures.at_most(f"{name}: probabilities", far, 1e-4)
        drawn = [
            continued(there, text.to(setting.device), PIECES, 1, Sampling(True, 1.5, 0.9, seed))[0]
            for seed in (0, 0)
        ]
        figures.holds(f"{name}: a seed draws the same", drawn[0] == drawn[1])
