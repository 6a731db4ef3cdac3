"""The `local` back end: warm slots on this machine, a fresh fork a run; no daemon, no root."""
