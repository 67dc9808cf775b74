"""How differently two models' heads look at the same texts: Jensen-Shannon divergence of rows.

Both models read each batch; site by site the second's map meets the first's, becomes a number a
sentence and head, and is gone. Asked are pieces of the text, not special ones or padding; a row is
all that a piece gives, to special pieces too. 0 bits is the same row, 1 one with nothing in common.
Costs two forward passes, a few numbers a sentence, and for a batch one model's maps: 256 MB at
most, unless a text alone has more.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from workbench.bootstrap import Floats, interval, resampled
from workbench.engine.batch import Batch
from workbench.engine.model import Model, Output
from workbench.engine.passes import CHUNK, PIECES, run_over
from workbench.engine.passes import Progress as Passing
from workbench.engine.pieces import Pieces
from workbench.engine.taps import Capture, Site, View

HEAD = ["stack", "kind", "layer", "head"]
MAPS = 2**28  # bytes of maps that are kept at a time

Sums = Mapping[Site, NDArray[np.float64]]  # [sentences, heads + 1] each; the last: pieces that look


def divergence(first: Tensor, second: Tensor) -> Tensor:
    """Of each row, in bits.  # [..., keys] twice -> [...]"""
    one, other = first.double(), second.double()
    entropy = torch.special.entr
    middle = entropy((one + other) / 2).sum(-1)
    nats: Tensor = middle - (entropy(one).sum(-1) + entropy(other).sum(-1)) / 2
    bits: Tensor = (nats / math.log(2)).clamp(0, 1)
    return bits


@dataclass(eq=False)
class Beside:
    """A tap that sets each map beside another model's; see above."""

    maps: dict[Site, Tensor]  # [batch, heads, queries, keys] of the other
    found: dict[Site, Tensor] = field(default_factory=dict)  # [batch, heads + 1]

    needs_probabilities = True

    def wants(self, site: Site) -> bool:
        return True

    def see(self, view: View) -> None:
        assert view.queries is not None, "asked through the engine"
        asked = view.queries.mask & ~view.queries.special  # [batch, queries]
        apart = divergence(self.maps.pop(view.site), view.probabilities)  # [batch, heads, queries]
        sums = torch.where(asked[:, None], apart, 0.0).sum(-1)
        self.found[view.site] = torch.cat([sums, asked.sum(-1, keepdim=True).double()], dim=1)

    def close(self, whole: bool) -> None:
        self.maps.clear()


def same_pieces(before: Model, after: Model, batch: Batch) -> bool:
    """Whether both models read the same pieces of every text."""
    for start in range(0, len(batch), CHUNK):
        documents = range(start, min(start + CHUNK, len(batch)))
        one, other = before.encode(batch, documents), after.encode(batch, documents)
        if one.ids.shape != other.ids.shape or not torch.equal(one.ids, other.ids):
            return False
    return True


def attention_change(
    before: Model,
    after: Model,
    batch: Batch,
    told: Callable[[Passing], object] | None = None,
) -> Sums:
    """Sums of each sentence at each site, of models that read the same pieces."""
    sums = {site: np.zeros((len(batch), site.heads + 1)) for site in before.sites}
    first = Capture()

    def use(text: Pieces, output: Output) -> None:
        second = Beside({site: maps.pop() for site, maps in first.maps.items()})
        first.maps.clear()
        after.forward(text, taps=[second], hidden=False)
        places = text.order.cpu().numpy()
        for site, numbers in second.found.items():
            sums[site][places] = numbers.cpu().numpy()

    most = _most(before, batch)
    run_over(before, batch, use, taps=[first], hidden=False, pieces=most, progress=told)
    return sums


def _most(model: Model, batch: Batch) -> int:
    """Pieces in a batch, so that its maps have room; a piece is a byte at least."""
    longest = int(np.diff(batch.text_offsets).max(initial=1)) + 8
    longest = min(longest, model.max_pieces or longest)
    row = 4 * longest * sum(site.heads for site in model.sites)  # bytes of what a piece gives
    return max(1, min(MAPS // row, PIECES.get(model.device.type, PIECES["cpu"])))


def heads(sums: Sums, seed: int) -> pd.DataFrame:
    """Each head's mean over pieces, with the middle 95 % of drawings of sentences."""
    rows = []
    for site, found in sums.items():
        apart, number = found[:, :-1], found[:, -1]  # [sentences, heads], [sentences]
        both = np.stack([apart.T, np.broadcast_to(number, apart.T.shape)], axis=-1)
        values = mean(both.sum(1))  # [heads]
        lower, upper = interval(resampled(both[:, None], mean, seed))
        for head in range(site.heads):
            rows.append(
                (site.stack, site.kind, site.layer, head, float(values[head]), float(lower[head]),
                 float(upper[head]), int(number.sum()))
            )  # fmt: skip
    return pd.DataFrame(rows, columns=[*HEAD, "attention_js", "lower", "upper", "n"])


def mean(sums: Floats) -> Floats:
    """Sums over numbers; of nothing there is none.  # [..., 2] -> [...]"""
    found: Floats = np.where(sums[..., 1] > 0, sums[..., 0], np.nan)
    return found / np.maximum(sums[..., 1], 1)
