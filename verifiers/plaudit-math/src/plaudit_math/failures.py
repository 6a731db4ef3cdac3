"""Why an answer cannot be read or compared. They never leave the package: `verify` turns them into verdicts."""

from __future__ import annotations


class Unreadable(ValueError):
    """The text is no mathematics that the parser knows."""


class TooLarge(ArithmeticError):
    """A value, or the work to find it, is beyond the bounds that keep a comparison short."""


class Undefined(ArithmeticError):
    """The expression has no value here: 1/0, log 0, the square root of a negative number in a real domain."""


class NeedsWorker(ArithmeticError):
    """Only symbolic mathematics (integrals, limits, infinite sums) can tell."""
