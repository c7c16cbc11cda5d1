"""How several processes share the rows and the model of a run."""
