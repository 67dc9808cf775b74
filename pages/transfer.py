"""Transfer: what fine-tuning wins over a frozen model, and what it changes; asked, and looked at.

What is looked at is in the address: the question, the run, the view. Costs what asking costs;
looking reads a run's tables, and trying a sentence opens two models.
"""

from workbench.app.transfer import TRANSFER

TRANSFER.page()
