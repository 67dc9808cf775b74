"""Words in their contexts: what their states have in common, and how tokenizers split them."""
