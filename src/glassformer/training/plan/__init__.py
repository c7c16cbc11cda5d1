"""What a training will cost, on this machine and on a cluster."""
