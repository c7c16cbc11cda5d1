"""The plan of a run on many machines."""
