"""What users hand over through the app: received whole into folders of its own, or not at all."""
