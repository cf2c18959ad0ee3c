"""Pages are written by a package in docs/, which is imported from the root of the repository."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2]))
