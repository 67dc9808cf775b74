"""What do the layers of a model encode about words, spans and trees?

A probe is a small classifier on frozen hidden states; its score shows what they encode, next to
baselines and control tasks. Costs: nothing by itself.
"""

from workbench.core.analysis import Analysis, Card, Page, Recipe

ANALYSIS = Analysis(
    __name__,
    experiments={
        "edge-probing": "experiments:EDGE_PROBING",
        "description-length": "experiments:DESCRIPTION_LENGTH",
        "structural-probe": "experiments:STRUCTURAL_PROBE",
        "attention-probe": "experiments:ATTENTION_PROBE",
    },
    results={"edge-probing": "views.page:PROBING"},
    page=Page("probing", "Probing", "Measure", "stacked_line_chart", "views.page:PROBING", 1, True),
    ahead=("views.page:show_ahead",),
    modules=("workbench.analyses.probes.probe_inputs",),
    bare=(
        "attention_features",
        "targets",
        "logistic",
        "codes",
        "representations",
        "probe_training",
        "structural_training",
    ),
    cards=(
        Card(
            "Probe a model",
            "What each layer knows.",
            "edge-probing-mini-bert",
            "curves",
            order=2,
        ),
    ),
    recipes=(
        Recipe(
            "layer",
            "What does this layer know?",
            "The parts of speech, trees, entities and roles that probes read from one layer, above "
            "every baseline, and what the layers below and above it know more or less.",
            "edge-probing",
            asks="views.layer:choose",
            answer="views.layer:answer",
            order=2,
        ),
    ),
)
