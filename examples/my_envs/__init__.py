"""Environments of the examples."""
