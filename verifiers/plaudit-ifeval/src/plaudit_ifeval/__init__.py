"""The `ifeval` verifier."""
