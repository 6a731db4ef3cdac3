"""The reward runtime: every reward of every rollout, concurrent and beside generation, with a policy for each failure.

`Scorer` and `RewardSpec` are what a trainer needs; docs/concepts/scoring.md explains the rest.
"""
