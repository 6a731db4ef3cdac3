"""Rewards on the form of a completion. Each is an entry point; see the README for the list."""
