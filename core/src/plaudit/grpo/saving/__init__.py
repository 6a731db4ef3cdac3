"""Checkpoints, and what is kept of a run besides."""
