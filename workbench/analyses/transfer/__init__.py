"""Adapting models to tasks, frozen or fine-tuned, and measuring what training changes in them."""
