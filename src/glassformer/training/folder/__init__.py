"""The run folder: what a training writes into it, and reads again."""
