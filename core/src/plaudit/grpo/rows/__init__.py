"""The rows of a run: datasets, their order, tasks, prompts."""
