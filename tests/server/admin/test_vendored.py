"""Vendored files equal those that their authors have published.

htmx is version 2.0.11, as the package registry has it. Inter is `inter-ui` 4.1.1, reduced with fonttools:

    fonttools varLib.instancer variable/InterVariable.woff2 opsz=14 wght=400:700 -o inter.ttf
    pyftsubset inter.ttf --flavor=woff2 --no-hinting --desubroutinize --output-file=inter.woff2
        --layout-features=kern,mark,mkmk,ccmp,locl,tnum
        --unicodes=U+0020-007E,U+00A0-024F,U+02C6,U+02C7,U+02DA,U+02DC,U+0300-0304,U+0306-0308,U+030A-030C,
                   U+0326-0328,U+1E00-1EFF,U+2010-2016,U+2018-201E,U+2020-2022,U+2026,U+2030,U+2032,U+2033,
                   U+2039,U+203A,U+2044,U+20AC,U+2122,U+2190-2199,U+21A9,U+21AA,U+21BB,U+2212,U+2248,U+2260,
                   U+2264,U+2265,U+2318,U+2713,U+2717,U+FFFD
"""

from __future__ import annotations

from hashlib import sha256
from importlib.resources import files

from redrive.server.admin.static_files import static_files

STATIC = files("redrive.server.admin") / "static"
INTER = "76b017d1ef73c5a2a6f3fa06549ff8703e8d2ee7b7a43bfa8d103d4217ed8e65"
HTMX = "d6fdc75f204e6bdefa99b69bf1e6d4ac69b8a364f77929f45c13476b4000f717"


def test_htmx_is_as_it_was_published() -> None:
    content = (STATIC / "htmx.min.js").read_bytes()
    assert sha256(content).hexdigest() == HTMX
    assert b'version:"2.0.11"' in content
    assert "BSD" in (STATIC / "htmx-licence.txt").read_text()


def test_the_typeface_is_as_it_was_reduced() -> None:
    content = (STATIC / "inter.woff2").read_bytes()
    assert sha256(content).hexdigest() == INTER
    assert len(content) <= 110_000
    assert "SIL OPEN FONT LICENSE" in (STATIC / "inter-licence.txt").read_text()


def test_licenses_are_in_the_package_and_not_served() -> None:
    assert not [name for name in static_files() if "licence" in name]


def test_all_that_is_served_is_small() -> None:
    """The first load is limited to 160 KB, and a page needs some of it besides scripts and styles."""
    assert sum(len(each.compressed) for each in static_files().values()) < 120_000
