"""The command `train`: a model as a run, sets of models, and several processes."""
