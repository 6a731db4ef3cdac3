"""A run from its file: parse, load the data, check everything before the model loads, train, report."""
