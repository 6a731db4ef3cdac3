"""The training pass: log-probs of a micro-batch with as few operations as it takes."""
