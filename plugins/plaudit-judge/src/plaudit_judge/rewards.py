"""Judges of one completion: a score on a rubric, and a verdict of yes or no."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from plaudit import Verdict, completion_text, reward

from plaudit_judge import replies
from plaudit_judge.client import Chat, Reply, Server
from plaudit_judge.prefilter import holds_no_answer
from plaudit_judge.prompts import build

DEFAULT_RUBRIC = "How well does the candidate answer the question? Judge correctness first, then clarity."
COMMON = {"granularity": "rollout", "timeout_s": 120.0, "retries": 3, "on_error": "abstain", "deterministic": True}


def prompt_text(prompt: Any) -> str | None:
    """The question as the judge is shown it: the string, or the messages with their roles."""
    if prompt is None or isinstance(prompt, str):
        return prompt
    return "\n".join(f"{message['role']}: {completion_text([{**message, 'role': 'assistant'}])}" for message in prompt)


def spent(reply: Reply) -> dict[str, float]:
    """A reply's tokens and cost as metrics."""
    return {
        "judge_input_tokens": float(reply.input_tokens),
        "judge_output_tokens": float(reply.output_tokens),
        "judge_cost": reply.cost,
    }


class _Judge:
    """What both judges share: ask about one completion, read the reply, abstain on an unclear one."""

    _ask: str
    _read: Callable[[str, str], float]

    def __init__(self, server: Server, rubric: str, reference_column: str | None, prefilter: bool) -> None:
        self._chat = Chat(server)
        self._rubric, self._reference_column, self._prefilter = rubric, reference_column, prefilter

    async def __call__(self, completions: list[Any], prompts: list[Any] | None = None, **columns: Any) -> list[Verdict]:
        texts = [completion_text(completion) for completion in completions]
        questions = [None] * len(texts) if prompts is None else [prompt_text(prompt) for prompt in prompts]
        return [await self._judge(texts[i], questions[i], self._reference(columns, i)) for i in range(len(texts))]

    def _reference(self, columns: Mapping[str, Any], index: int) -> str | None:
        if self._reference_column is None:
            return None
        return str(columns[self._reference_column][index])

    async def _judge(self, text: str, question: str | None, reference: str | None) -> Verdict:
        if self._prefilter and holds_no_answer(text):
            return Verdict.wrong("holds no answer; the judge was not asked")
        asked = build([text], rubric=self._rubric, ask=self._ask, question=question, reference=reference)
        reply = await self._chat.ask(asked.messages)
        columns = {"judge_reply": reply.text}
        try:
            score = self._read(reply.text, asked.nonce)
        except replies.Unclear as error:
            return Verdict.abstain(str(error), metrics={**spent(reply), "judge_unclear": 1.0}, columns=columns)
        return Verdict(score, metrics={**spent(reply), "judge_unclear": 0.0}, columns=columns)


@reward(**COMMON)
class JudgeScore(_Judge):
    """A score in 0..1: the judge's number on `scale` (low, high) by `rubric`.

    `model`, `base_url` (OPENAI_BASE_URL where none is given) and `server` (more fields of `Server`, e.g. `timeout_s`,
    `api_key_env`, prices) name the server. `reference_column` shows the judge a reference. `prefilter` scores text
    without an answer 0 and asks nobody. An unclear reply abstains.
    """

    def __init__(
        self,
        *,
        model: str,
        base_url: str | None = None,
        server: dict[str, Any] | None = None,
        rubric: str = DEFAULT_RUBRIC,
        scale: tuple[float, float] = (1, 10),
        reference_column: str | None = None,
        prefilter: bool = True,
    ) -> None:
        super().__init__(Server.from_options(model, base_url, server), rubric, reference_column, prefilter)
        low, high = scale
        self._ask = f"End with one line: Score-{{nonce}}: N, where N is a number from {low:g} to {high:g}."
        self._read = lambda text, nonce: replies.read_score(text, f"Score-{nonce}", (low, high))


@reward(**COMMON)
class JudgeVerdict(_Judge):
    """1 or 0: the judge's yes or no to `question`, e.g. "Does the candidate agree with the reference?".

    The other options are those of judge_score.
    """

    def __init__(
        self,
        *,
        model: str,
        base_url: str | None = None,
        server: dict[str, Any] | None = None,
        question: str = "Is the candidate's answer correct?",
        reference_column: str | None = None,
        prefilter: bool = True,
    ) -> None:
        super().__init__(Server.from_options(model, base_url, server), question, reference_column, prefilter)
        self._ask = "End with one line: Verdict-{nonce}: YES or Verdict-{nonce}: NO."
        self._read = lambda text, nonce: replies.read_grade(text, f"Verdict-{nonce}: YES|NO", {"YES": 1.0, "NO": 0.0})
