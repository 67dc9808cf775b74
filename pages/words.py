"""Words in their contexts: their neighbours, their senses, and their pieces.

Costs: loading a model (cached); an index of the corpus, the first time, in the background; then
what the open tab shows.
"""

from workbench.analyses.words.views.page import page

page()
