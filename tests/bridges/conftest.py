"""Modules of these tests lie beside them, which pytest's importlib mode does not look at."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
