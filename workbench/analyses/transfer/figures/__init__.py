"""Figures of fine-tuning: scores, drift, and what pretraining gives."""
