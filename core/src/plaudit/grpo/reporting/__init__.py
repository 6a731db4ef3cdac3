"""What a run logs: metrics of rollouts, tables, times."""
