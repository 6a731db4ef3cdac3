"""Completions by vLLM: in this process, or by servers."""
