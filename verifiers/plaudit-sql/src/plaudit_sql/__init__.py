"""The `sql` verifier."""
