"""Generators: prompts and sampling options in, each completion out as it finishes."""
