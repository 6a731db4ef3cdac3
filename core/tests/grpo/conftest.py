"""Puts helper modules on the path, last, so that those of other folders keep their names."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path += [str(HERE), str(HERE.parent / "trainer")]
