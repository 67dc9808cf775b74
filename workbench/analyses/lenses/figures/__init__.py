"""Figures of lenses and contributions."""
