"""Why a model predicts what it does: predictions, lenses, contributions and attribution."""
