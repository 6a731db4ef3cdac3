"""What scores an answer of reasoning-gym, inside a sandbox."""

from __future__ import annotations

PROGRAM = """\
import base64, contextlib, io, json, pickle, sys

given = json.load(sys.stdin)
entry = pickle.loads(base64.b64decode(given["entry"]))
from reasoning_gym import get_score_answer_fn

with contextlib.redirect_stdout(io.StringIO()):
    score = get_score_answer_fn(entry["metadata"]["source_dataset"])(given["answer"], entry)
print(json.dumps({"score": float(score)}))
"""
