"""The command `train`: a model as a run, the mini quartet, and several processes."""
