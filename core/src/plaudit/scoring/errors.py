"""What scoring raises on purpose. All are PlauditErrors: one or two lines that name the reward and say what to do."""

from __future__ import annotations

from plaudit.errors import ContractError, PlauditError


class RewardError(PlauditError):
    """A reward failed and its policy is `on_error = "raise"`. The reward's own exception, if any, is `__cause__`."""


class LengthError(ContractError, ValueError):
    """A reward returned, or logged, a list that is not one value a completion. Always raises: no policy hides it."""


class LogError(ContractError, ValueError):
    """A reward logged under a reserved name, or a value that is no list or no number."""


class ScoringPaused(PlauditError):
    """More of a batch than allowed has no score. The trainer saves a checkpoint and ends the run with this message.

    Raised on every rank together, after all scores are in; `unscored` and `total` count rollouts over all ranks.
    """

    def __init__(self, message: str, *, unscored: int, total: int) -> None:
        super().__init__(message)
        self.unscored = unscored
        self.total = total
