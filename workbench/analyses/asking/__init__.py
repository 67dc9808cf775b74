"""What does a model answer, label or write, and which words of its source carry that?

The page Ask & write: answers from a passage, prompts with demonstrations, and texts.
"""

from workbench.core.analysis import Analysis, Page

ANALYSIS = Analysis(
    __name__,
    needs=("workbench.analyses.predictions", "workbench.analyses.retrieval"),
    page=Page(
        "ask", "Ask & write", "Understand", "edit_note", "views.page:page", order=5, is_typed=True
    ),
    modules=("workbench.analyses.asking.source", "workbench.models.scoring.prompts"),
)
