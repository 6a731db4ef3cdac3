"""One rank of two: `python agent_rank_main.py OUTPUT`. Rank 0's rollouts have three rounds of tools, rank 1's none."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import torch
from plaudit.errors import PlauditError
from scripted import Keep, Script, call, make_trainer, turns_of

RANK = int(os.environ["RANK"])


class Game:
    """Remembers the groups' seeds."""

    def __init__(self):
        self.seeds = []

    def reset(self, seed):
        self.seeds.append(seed)
        return "Go."

    def step(self, size: int) -> int:
        """Step.

        Args:
            size: How far.
        """
        if size > 8:
            raise ValueError("too far")
        return size

    def get_reward(self) -> float:
        return float(RANK)


class Talker(Game):
    """Asks on, on one rank."""

    tools = ()

    def answer_turn(self, message):
        return None if message["content"] == "end" else "more"


class SharedEngine(Script):
    """Generates for all ranks at once, so that a rank which does not come keeps the others waiting."""

    together = True

    def generate(self, requests, sampling):
        everyone = [None] * torch.distributed.get_world_size()
        torch.distributed.all_gather_object(everyone, len(requests))
        yield from super().generate(requests, sampling)


def play(text, index):
    return call("step", size=1) if RANK == 0 and turns_of(text) < 3 else "end"


def talk(text, index):
    return "more" if RANK == 0 and turns_of(text) < 3 else "end"


def fail(text, index):
    if RANK == 0 and turns_of(text) == 2:
        raise KeyError("lost")
    return play(text, index)


def run(output, kind, say, environment=Game, **more):
    keep = Keep()
    trainer = make_trainer(
        output / str(kind.__name__), say, reward_funcs=keep, environment_factory=environment, max_steps=2,
        per_device_train_batch_size=4, num_generations=8, **more,
    )  # fmt: skip
    generator = kind(trainer.processing_class, say)
    trainer.source.collector.writer.generator = generator
    try:
        trainer.train()
    except (PlauditError, KeyError) as error:
        return f"{type(error).__name__}: {error}"
    names = ("tools/call_frequency", f"rewards/{environment.__name__}/mean", "num_tokens")
    logs = [{key: log.get(key) for key in names} for log in trainer.state.log_history[:2]]
    seeds = [one.seeds for one in keep.seen[0]["environments"]]
    return {"logs": logs, "seeds": seeds, "rounds": generator.rounds}


if __name__ == "__main__":
    torch.set_num_threads(1)
    folder = Path(sys.argv[1])
    found = [run(folder, kind, play) for kind in (Script, SharedEngine)]
    found.append(run(folder, SharedEngine, fail))
    found += [run(folder, kind, talk, Talker) for kind in (Script, SharedEngine)]
    (folder / f"agents_{RANK}.json").write_text(json.dumps(found))
