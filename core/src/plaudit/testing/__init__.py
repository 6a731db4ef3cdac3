"""Conformance checks for authors of rewards, verifiers and environments.

Call them from any test, or take them as pytest fixtures (installing plaudit brings a pytest plugin):

```python
def test_mine(check_verifier):
    check_verifier("mine", right=[("the answer is 4", "4")], wrong=[("the answer is 5", "4")])
```
"""

from __future__ import annotations

from plaudit.testing.conformance import Report
from plaudit.testing.environments import check_environment
from plaudit.testing.rewards import check_reward
from plaudit.testing.verifiers import check_verifier

__all__ = ["Report", "check_environment", "check_reward", "check_verifier"]
