"""Scores to tokens: sampling and searches, and what they may not choose."""
