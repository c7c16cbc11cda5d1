"""Cost of a training, on this machine and on a cluster."""
