"""Proving a verifier: cases with known verdicts, attacks made from them, and the difference between two verifiers."""
