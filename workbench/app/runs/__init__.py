"""Runs in the app: their list, their forms, and the page of a result."""
