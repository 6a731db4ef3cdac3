"""A sequence-classification model as a named reward."""
