"""One head: what it does in a text and on the corpus, and what the model does without it.

The address holds the model with its edit, the head, the text and the predicted place. Costs:
loading a model (cached), and a forward pass with and without the edit.
"""

from workbench.analyses.editing.views.head import page

page()
