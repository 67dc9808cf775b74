"""Which parts of a text carry a prediction, and which explanation is faithful to the model?"""
