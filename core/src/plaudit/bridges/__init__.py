"""Plugins that cross over: rewards, verifiers and environments in other trainers, and theirs here."""
