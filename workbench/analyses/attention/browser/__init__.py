"""The attention browser: its messages, its JavaScript, and the stand-alone HTML page."""
