"""Makes the package docs importable: it generates pages, and is in the root of the repository."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2]))
