"""Who writes the rollouts of a run, and when."""
