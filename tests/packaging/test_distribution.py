"""The wheel and the source archive: the same bytes everywhere, and complete."""

from __future__ import annotations

import email
import os
import tarfile
import tomllib
import zipfile
from email.message import Message
from pathlib import Path

from tests.packaging.building import ROOT, Built, build

CACHES = {"__pycache__", ".hypothesis", ".mypy_cache", ".pytest_cache", ".ruff_cache"}
NOT_OURS = {"build", "dist", "site", "paper"}
"""Folders that commands create in the root of the repository."""

LONG_AGO = 86_400.0


def test_the_same_source_makes_the_same_bytes(built: Built, tmp_path: Path) -> None:
    """In another folder, year, language, time zone and mode, and from the archive itself."""
    with tarfile.open(built.source) as archive:
        archive.extractall(tmp_path, filter="data")
    project = next(tmp_path.iterdir())
    for each in project.rglob("*"):
        os.utime(each, (LONG_AGO, LONG_AGO))
        each.chmod(0o700 if each.is_dir() or os.access(each, os.X_OK) else 0o600)
    again = build(project, tmp_path / "out", umask=0o077, LC_ALL="C", TZ="Asia/Kathmandu", PYTHONHASHSEED="7")
    assert again.source.read_bytes() == built.source.read_bytes()
    assert again.wheel.read_bytes() == built.wheel.read_bytes()


def test_the_archive_has_all_that_the_checks_need(built: Built) -> None:
    names = names_in(built.source)
    tops = {name.partition("/")[0] for name in names}
    own = {each.name for each in ROOT.iterdir() if not each.name.startswith((".", "redrive.db"))}
    assert own - NOT_OURS <= tops, own - NOT_OURS - tops
    for top in tops:
        kept = {str(each.relative_to(ROOT)) for each in (ROOT / top).rglob("*") if belongs(each)}
        assert kept <= names, kept - names


def test_the_archive_has_no_stray_files(built: Built) -> None:
    for name in names_in(built.source):
        parts = set(name.split("/"))
        assert not parts & CACHES, name
        assert not name.startswith(tuple(f"{each}/" for each in NOT_OURS)), name
        assert not name.endswith((".pyc", ".db", ".db-wal", ".log")), name


def test_the_wheel_has_the_package_and_nothing_else(built: Built) -> None:
    with zipfile.ZipFile(built.wheel) as wheel:
        names = wheel.namelist()
        modes = {each.filename: each.external_attr >> 16 for each in wheel.infolist()}
    assert {name.partition("/")[0] for name in names} == {"redrive", f"{stem(built)}.dist-info"}
    assert "redrive/py.typed" in names
    assert not [name for name in names if name.endswith(".pyc")]
    assert not [name for name, mode in modes.items() if not mode & 0o444 or mode & 0o022]


def test_the_metadata_is_complete(built: Built) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    said = metadata(built)
    assert said["License-Expression"] == "Apache-2.0"
    assert set(said.get_all("Provides-Extra") or ()) == set(project["optional-dependencies"])
    assert said["Description-Content-Type"] == "text/markdown"
    assert said.get_payload() == (ROOT / "README.md").read_text()
    with zipfile.ZipFile(built.wheel) as wheel:
        for licence in said.get_all("License-File") or ():
            packed = wheel.read(f"{stem(built)}.dist-info/licenses/{licence}")
            assert packed == (ROOT / licence).read_bytes()
        assert (
            "redrive = redrive.cli:main" in wheel.read(f"{stem(built)}.dist-info/entry_points.txt").decode()
        )


def names_in(archive: Path) -> set[str]:
    """Return the names without the top folder."""
    with tarfile.open(archive) as opened:
        return {each.name.partition("/")[2] for each in opened.getmembers() if each.isfile()}


def belongs(path: Path) -> bool:
    ignored = CACHES & set(path.parts) or path.suffix in (".pyc", ".db") or "secrets" in path.parts
    return path.is_file() and not ignored


def stem(built: Built) -> str:
    return built.source.name.removesuffix(".tar.gz")


def metadata(built: Built) -> Message:
    with zipfile.ZipFile(built.wheel) as wheel:
        return email.message_from_string(wheel.read(f"{stem(built)}.dist-info/METADATA").decode())
