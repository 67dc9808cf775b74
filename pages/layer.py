"""One layer: what it writes, what could be predicted after it, and what the model does without it.

The address holds the model with its edit, the layer, the text and the predicted place. Costs:
loading a model (cached), and a forward pass with and without the edit.
"""

from workbench.analyses.editing.views.layer import page

page()
