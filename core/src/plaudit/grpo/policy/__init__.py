"""The models of a run: policy, reference, rewards that are models."""
