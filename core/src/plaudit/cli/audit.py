"""`plaudit audit NAME`: run cases with known verdicts, and attacks made from them, against a verifier."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from plaudit.cli._options import add_option_arguments, read_options
from plaudit.cli._quiet import quiet_runtime
from plaudit.cli._table import print_table
from plaudit.errors import UsageError

if TYPE_CHECKING:
    from plaudit.audit.report import AuditReport
    from plaudit.corpora import Case

HELP = "prove a verifier on cases with known verdicts and on attacks made from them"
SHOWN_FAILURES = 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of `plaudit audit`."""
    parser.add_argument("name", metavar="NAME", help="a verifier or reward: math, dist:name, ./file.py:function")
    parser.add_argument(
        "--cases", action="append", default=[], metavar="FILE", help="JSON lines (the installed corpora)"
    )
    parser.add_argument("--kind", metavar="KIND", help="the kind of cases to run (that of the verifier's name)")
    add_option_arguments(parser)
    parser.add_argument(
        "--timeout-s", type=float, default=10.0, metavar="S", help="stop a case after this (%(default)s)"
    )
    parser.add_argument("--no-attacks", action="store_true", help="run the cases only")
    parser.add_argument("--fail-under", type=float, metavar="SHARE", help="exit with 1 below this accuracy, e.g. 0.97")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    parser.add_argument("--html", metavar="FILE", help="write the report as a page")


def run(args: argparse.Namespace) -> int:
    """Audit, print, write the page; returns 1 below --fail-under."""
    from plaudit.audit.report import as_page, audit

    if args.fail_under is not None and not 0 <= args.fail_under <= 1:
        raise UsageError(f"--fail-under {args.fail_under}: expected a share between 0 and 1, e.g. 0.97")
    options = read_options(args)
    cases = _cases(args, options)
    with quiet_runtime():
        report = audit(args.name, cases, options, timeout_s=args.timeout_s, attacks=not args.no_attacks)
    if args.html:
        Path(args.html).write_text(as_page(report), encoding="utf-8")
    if args.json:
        print(json.dumps(report.as_record(), ensure_ascii=False))
    else:
        _print(report)
        if not (args.no_attacks or report.attacks()):
            print(
                "no attack fits these cases; --kind and the cases' own kind say which are tried, e.g. math for numbers"
            )
    return int(args.fail_under is not None and report.counts.accuracy < args.fail_under)


def _cases(args: argparse.Namespace, options: dict[str, Any]) -> list[Case]:
    from plaudit.audit.judging import verifier_name
    from plaudit.corpora import installed_cases, load_cases
    from plaudit.plugins.loading import load_reward

    short = args.name.rsplit(":", 1)[-1].split("@")[0].split(">")[0].split("<")[0]
    found = [case for path in args.cases for case in load_cases(path)] if args.cases else installed_cases(short)
    wanted = verifier_name(args.kind or short)
    kinds = sorted({str(case["kind"]) for case in found})
    cases = [case for case in found if verifier_name(str(case["kind"])) == wanted]
    if not cases:
        load_reward(args.name, options=options)  # a name that is nobody's says so itself
        where = ", ".join(args.cases) or f"the installed corpora of '{short}'"
        hint = f"set --kind to one of {', '.join(kinds)}" if kinds else "give --cases FILE"
        raise UsageError(f"no case of kind '{wanted}' in {where}; {hint}")
    return cases


def _print(report: AuditReport) -> None:
    headers = ("family", "cases", "right", "false pos.", "false neg.", "abstained", "crashed", "timed out")
    rows = [_row(name, counts) for name, counts in report.families().items()]
    print_table(headers, [*rows, _row("all", report.counts)])
    attacks = report.attacks()
    if attacks:
        print()
        print_table(("attack", "tried", "held"), [(name, n, kept) for name, (n, kept) in attacks.items()])
    for judgement in report.failures()[:SHOWN_FAILURES]:
        print(f"{judgement.finding}: {judgement.case.get('id')} {judgement.reason}"[:200])
    record = report.as_record()
    ambiguous = record["ambiguous"]
    print(
        f"{report.name}: {report.counts.accuracy:.1%} of {report.counts.n} clear cases right; slowest "
        f"{record['slowest_ms']:.0f} ms; {ambiguous['followed']} of {ambiguous['n']} ambiguous cases by policy"
    )


def _row(name: str, counts: object) -> tuple[object, ...]:
    from dataclasses import astuple

    return (name, *astuple(counts))  # type: ignore[call-overload]
