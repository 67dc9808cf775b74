"""Models and corpora in the app: choosing, uploading and looking at them."""
