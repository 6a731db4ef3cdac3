"""What an audit comes to: counts, families, attacks; as a record, and as a page."""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from plaudit.audit.attacks import Attack, attack_cases, held
from plaudit.audit.judging import Judgement, expected_score, judge_cases
from plaudit.corpora import Case

FINDINGS = ("right", "false_positive", "false_negative", "abstained_wrongly", "crashed", "timed_out")


@dataclass(frozen=True, slots=True)
class Counts:
    """How many cases, and how many of each finding. Ambiguous cases are not among them."""

    n: int
    right: int
    false_positive: int
    false_negative: int
    abstained_wrongly: int
    crashed: int
    timed_out: int

    @classmethod
    def of(cls, judgements: Iterable[Judgement]) -> Counts:
        found = Counter[str](judgement.finding for judgement in judgements)
        return cls(found.total(), *(found[finding] for finding in FINDINGS))

    @property
    def accuracy(self) -> float:
        """The share that was right; 1 where there is no case."""
        return self.right / self.n if self.n else 1.0


@dataclass(frozen=True, slots=True)
class AuditReport:
    """`judgements`: of every case, ambiguous ones too. `attacked`: each attack with its changed case and judgement."""

    name: str
    judgements: tuple[Judgement, ...]
    attacked: tuple[tuple[Attack, Case, Judgement], ...] = ()

    @property
    def clear(self) -> list[Judgement]:
        """The judgements on cases that are not ambiguous; the headline figures are theirs."""
        return [judgement for judgement in self.judgements if not judgement.case.get("ambiguous")]

    @property
    def counts(self) -> Counts:
        return Counts.of(self.clear)

    def families(self) -> dict[str, Counts]:
        """Counts by family, in the order of the cases."""
        names = dict.fromkeys(str(one.case.get("family", "")) for one in self.clear)
        return {name: Counts.of(j for j in self.clear if str(j.case.get("family", "")) == name) for name in names}

    def attacks(self) -> dict[str, tuple[int, int]]:
        """(tried, held) of each attack that applied."""
        names = dict.fromkeys(attack.name for attack, _, _ in self.attacked)
        return {
            name: (
                sum(attack.name == name for attack, _, _ in self.attacked),
                sum(attack.name == name and held(attack, case, judgement) for attack, case, judgement in self.attacked),
            )
            for name in names
        }

    def failures(self) -> list[Judgement]:
        """The judgements that were not right, ambiguous cases left out."""
        return [judgement for judgement in self.clear if judgement.finding != "right"]

    def as_record(self) -> dict[str, Any]:
        """The report as JSON values."""
        ambiguous = [one for one in self.judgements if one.case.get("ambiguous")]
        return {
            "name": self.name,
            **asdict(self.counts),
            "accuracy": self.counts.accuracy,
            "by_family": {name: asdict(counts) for name, counts in self.families().items()},
            "slowest_ms": max((one.seconds or 0.0) * 1000 for one in self.judgements) if self.judgements else 0.0,
            "ambiguous": {"n": len(ambiguous), "followed": sum(one.finding == "right" for one in ambiguous)},
            "attacks": {name: {"n": n, "held": kept} for name, (n, kept) in self.attacks().items()},
            "failures": [_failure(one) for one in self.failures()],
        }


def audit(
    name: str, cases: Sequence[Case], options: dict[str, Any], *, timeout_s: float, attacks: bool = True
) -> AuditReport:
    """Judge the cases with the verifier that `name` references, then the attacks made from those it got right."""
    judgements = judge_cases(cases, name, options, timeout_s=timeout_s)
    changed = attack_cases(judgements) if attacks else []
    attacked = judge_cases([case for _, case in changed], name, options, timeout_s=timeout_s)
    triples = tuple((attack, case, one) for (attack, case), one in zip(changed, attacked, strict=True))
    return AuditReport(name, tuple(judgements), triples)


def _failure(judgement: Judgement) -> dict[str, Any]:
    return {
        "id": judgement.case.get("id"),
        "finding": judgement.finding,
        "score": judgement.score,
        "expected": expected_score(judgement.case),
        "reason": judgement.reason,
    }


def as_page(report: AuditReport) -> str:
    """The report as one HTML page without anything to load."""
    counts = report.counts
    families = [(name, c.n, c.right, c.false_positive, c.false_negative) for name, c in report.families().items()]
    attacks = [(name, n, kept) for name, (n, kept) in report.attacks().items()]
    wrong = [
        (
            one.case.get("id"),
            one.finding,
            one.score,
            expected_score(one.case),
            one.reason,
            str(one.case["completion"])[:400],
        )
        for one in report.failures()
    ]
    return (
        "<!doctype html><meta charset='utf-8'><title>Audit of "
        f"{html.escape(report.name)}</title><style>body{{font:15px system-ui;margin:2em auto;max-width:70em}}"
        "table{border-collapse:collapse;margin:1em 0}td,th{border:1px solid #ccc;padding:.3em .6em;text-align:left;"
        "vertical-align:top}td:last-child{white-space:pre-wrap}</style>"
        f"<h1>Audit of {html.escape(report.name)}</h1><p>{counts.right} of {counts.n} right "
        f"({counts.accuracy:.1%}), {counts.false_positive} false positives, {counts.false_negative} false negatives, "
        f"{counts.abstained_wrongly} abstained wrongly, {counts.crashed} crashed, {counts.timed_out} timed out.</p>"
        + _table("Families", ("family", "cases", "right", "false positives", "false negatives"), families)
        + _table("Attacks", ("attack", "tried", "held"), attacks)
        + _table("Not right", ("case", "finding", "score", "expected", "reason", "completion"), wrong)
    )


def _table(title: str, headers: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    if not rows:
        return ""
    head = "".join(f"<th>{html.escape(header)}</th>" for header in headers)
    body = "".join("<tr>" + "".join(f"<td>{html.escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<h2>{title}</h2><table><tr>{head}</tr>{body}</table>"
