"""Every figure of these subjects is drawn by the second renderer too, whatever the names are."""

from collections.abc import Mapping
from xml.etree import ElementTree

import pandas as pd
import pytest

from tests.analyses.basics import test_figures as test_corpus
from tests.analyses.heads import test_figures as test_heads
from tests.analyses.probes import test_figures as test_probing
from tests.analyses.training import test_figures as test_training
from tests.analyses.transfer import test_figures as test_transfer
from tests.analyses.words import test_figures_neighbours as test_neighbours
from tests.night import mostly
from workbench.analyses.basics.figures import corpus
from workbench.analyses.heads.figures import heads as heads
from workbench.analyses.probes.figures import probing
from workbench.analyses.training import figures as training
from workbench.analyses.transfer.figures import transfer
from workbench.analyses.words.figures import neighbours
from workbench.drawing.primitives import Draw
from workbench.drawing.sanitize import harmless
from workbench.drawing.vector import inline_svg, picture

Tables = Mapping[str, pd.DataFrame]
EVIL = test_heads.EVIL
EVIL_HEADS = test_heads.tables_of(((EVIL, "cross"), ("decoder", EVIL)), EVIL)
PROBED, _, _ = test_probing.probed(tasks=("pos", EVIL, "roles"))
TUNED = {
    name: table.replace({"sentiment": EVIL, "bert": EVIL, "lora": EVIL, "accuracy": EVIL})
    for name, table in test_transfer.tables_of().items()
}
SUBJECTS: Mapping[str, tuple[Mapping[str, Draw], Tables]] = {
    "heads": (heads.FIGURES, test_heads.tables_of(test_heads.ALL)),
    "heads with odd names": (heads.FIGURES, EVIL_HEADS),
    "probing": (probing.FIGURES, PROBED),
    "transfer": (transfer.FROZEN_VS_FINETUNED, TUNED),
    "corpus": (corpus.FIGURES, test_corpus.TABLES),
    "neighbours": (neighbours.FIGURES, test_neighbours.tables_of(("encoder", "decoder"))),
    "training": (training.FIGURES, {"curves": test_training.CURVES}),
}
DRAWN = [(subject, name) for subject, (figures, _) in SUBJECTS.items() for name in figures]
BY_DAY = [(subject, name) for subject, (figures, _) in SUBJECTS.items() for name in [*figures][:2]]


@pytest.mark.parametrize(("subject", "name"), mostly(DRAWN, *BY_DAY))
def test_a_figure_is_drawn_as_svg_and_nothing_in_it_is_markup(subject: str, name: str) -> None:
    figures, tables = SUBJECTS[subject]
    try:
        figure = harmless(figures[name](tables))
    except KeyError:
        pytest.skip("not drawn from these tables")
    root = ElementTree.fromstring(inline_svg(figure))
    kinds = {each.tag.rpartition("}")[2] for each in root.iter()}
    assert {"path", "text"} <= kinds <= {"svg", "g", "path", "circle", "text"}
    assert any(each.get("data-tip") for each in root.iter())
    assert picture(figure, "svg", columns=1).startswith(b"<?xml")
