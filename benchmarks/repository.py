"""Make the packages of the repository importable that are not installed: `experiments`."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))
