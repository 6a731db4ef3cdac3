"""The `code` verifier."""
