"""The `sql` verifier. `run_query(source, query)` is public, for agents that look into a database."""

from plaudit_sql.database import BadDatabase, QueryFailed, Result, run_query

__all__ = ["BadDatabase", "QueryFailed", "Result", "run_query"]
