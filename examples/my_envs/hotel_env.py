"""A hotel booking agent that talks with a simulated guest: AITraining's three-method environment.

Run it from examples/:

    plaudit train --rl-env-module my_envs.hotel_env --rl-env-class HotelEnv --model MODEL --rl-max-new-tokens 64
"""

from __future__ import annotations

import json
import random
import re
from dataclasses import dataclass
from typing import Any

from datasets import Dataset

HOTELS = {
    "Lisbon": (("Tejo", 70), ("Alfama", 110), ("Belem", 190)),
    "Oslo": (("Fjord", 120), ("Opera", 180), ("Crown", 260)),
    "Kyoto": (("Kamo", 60), ("Gion", 140), ("Nijo", 230)),
}
CALL = re.compile(r"\b(search_hotels|book_room)\((\{.*?\})\)", re.DOTALL)
SYSTEM = (
    'You are a hotel booking agent. Call search_hotels({"city": …}) to see hotels and their price for a night, '
    'and book_room({"hotel": …, "nights": …}) to book. Ask the guest when something is missing.'
)


@dataclass(frozen=True)
class Case:
    """What a guest wants. `tells`: what the first message leaves out, and the guest says when asked."""

    city: str
    nights: int
    budget: int
    hidden: str

    @property
    def request(self) -> str:
        """The guest's first message."""
        parts = {"city": f"in {self.city}", "nights": f"for {self.nights} nights", "budget": f"at most {self.budget}"}
        return "I need a room " + ", ".join(text for name, text in parts.items() if name != self.hidden) + " a night."

    @property
    def answer(self) -> str:
        """What the guest says when asked."""
        return {
            "city": f"In {self.city}.",
            "nights": f"{self.nights} nights.",
            "budget": f"At most {self.budget} a night.",
            "": "I said all I know.",
        }[self.hidden]


class HotelEnv:
    """Scores a dialogue: a third for a search in the right city, a third for a booking, a third if it fits."""

    def __init__(self, max_turns: int = 3, difficulty: str = "normal", cases: int = 24) -> None:
        """`difficulty` "hard": the guest's first message leaves something out."""
        if difficulty not in ("normal", "hard"):
            raise ValueError(f"difficulty is {difficulty!r}; expected normal or hard")
        draw = random.Random(0)
        hidden = ("",) if difficulty == "normal" else ("city", "nights", "budget")
        self.max_turns = max_turns
        self.cases = [
            Case(city, draw.randint(1, 6), draw.choice([80, 150, 300]), draw.choice(hidden))
            for city in draw.choices(list(HOTELS), k=cases)
        ]

    def build_dataset(self, tokenizer: Any) -> Dataset:
        """One row a case: the prompt and `case_idx`."""
        return Dataset.from_dict(
            {
                "prompt": [f"{SYSTEM}\nGuest: {case.request}\nAgent:" for case in self.cases],
                "case_idx": list(range(len(self.cases))),
            }
        )

    def score_episode(self, model: Any, tokenizer: Any, completion: str, case_idx: int) -> float:
        """Go on with the dialogue from the completion for at most `max_turns` turns, and score what was done."""
        case = self.cases[case_idx]
        talk, said, done = f"{SYSTEM}\nGuest: {case.request}\nAgent:", completion, {"searched": False, "booked": None}
        for turn in range(self.max_turns):
            reply = self._reply(case, said, done)
            if done["booked"] or turn == self.max_turns - 1:
                break
            talk += f"{said}\n{reply}\nAgent:"
            inputs = tokenizer(talk, return_tensors="pt").to(model.device)
            written = model.generate(**inputs, max_new_tokens=32, do_sample=True, temperature=1.0, top_k=0)
            said = tokenizer.decode(written[0][inputs["input_ids"].shape[1] :], skip_special_tokens=True)
        return (done["searched"] + bool(done["booked"]) + self._fits(case, done["booked"])) / 3

    def get_tools(self) -> list[dict[str, Any]]:
        """The agent's tools are described in the prompt."""
        return []

    def _reply(self, case: Case, said: str, done: dict[str, Any]) -> str:
        call = CALL.search(said)
        if call is None:
            return f"Guest: {case.answer}"
        try:
            arguments = json.loads(call[2])
        except json.JSONDecodeError:
            return "System: the arguments are not JSON."
        if call[1] == "search_hotels":
            found = HOTELS.get(arguments.get("city"), ())
            done["searched"] = done["searched"] or arguments.get("city") == case.city
            return "System: " + ", ".join(f"{name} {price}" for name, price in found)
        done["booked"] = (arguments.get("hotel"), arguments.get("nights"))
        return "System: booked."

    @staticmethod
    def _fits(case: Case, booked: tuple[Any, Any] | None) -> bool:
        fitting = [name for name, price in HOTELS[case.city] if price <= case.budget]
        return booked is not None and booked[0] in fitting and booked[1] == case.nights
