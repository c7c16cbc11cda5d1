"""Linear maps, and their matrices in few bits."""
