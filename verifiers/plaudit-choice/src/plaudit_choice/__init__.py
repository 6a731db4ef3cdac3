"""The `choice` verifier for multiple-choice answers."""
