"""A run, answered about over HTTP and drawn in the browser."""
