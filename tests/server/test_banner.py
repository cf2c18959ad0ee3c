"""A banner: what an extension shows on the admin pages, and on those of no other server."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from markupsafe import Markup
from starlette.requests import Request
from tests.server.admin.reading import read
from tests.server.house import House, new_app, served

from redrive.errors import InvalidValueError
from redrive.model.caller import Caller
from redrive.server.app import create_app
from redrive.server.banner import Banner

BOX = Markup('<section id="notice">Maintenance tonight</section>')


async def _box(request: Request, caller: Caller) -> str:
    return BOX


def files_in(folder: Path) -> list[Path]:
    for name, text in {
        "notice.css": "#notice { color: red }",
        "notice.js": "1",
        "mark.svg": "<svg/>",
    }.items():
        (folder / name).write_text(text)
    return sorted(folder.glob("*.*"))


async def test_a_server_has_no_banner_unless_it_is_given_one(small_house: House) -> None:
    client = small_house.client(await small_house.key())
    assert not (await read(client, "/app/admin")).find("section", id="notice")
    assert (await client.get("/app/banner/0/notice.css")).status_code == 404


async def test_a_banner_is_on_every_page_with_its_files(tmp_path: Path) -> None:
    banner = Banner(_box, files_in(tmp_path))
    async with served(new_app("sqlite://:memory:"), banner) as house:
        client = house.client(await house.key())
        for path in ("/app/admin", "/app/admin/dlq", "/app/admin/runs"):
            page = await read(client, path)
            assert [each.text for each in page.find("section", id="notice")] == ["Maintenance tonight"]
        [style] = [
            each for each in page.find("link", rel="stylesheet") if "banner" in each.attributes["href"]
        ]
        [script] = [each for each in page.find("script", type="module") if "banner" in each.attributes["src"]]
        assert script.attributes["src"].endswith("/notice.js")
        nobody = house.client()
        sheet = await nobody.get(style.attributes["href"])
        assert (sheet.status_code, sheet.text) == (200, "#notice { color: red }")
        assert sheet.headers["Content-Type"] == "text/css; charset=utf-8"
        assert "immutable" in sheet.headers["Cache-Control"]
        image = await nobody.get("/app/banner/other/mark.svg")
        assert (image.status_code, image.headers["Cache-Control"]) == (200, "no-cache")
        assert (await nobody.get("/app/banner/other/unknown.css")).status_code == 404


async def test_a_banner_knows_the_page_and_who_reads_it() -> None:
    async def render(request: Request, caller: Caller) -> str:
        return f"{request.url.path} in {caller.org} <b>"

    async with served(new_app("sqlite://:memory:"), Banner(render)) as house:
        page = await read(house.client(await house.key()), "/app/admin/dlq")
        assert "/app/admin/dlq in default <b>" in page.text  # plain text is escaped


async def test_a_banner_may_show_nothing(tmp_path: Path) -> None:
    async def render(request: Request, caller: Caller) -> str:
        return ""

    async with served(new_app("sqlite://:memory:"), Banner(render, files_in(tmp_path))) as house:
        text = (await house.client(await house.key()).get("/app/admin")).text
        assert "/app/banner/" not in text


async def test_a_banner_that_fails_is_logged_and_left_out(caplog: pytest.LogCaptureFixture) -> None:
    async def render(request: Request, caller: Caller) -> str:
        raise RuntimeError("out of ink")

    async with served(new_app("sqlite://:memory:"), Banner(render)) as house:
        with caplog.at_level(logging.ERROR, "redrive.server"):
            answer = await house.client(await house.key()).get("/app/admin")
    assert answer.status_code == 200
    assert "banner_failed" in caplog.text


def test_files_that_no_page_can_load_are_rejected(tmp_path: Path) -> None:
    (tmp_path / "notice.exe").write_text("")
    with pytest.raises(InvalidValueError, match=r"css, js, svg, png, not 'notice\.exe'"):
        Banner(_box, [tmp_path / "notice.exe"])


def test_a_banner_adds_one_route() -> None:
    plain = create_app(new_app("sqlite://:memory:")).router.routes
    assert len(create_app(new_app("sqlite://:memory:"), banner=Banner(_box)).router.routes) == len(plain) + 1
