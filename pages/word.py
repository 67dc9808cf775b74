"""One word: its pieces, its surprise and its frequency, its neighbours, and its heads.

The address holds the model, the corpus, the word and the text. Costs: loading a model (cached), a
forward pass, and the index of the corpus of the page Words.
"""

from workbench.analyses.editing.views.word import page

page()
