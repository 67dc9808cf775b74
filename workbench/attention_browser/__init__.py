"""The attention browser: what is sent to it, its JavaScript, and the page that stands alone."""
