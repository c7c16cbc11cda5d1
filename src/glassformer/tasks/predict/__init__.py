"""Predictions of a task by the runtime: for each output, from inputs to what is reported."""
