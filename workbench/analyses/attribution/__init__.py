"""Which parts of a text carry a prediction, and which explanation is faithful to the model?

Gradients, integrated gradients, occlusion, Shapley values and attention, of one text and over a
corpus, each with its check.
"""

from workbench.core.analysis import Analysis, Recipe, Tab

ANALYSIS = Analysis(
    __name__,
    needs=("workbench.analyses.predictions",),
    experiments={"attribution": "experiments:ATTRIBUTION"},
    functions={"attribute": "attribute"},
    ahead=("views:show_ahead",),
    modules=(
        "workbench.analyses.attribution.methods",
        "workbench.analyses.attribution.faithfulness",
        "captum.attr",
    ),
    tabs=(
        Tab(
            "predict",
            "Why?",
            "views:why",
            order=1,
            experiments={"attribution": "Attribution over the whole corpus"},
        ),
    ),
    recipes=(
        Recipe(
            "words",
            "Which words decide?",
            "The kinds of words, relations and distances that carry the predictions of a model on "
            "a corpus, by the attribution method that is most faithful to it. For one text of your "
            "own, open Predict & explain.",
            "attribution",
            answer="findings:which_words",
            page="predict",
            order=4,
        ),
    ),
)
