"""From the text of an answer to tokens, in one pass from left to right."""

from __future__ import annotations

import re
from typing import NamedTuple

from plaudit_math import vocabulary as v
from plaudit_math.failures import Unreadable


class Token(NamedTuple):
    """`kind`: num (text is the number), rep (repeating decimal "whole.fixed(period)"), sym, const, fn, word, op, cmd.

    `spaced`: blank space stood before it. `styled`: it was in \\text or \\mathrm, or follows no mathematics at all.
    """

    kind: str
    text: str
    spaced: bool = False
    styled: str = ""


_TOKEN = re.compile(
    r"(?P<ws>\s+|~)"
    r"|(?P<rep>\d*\.\d*\\(?:overline|bar|dot)\s*\{?\d+\}?(?:\d*\\dot\s*\{?\d\}?)?|\d*\.\d*\(\d+\)|\d*\.\d*(?P<twice>\d)(?P=twice)(?:\.\.\.|\\[lc]?dots|…))"
    r"|(?P<sci>(?:\d+\.\d*|\.\d+)[eE][+-]?\d+|\d+(?:E[+-]?\d+|e\+?\d+)|\d+e-\d\d+|1e-\d+)(?![A-Za-z\d])"
    r"|(?P<num>\d+(?:\.\d+)?|\.\d+)"
    r"|(?P<cmd>\\[A-Za-z]+\*?|\\.)"
    r"|(?P<letters>[A-Za-z]+)"
    r"|(?P<cjk>[\u3400-\u9fff\u3040-\u30ff\uac00-\ud7af]+)"
    r"|(?P<other>[^\W\d_]+)"
    r"|(?P<op><=>|<->|\*\*|<=|>=|!=|==|->|=>|&&|\.\.\.|.)",
    re.DOTALL,
)
_SAME_OP = {"**": "^", "<=": "≤", ">=": "≥", "!=": "≠", "==": "=", "->": "→", "=>": "→", "<=>": "↔", "<->": "↔",
            "&&": "∧", "...": "…", "\u201c": '"'}  # fmt: skip
_GROUPED = re.compile(
    r"(?<![\d.])\d{1,3}(?:(?:\{,\}|\\!,\\!|\\!,|,\\!\s?|\{\\,\}|\{,\}\\!|\\,|\\;|\\ |~| |')\d{3}){1,9}(?![\d])"
)
_NOT_DIGIT = re.compile(r"[^\d]")
_BRACE_DECIMAL = re.compile(r"(?<=\d)\{,\}(?=\d)")
_LETTER_TIMES = re.compile(r"(?<=\d)\s*[xX]\s*(?=10\s*\^)|(?<=\d) [xX] (?=\d)")
_CHOOSE = re.compile(r"(?:\{\})?[_^]\{?(\w{1,9})\}?\s*(?:\\mathrm\s*)?\{?([CP])\}?_\{?(\w{1,9})\}?")
_RUN_ON = ("qquad", "quad")
_NUMERAL = re.compile(r"(?<![A-Za-z\d_{])([0-9A-F]{2,40})_\{?(1[1-6])\}?(?!\d)")
_NOT_EQUAL = re.compile(r"\\not\s*=")


def tokenize(text: str) -> list[Token]:
    """Tokens of an answer already passed through `surface.math`. Raises Unreadable on an unclosed group."""
    text = _GROUPED.sub(lambda found: _NOT_DIGIT.sub("", found[0]), text)
    if "{," in text:
        text = _BRACE_DECIMAL.sub(".", text)
    if "x" in text or "X" in text:
        text = _LETTER_TIMES.sub(r"\\times ", text)
    if "C_" in text or "P_" in text:
        text = _CHOOSE.sub(_chosen, text)
    if "_" in text:
        text = _NUMERAL.sub(_based, text)
    text = text.replace("+/-", "\\pm ")
    if "\\not" in text:
        text = _NOT_EQUAL.sub(r"\\ne ", text)
    tokens: list[Token] = []
    _scan(text, tokens, "")
    return tokens


def _based(found: re.Match[str]) -> str:
    """2A_{16}: digits and letters A to F in a base above ten; a lone letter with an index stays a variable."""
    digits = found[1]
    if digits.isdigit() or not (any(digit.isdigit() for digit in digits) or found[2] == "16"):
        return found[0]
    return f"\\based{{{digits}}}{{{found[2]}}}"


def _chosen(found: re.Match[str]) -> str:
    """5C2 with its numbers as indices before and behind the letter."""
    name = "binom" if found[2] == "C" else "permutations"
    return f"\\operatorname{{{name}}}({found[1]},{found[3]})"


def _scan(text: str, tokens: list[Token], styled: str) -> None:
    position, spaced = 0, False
    while position < len(text):
        found = _TOKEN.match(text, position)
        if found is None:  # pragma: no cover - the last alternative takes any character
            raise Unreadable(f"cannot read {text[position]!r}")
        position = found.end()
        kind = found.lastgroup or "op"
        piece = found[0]
        if kind == "ws":
            spaced = True
        elif kind == "cmd":
            position, spaced = _command(piece[1:], text, position, tokens, spaced, styled)
        elif kind == "letters":
            raised = text[position : position + 1] in ("^", "_") and piece in v.SHORT_WORDS and piece != "in"
            for letters in piece if raised and not styled else (piece,):
                _letters(letters, tokens, spaced, styled)
            spaced = False
        elif kind == "rep":
            tokens.append(Token("rep", piece, spaced, styled))
            spaced = False
        elif kind in ("num", "sci"):
            tokens.append(Token("num", piece, spaced, styled))
            spaced = False
        elif kind in ("cjk", "other"):
            connector = v.CONNECTORS.get(piece)
            tokens.append(Token("op", connector, spaced) if connector else Token("word", piece, spaced, styled))
            spaced = False
        else:
            tokens.append(Token("op", _SAME_OP.get(piece, piece), spaced, styled))
            spaced = False


def _command(name: str, text: str, position: int, tokens: list[Token], spaced: bool, styled: str) -> tuple[int, bool]:
    if name in v.STYLE:
        return _after_style(name, text, position), spaced
    if name in v.SPACE:
        return position, spaced if name == "!" else True
    if name in v.TEXT:
        content, position = argument(text, position)
        _scan(content.replace("$", " "), tokens, "text")
        return position, True
    if name in v.FONT:
        content, position = argument(text, position)
        _font(name, content, tokens, spaced)
        return position, False
    if name == "mathbb":
        content, position = argument(text, position)
        letter = content.strip()
        kind = "const" if letter in ("R", "Z", "N", "Q", "C") else "sym"
        tokens.append(Token(kind, v.CONSTANTS.get(letter, letter), spaced))
    elif name in ("boxed", "fbox", "ensuremath", "underline"):
        content, position = argument(text, position)
        _scan(content, tokens, styled)
    elif name == "based":
        digits, position = argument(text, position)
        base, position = argument(text, position)
        tokens.append(Token("based", f"{digits}_{base}", spaced))
    elif name in ("color", "textcolor"):
        _, position = argument(text, position)
        return position, spaced
    elif name in ("num", "SI", "qty"):
        content, position = argument(text, position)
        unit, position = argument(text, position) if name != "num" else ("", position)
        _scan(content, tokens, styled)
        _scan(unit.replace("\\", " "), tokens, "text")
    elif head := next((known for known in _RUN_ON if name.startswith(known)), ""):
        return position - len(name) + len(head), True
    else:
        tokens.append(Token(*_named(name), spaced))
    return position, False


def _named(name: str) -> tuple[str, str]:
    """Kind and text of a command without arguments of its own."""
    if name in v.GREEK:
        return "sym", v.GREEK_SAME.get(name, name)
    if name in v.CONSTANTS and len(name) > 1:
        return "const", v.CONSTANTS[name]
    if name in ("{", "lbrace"):
        return "op", "{set"
    if name in ("}", "rbrace"):
        return "op", "}set"
    if name in v.OPERATORS:
        return "op", v.OPERATORS[name]
    if name in v.FUNCTION_NAMES:
        return "fn", v.FUNCTION_SAME.get(name, name)
    return "cmd", name


def _after_style(name: str, text: str, position: int) -> int:
    """`\\left.` and `\\right.` are empty delimiters."""
    if name in ("left", "right") and text[position : position + 1] == ".":
        return position + 1
    return position


def argument(text: str, position: int) -> tuple[str, int]:
    """The TeX argument at `position`: a braced group without its braces, a command, or one character."""
    while position < len(text) and text[position].isspace():
        position += 1
    if position >= len(text):
        return "", position
    if text[position] != "{":
        found = _TOKEN.match(text, position) if text[position] == "\\" else None
        end = found.end() if found else position + 1
        return text[position:end], end
    depth, start = 0, position + 1
    while position < len(text):
        character = text[position]
        if character == "\\":
            position += 1
        elif character == "{":
            depth += 1
        elif character == "}":
            depth -= 1
            if depth == 0:
                return text[start:position], position + 1
        position += 1
    raise Unreadable("a brace is never closed")


def _font(name: str, content: str, tokens: list[Token], spaced: bool) -> None:
    letters = content.strip()
    if name.startswith("operatorname") and letters.isalpha() and letters not in v.FUNCTION_NAMES:
        tokens.append(Token("fn", letters, spaced, "operator"))
    elif name in ("mathbf", "boldsymbol", "bm", "symbf", "pmb") and letters in ("i", "j", "k"):
        tokens.append(Token("sym", f"bold {letters}", spaced))
    elif name == "mathrm" and letters in ("d", "e", "i"):
        tokens.append(Token("const" if letters != "d" else "sym", letters, spaced))
    elif letters in v.FUNCTION_NAMES:
        tokens.append(Token("fn", v.FUNCTION_SAME.get(letters, letters), spaced))
    else:
        before = len(tokens)
        _scan(content, tokens, "roman" if name in ("mathrm", "operatorname", "mathsf") else "font")
        if spaced and len(tokens) > before:
            tokens[before] = tokens[before]._replace(spaced=True)


def _letters(piece: str, tokens: list[Token], spaced: bool, styled: str) -> None:
    if piece in v.CONNECTORS and (styled or len(piece) > 2 or piece in ("or", "OR")):
        tokens.append(Token("op", v.CONNECTORS[piece], spaced, styled))
    elif piece in v.FUNCTION_NAMES and piece not in ("th", "sh", "ch", "tr", "deg", "arg", "dim"):
        tokens.append(Token("fn", v.FUNCTION_SAME.get(piece, piece), spaced, styled))
    elif piece in v.PLAIN_WORDS:
        name = v.PLAIN_WORDS[piece]
        tokens.append(Token("const" if name in ("∞", "π") else "sym", name, spaced, styled))
    elif piece == "mod":
        tokens.append(Token("op", "mod", spaced, styled))
    else:
        tokens.append(Token("word" if len(piece) > 1 else "sym", piece, spaced, styled))
