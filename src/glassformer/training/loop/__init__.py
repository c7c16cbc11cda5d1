"""Set-up of a run, and its steps."""
