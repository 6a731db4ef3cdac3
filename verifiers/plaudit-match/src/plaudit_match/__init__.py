"""Verifiers that compare text with a reference."""
