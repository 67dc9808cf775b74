"""What does a model predict for a text, and what changes when the text does?"""
