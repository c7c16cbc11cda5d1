"""Rows and model of a run, shared by several processes."""
