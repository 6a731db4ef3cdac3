"""`plaudit audit`, `try` and `diff` on verifiers that are written here, with known faults."""

from __future__ import annotations

import json
import textwrap

import pytest
from hypothesis import given
from hypothesis import strategies as st
from plaudit.audit.attacks import ATTACKS
from plaudit.audit.difference import advantage_signs, difference
from plaudit.audit.judging import expected_score
from plaudit.cli import main
from plaudit.errors import UsageError

FAULTY = textwrap.dedent("""
    import time

    def upper(completion, reference):
        if completion == "hang":
            time.sleep(60)
        if completion == "crash":
            raise ValueError("a fault of its own")
        if completion == "unknown":
            return None
        return completion.strip().upper() == reference

    def generous(completion, reference):
        return reference in completion.upper()

    def batch(completions, reference, **kwargs):
        return [float(text.upper() == want) for text, want in zip(completions, reference)]

    async def slow(completion, reference):
        return completion.upper() == reference
""")
CASES = [
    ("right", "a", "A", 1, False),
    ("right", "b", "A", 0, False),
    ("false_positive", "c", "C", 0, False),
    ("false_negative", "d", "A", 1, False),
    ("abstained_wrongly", "unknown", "A", 1, False),
    ("right", "unknown", "A", None, False),
    ("right", "crash", "A", None, False),
    ("crashed", "crash", "A", 0, False),
    ("timed_out", "hang", "A", 0, False),
    ("false_negative", "e", "A", None, False),
    ("false_positive", "f", "F", None, False),
    ("ambiguous", "g", "G", 0, True),
]


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "faulty.py").write_text(FAULTY)
    rows = [
        {
            "id": f"{i}",
            "kind": "upper",
            "family": name,
            "completion": text,
            "reference": ref,
            "expected": {"score": score},
        }
        | ({"ambiguous": True} if ambiguous else {})
        for i, (name, text, ref, score, ambiguous) in enumerate(CASES)
    ]
    rows.append({"kind": "other", "completion": "x", "expected": True})
    (tmp_path / "cases.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return tmp_path


def audit(folder, capsys, *more):
    code = main(["audit", f"{folder}/faulty.py:upper", "--cases", f"{folder}/cases.jsonl", "--timeout-s", "2", *more])
    return code, capsys.readouterr().out


def test_every_finding_is_told_apart(folder, capsys):
    code, out = audit(folder, capsys, "--json", "--no-attacks")
    report = json.loads(out)
    assert code == 0
    assert report["n"] == 11
    for finding in ("right", "false_positive", "false_negative", "abstained_wrongly", "crashed", "timed_out"):
        wanted = sum(name == finding for name, *_ in CASES)
        assert report[finding] == wanted, finding
        assert report["by_family"].get(finding, {"n": 0})["n"] == wanted
    assert report["ambiguous"] == {"n": 1, "followed": 0}
    assert "a fault of its own" in json.dumps(report["failures"])
    assert report["slowest_ms"] > 0


def test_fail_under_and_page(folder, capsys):
    assert audit(folder, capsys, "--fail-under", "0.9", "--no-attacks")[0] == 1
    assert audit(folder, capsys, "--fail-under", "0.1", "--no-attacks", "--html", f"{folder}/page.html")[0] == 0
    page = (folder / "page.html").read_text()
    assert "a fault of its own" in page
    assert "<table>" in page


@pytest.mark.parametrize("name", ["batch", "slow"])
def test_rewards_and_coroutines_are_audited_too(folder, capsys, name):
    rows = [{"kind": name, "completion": "a", "reference": "A", "expected": {"score": one}} for one in (1, 0)]
    (folder / "two.jsonl").write_text("\n".join(map(json.dumps, rows)))
    assert main(["audit", f"{folder}/faulty.py:{name}", "--cases", f"{folder}/two.jsonl", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["right"], report["false_positive"]) == (1, 1)


def test_attacks_find_a_generous_verifier(folder, capsys):
    answer = {"kind": "math", "completion": r"\boxed{12}", "gold": "12", "expected": True}
    (folder / "math.jsonl").write_text(json.dumps(answer))
    arguments = ["--cases", f"{folder}/math.jsonl", "--kind", "math", "--json"]
    assert main(["audit", f"{folder}/faulty.py:generous", *arguments]) == 0
    attacks = json.loads(capsys.readouterr().out)["attacks"]
    assert attacks["blanks around"] == {"n": 1, "held": 1}
    assert attacks["changed digit"] == {"n": 1, "held": 1}
    assert attacks["negated"] == {"n": 1, "held": 0}
    assert attacks["all answers"] == {"n": 1, "held": 0}


def test_it_is_said_when_no_attack_fits(folder, capsys):
    (folder / "one.jsonl").write_text(
        json.dumps({"kind": "upper", "completion": "a", "reference": "A", "expected": True})
    )
    line = ["audit", f"{folder}/faulty.py:upper", "--cases", f"{folder}/one.jsonl"]
    assert main(line) == 0
    assert "no attack fits these cases" in capsys.readouterr().out
    assert main([*line, "--no-attacks"]) == 0
    assert "no attack" not in capsys.readouterr().out


def test_attack_names_differ():
    assert len({attack.name for attack in ATTACKS}) == len(ATTACKS)


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        (["audit", "nothing_like_it", "--cases", "CASES"], "no reward or verifier named 'nothing_like_it'"),
        (
            ["audit", "FAULTY:upper", "--cases", "CASES", "--kind", "nothing_like_it"],
            "no case of kind 'nothing_like_it'",
        ),
        (["audit", "FAULTY:upper", "--cases", "missing.jsonl"], "cannot read cases from missing.jsonl"),
        (["audit", "FAULTY:upper", "--cases", "FAULTY"], "not JSON"),
        (["audit", "FAULTY:upper", "--cases", "CASES", "--fail-under", "97"], "between 0 and 1"),
        (["audit", "FAULTY:nothing", "--cases", "CASES", "--kind", "upper"], "nothing"),
        (["try", "FAULTY:upper", "--completion", "@missing.txt"], "cannot read missing.txt"),
        (["try", "FAULTY:upper", "--completion", "a", "--column", "x"], "expected NAME=VALUE"),
        (["diff", "FAULTY:upper", "FAULTY:generous", "--data", "ROWS", "--num-generations", "3"], "groups of 3"),
        (["diff", "FAULTY:upper", "missing.whl:x", "--data", "ROWS"], "no wheel missing.whl"),
        (["diff", "FAULTY:upper", "FAULTY:nothing", "--data", "ROWS"], "nothing"),
    ],
)
def test_bad_input(folder, capsys, arguments, match):
    rows(folder)
    places = {"FAULTY": f"{folder}/faulty.py", "CASES": f"{folder}/cases.jsonl", "ROWS": f"{folder}/rows.jsonl"}
    for short, path in places.items():
        arguments = [argument.replace(short, path) for argument in arguments]
    assert main(arguments) == 2
    assert match in capsys.readouterr().err


def rows(folder):
    texts = [("a", "A"), ("aa", "A"), ("b", "A"), ("ba", "A")]
    lines = [json.dumps({"completion": text, "reference": reference}) for text, reference in texts]
    (folder / "rows.jsonl").write_text("\n".join(lines))


def test_diff_counts_flips_and_signs(folder, capsys):
    rows(folder)
    names = [f"{folder}/faulty.py:upper", f"{folder}/faulty.py:generous"]
    assert main(["diff", *names, "--data", f"{folder}/rows.jsonl", "--num-generations", "2", "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert (record["n"], record["flipped"], record["advantage_signs"]) == (4, 2, 4)
    assert [flip["row"] for flip in record["rows"]] == [2, 4]
    assert main(["diff", names[0], names[0], "--data", f"{folder}/rows.jsonl"]) == 0
    assert "0 of 4 rows score differently" in capsys.readouterr().out


def test_try_says_why(folder, capsys):
    name = f"{folder}/faulty.py:upper"
    assert main(["try", name, "--completion", "a", "--reference", "A"]) == 0
    assert capsys.readouterr().out.startswith("upper: 1")
    assert main(["try", name, "--completion", "unknown", "--reference", "A", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["score"] is None


SCORES = st.lists(st.none() | st.sampled_from([0.0, 0.5, 1.0]), min_size=4, max_size=4)


@given(SCORES, SCORES)
def test_difference_is_symmetric_and_zero_on_itself(left, right):
    one, other = difference(left, right, 2), difference(right, left, 2)
    assert (one.flipped, one.signs, one.abstentions) == (other.flipped, other.signs, other.abstentions)
    same = difference(left, left, 2)
    assert same.flipped == same.signs == same.abstentions == ()
    assert all(sum(advantage_signs(left, 2)[i : i + 2]) == 0 for i in (0, 2))


def test_expected_forms():
    assert [expected_score({"expected": value}) for value in (True, {"score": 0.5}, None, {"score": None})] == [
        1.0,
        0.5,
        None,
        None,
    ]
    with pytest.raises(UsageError, match="neither a bool"):
        expected_score({"id": "x", "expected": "yes"})
