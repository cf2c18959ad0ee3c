"""What is vendored is what its authors have published: htmx 2.0.11, as the package registry has it."""

from __future__ import annotations

from hashlib import sha256
from importlib.resources import files

from redrive.server.admin.static_files import static_files

STATIC = files("redrive.server.admin") / "static"
HTMX = "d6fdc75f204e6bdefa99b69bf1e6d4ac69b8a364f77929f45c13476b4000f717"


def test_htmx_is_as_it_was_published() -> None:
    content = (STATIC / "htmx.min.js").read_bytes()
    assert sha256(content).hexdigest() == HTMX
    assert b'version:"2.0.11"' in content
    assert "BSD" in (STATIC / "htmx-licence.txt").read_text()


def test_all_that_is_served_is_small() -> None:
    """The first load is at most 120 KB: scripts and styles leave enough of it for a page."""
    assert sum(len(each.compressed) for each in static_files().values()) < 60_000
