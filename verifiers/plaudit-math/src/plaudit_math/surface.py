"""Characters: one spelling for what Unicode and keyboards write in many ways. Linear in the length of the text."""

from __future__ import annotations

import re
import unicodedata
from typing import Any

_INVISIBLE = "\u200b\u200c\u200d\u200e\u200f\u2060\u2061\u2062\u2063\ufeff\u00ad\ufe0f"
_SPACES = "\u00a0\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000"
_GREEK = {
    "α": "alpha", "β": "beta", "γ": "gamma", "δ": "delta", "ε": "epsilon", "ϵ": "epsilon", "ζ": "zeta", "η": "eta",
    "θ": "theta", "ϑ": "theta", "ι": "iota", "κ": "kappa", "λ": "lambda", "μ": "mu", "ν": "nu", "ξ": "xi", "π": "pi",
    "ρ": "rho", "σ": "sigma", "τ": "tau", "υ": "upsilon", "φ": "phi", "ϕ": "phi", "χ": "chi", "ψ": "psi", "ω": "omega",
    "Γ": "Gamma", "Δ": "Delta", "Θ": "Theta", "Λ": "Lambda", "Ξ": "Xi", "Π": "Pi", "Σ": "Sigma", "Φ": "Phi",
    "Ψ": "Psi", "Ω": "Omega",
}  # fmt: skip
_SYMBOLS = {
    "×": "times", "✕": "times", "⨯": "times", "÷": "div", "·": "cdot", "⋅": "cdot", "∙": "cdot", "•": "cdot",
    "±": "pm", "∓": "mp", "∞": "infty", "√": "sqrt", "≤": "le", "⩽": "le", "≦": "le", "≥": "ge", "⩾": "ge",
    "≧": "ge", "≠": "ne", "≈": "approx", "≃": "approx", "≅": "cong", "≡": "equiv", "∈": "in", "∉": "notin",
    "∪": "cup", "∩": "cap", "∅": "emptyset", "∖": "setminus", "ℝ": "mathbb{R}", "ℤ": "mathbb{Z}", "ℕ": "mathbb{N}",
    "ℚ": "mathbb{Q}", "ℂ": "mathbb{C}", "→": "to", "⇒": "to", "⟹": "to", "⟶": "to", "↔": "iff", "⇔": "iff",
    "⟺": "iff", "∧": "land", "∨": "lor", "¬": "neg", "∠": "angle", "△": "triangle", "⟂": "perp", "⊥": "perp",
    "∥": "parallel", "∑": "sum", "∏": "prod", "∫": "int", "⌊": "lfloor", "⌋": "rfloor", "⌈": "lceil", "⌉": "rceil",
    "⟨": "langle", "⟩": "rangle", "〈": "langle", "〉": "rangle", "∀": "forall", "∃": "exists", "∂": "partial",
    "…": "ldots", "⋯": "ldots", "∣": "mid",
}  # fmt: skip
_SUPERSCRIPTS = "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁽⁾ⁿⁱ"
_SUPERSCRIPT_VALUES = "0123456789+-()ni"
_SUBSCRIPTS = "₀₁₂₃₄₅₆₇₈₉"
_FRACTIONS = {"½": (1, 2), "⅓": (1, 3), "⅔": (2, 3), "¼": (1, 4), "¾": (3, 4), "⅕": (1, 5), "⅖": (2, 5), "⅗": (3, 5),
              "⅘": (4, 5), "⅙": (1, 6), "⅚": (5, 6), "⅐": (1, 7), "⅛": (1, 8), "⅜": (3, 8), "⅝": (5, 8), "⅞": (7, 8),
              "⅑": (1, 9), "⅒": (1, 10)}  # fmt: skip


def _plain_table() -> dict[int, Any]:
    table: dict[int, Any] = {ord(character): None for character in _INVISIBLE}
    table |= {ord(character): " " for character in _SPACES}
    table |= dict.fromkeys([*range(0x2600, 0x2700), *range(0x2702, 0x2768), *range(0x1F300, 0x1FB00), 0x2B50])
    table |= {0x2715: "×"}
    table |= {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)}
    table |= {code: unicodedata.normalize("NFKC", chr(code)) for code in range(0x1D400, 0x1D800)}
    table |= {ord(character): "-" for character in "−﹣‐‑‒–－"}
    table |= {ord(character): '"' for character in "“”„"}
    table |= {ord(character): "'" for character in "‘’′ʹ＇"}
    table |= {ord("″"): "''", ord("。"): ".", ord("、"): ",", ord("《"): "<", ord("》"): ">", ord("￥"): "¥"}
    return table


def _math_table() -> dict[int, Any]:
    table = _plain_table() | {ord("—"): "-", ord("―"): "-"}
    table |= {ord(character): f"\\{name} " for character, name in (_GREEK | _SYMBOLS).items()}
    table |= {ord(character): f"\\frac{{{top}}}{{{below}}}" for character, (top, below) in _FRACTIONS.items()}
    table |= {ord("°"): "^\\circ ", ord("º"): "^\\circ ", ord("˚"): "^\\circ ", ord("⁄"): "/", ord("∕"): "/"}
    table |= {ord("℃"): "^\\circ C", ord("∛"): "\\sqrt[3]", ord("∜"): "\\sqrt[4]"}
    return table


_PLAIN = _plain_table()
_MATH = _math_table()
_RAISED = re.compile(f"[{_SUPERSCRIPTS}]+")
_LOWERED = re.compile(f"[{_SUBSCRIPTS}]+")
_TO_LINE = str.maketrans(_SUPERSCRIPTS + _SUBSCRIPTS, _SUPERSCRIPT_VALUES + "0123456789")


def plain(text: str) -> str:
    """Prose: no invisible characters, full-width forms narrowed, every dash a hyphen-minus, every space a blank."""
    return text if text.isascii() else text.translate(_PLAIN)


def math(text: str) -> str:
    """An answer: as `plain`, and Unicode mathematics (×, π, ², ½, √, ≤ …) written as LaTeX."""
    if text.isascii():
        return text
    text = _RAISED.sub(lambda found: f"^{{{found[0].translate(_TO_LINE)}}}", text)
    text = _LOWERED.sub(lambda found: f"_{{{found[0].translate(_TO_LINE)}}}", text)
    return text.translate(_MATH)
