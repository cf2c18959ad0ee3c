"""The wheel and the source archive, built, and installed into otherwise empty environments."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
UV = Path(sys.executable).parent / "uv"
LOCKED = ROOT / "requirements" / "dev.txt"


class Built(NamedTuple):
    wheel: Path
    source: Path


class Ended(NamedTuple):
    code: int
    out: str
    err: str


def build(project: Path, out: Path, *, umask: int = 0o022, **environment: str) -> Built:
    """Build with installed tools and without downloads: the wheel comes from the archive."""
    command = (UV, "build", "--offline", "--no-build-isolation", "--python", sys.executable, "--out-dir", out)
    made(*command, project, umask=umask, environment=environment)
    return Built(next(out.glob("*.whl")), next(out.glob("*.tar.gz")))


def installed(wheel: Path, place: Path, *extras: str) -> Path:
    """Create an environment with the wheel and these extras, and return its folder of programs."""
    made(UV, "venv", "--offline", "--python", sys.executable, place)
    wanted = f"redrive[{','.join(extras)}] @ {wheel.as_uri()}"
    install = (UV, "pip", "install", "--python", place / "bin" / "python", "--constraints", LOCKED)
    if (
        ended(*install, "--offline", wanted).code != 0
    ):  # the tests have installed most of it, so it is in the cache
        made(*install, wanted)
    return place / "bin"


def made(
    *command: object, umask: int = 0o022, cwd: Path = ROOT, environment: Mapping[str, str] | None = None
) -> str:
    done = ended(*command, umask=umask, cwd=cwd, environment=environment)
    assert done.code == 0, f"{' '.join(map(str, command))}\n{done.out}\n{done.err}"
    return done.out


def ended(
    *command: object, umask: int = 0o022, cwd: Path = ROOT, environment: Mapping[str, str] | None = None
) -> Ended:
    """Run a command with only the given settings, and return how it ends."""
    foreign = {
        name: value for name, value in os.environ.items() if not name.startswith(("REDRIVE_", "PYTHON"))
    }
    done = subprocess.run(
        [str(each) for each in command],
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
        env={**foreign, **(environment or {})},
        umask=umask,
        timeout=300,
    )
    return Ended(done.returncode, done.stdout, done.stderr)
