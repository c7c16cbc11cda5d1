"""Arguments to calls, nothing else. Results on stdout, progress on stderr."""
