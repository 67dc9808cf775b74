"""The experiments of predictions: settings and tables.

Nothing here imports torch or spaCy, so that listing experiments is fast. Costs: nothing; the code
is imported when an experiment first runs.
"""

# --- lens -----------------------------------------------------------------------------------------

# --- tuned-lens -----------------------------------------------------------------------------------

# --- contributions --------------------------------------------------------------------------------

# --- attribution ----------------------------------------------------------------------------------
