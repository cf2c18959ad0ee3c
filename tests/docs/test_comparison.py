"""The programs of docs/comparison.md: a peer's is the file that was run, Redrive's type-checks."""

import subprocess
import sys
from pathlib import Path

from bench.snippets.page import PEERS, ROOT, own_programs, peer_programs


def test_the_page_shows_the_files_that_were_run() -> None:
    shown = {program.file: program.text for program in peer_programs()}
    assert shown == {file: file.read_text() for file in PEERS.glob("*.py")}


def test_every_program_of_a_peer_has_an_output_to_compare_with() -> None:
    assert [program.file.name for program in peer_programs() if not program.output] == []


def test_redrives_programs_have_sound_types(tmp_path: Path) -> None:
    programs = own_programs()
    assert len(programs) == 5
    for number, text in enumerate(programs, start=1):
        (tmp_path / f"program_{number}.py").write_text(text)
    check = [sys.executable, "-m", "mypy", "--strict", *map(str, tmp_path.glob("*.py"))]
    done = subprocess.run(check, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
