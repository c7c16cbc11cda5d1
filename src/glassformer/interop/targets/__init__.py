"""The programs that models are exported for, one module for each."""
