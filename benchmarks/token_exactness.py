"""Whether the ids trained on are the ids sampled, in random dialogues with tools and users, for each chat template.

    python benchmarks/token_exactness.py [--dialogues 200] [--seed 0]

Completions are random token ids, so many turns change when their text is encoded again. The templates are those that
the families ship, as the peer's installed release holds them; the tokenizers are small, with each family's special
tokens.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "core" / "tests" / "rollout" / "chat"))

from dialogues import exactness
from family_tokenizers import FAMILIES


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dialogues", type=int, default=200, help="dialogues a template")
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    print(
        "| template | dialogues | turns | change when encoded again | same ids | same mask |\n|---|---|---|---|---|---|"
    )
    for name in FAMILIES:
        found = exactness(name, dialogues=chosen.dialogues, seed=chosen.seed)
        print(
            f"| {name} | {found.dialogues} | {found.turns} | {found.merged} | {found.same_ids} | {found.same_mask} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
