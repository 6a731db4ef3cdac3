"""Modules of these tests lie beside them, which pytest's importlib mode does not look at."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "pages")]
