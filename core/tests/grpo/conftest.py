"""Puts this folder's helper modules on the path, last, so that those of other folders keep their names."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))
