"""A self-check that any sandbox provider can run: escapes, limits, leaks, sessions, cancellation, data, many at once.

```python
report = await check_sandbox(functools.partial(open_sandbox, "local"))
assert report.ok, report
```
"""

from __future__ import annotations

from plaudit_sandbox.testing.check import CHECK_LIMITS, Check, OpenBox, Outcome, Report, check_sandbox, checks

__all__ = ["CHECK_LIMITS", "Check", "OpenBox", "Outcome", "Report", "check_sandbox", "checks"]
