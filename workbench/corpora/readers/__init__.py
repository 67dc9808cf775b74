"""One module for each format of a corpus: from a file to documents, and where it can, back."""
