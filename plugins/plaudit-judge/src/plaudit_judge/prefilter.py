"""Completions that hold no answer and need no judge: judges are known to say yes to them.

Source: "One Token to Fool LLM-as-a-Judge", arXiv 2507.08794.
"""

from __future__ import annotations

import re
import unicodedata

_OPENERS = frozenset(
    "solution|answer|the answer is|final answer|the final answer is|result|response|thought process|reasoning|"
    "explanation|"
    "step|step by step|let s think step by step|let us think step by step|let s solve this problem step by step|"
    "let s solve this step by step|let s begin|let me think|sure|okay|ok|here is the solution|here is the answer|"
    "réponse|solución|respuesta|risposta|resposta|lösung|antwort|ответ|решение|かいせつ|解説|解答|解|答|答案|解析|정답|풀이|"
    "الحل|الإجابة|उत्तर|cevap|odpowiedź".split("|")
)


def holds_no_answer(completion: str) -> bool:
    """Whether the text is blank, signs only, or nothing but an opener such as "Solution" or "Thought process:"."""
    text = unicodedata.normalize("NFKC", completion).casefold()
    said = " ".join(re.findall(r"[\w]+", text))
    return not said.strip("_ ") or said in _OPENERS


def is_the_gold(completion: str, gold: str) -> bool:
    """Whether the text is the reference answer itself, up to case, blanks and a final full stop."""
    return bool(gold.strip()) and _folded(completion) == _folded(gold)


def _folded(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split()).rstrip(".")
