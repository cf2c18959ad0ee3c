"""The published wheel contains all pages: tested in an otherwise empty environment."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tarfile
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from playwright.async_api import Browser, Page
from tests.browser.browsing import Browsing
from tests.browser.serving import ROOT
from tests.browser.site import SECONDS, Site

UV = Path(sys.executable).parent / "uv"
MAX_COUNT = 90
"""The maximum number of pages to open; there are fewer."""

MODULE = """
from redrive import FinalError, Redrive
app = Redrive("sqlite:///work.db")

@app.task
async def charge(order):
    raise FinalError(f"the card of order {order} was declined")
"""
FAILING = """async () => {
    const token = (await (await fetch("/api/v1/session")).json()).csrf_token;
    const headers = {"Content-Type": "application/json", "X-CSRF-Token": token};
    const call = (path, body) => fetch(path, {method: "POST", headers, body: JSON.stringify(body)});
    await call("/api/v1/runs", {work: "charge", payload: 7});
    let items = [];
    while (!items.length) items = (await (await fetch("/api/v1/dead-letters")).json()).items;
    await call("/api/v1/operations", {ids: [items[0].id]});
}"""
LINKS = (
    "[...document.links].filter((each) => !each.closest('[hidden]')).map((each) => each.href.split('#')[0])"
)


class Built(NamedTuple):
    wheel: Path
    source: Path


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """The wheel, built with installed tools and without downloads."""
    out = tmp_path_factory.mktemp("dist")
    run(
        str(UV),
        "build",
        "--offline",
        "--no-build-isolation",
        "--python",
        sys.executable,
        "--out-dir",
        str(out),
        str(ROOT),
    )
    return Built(next(out.glob("*.whl")), next(out.glob("*.tar.gz")))


@pytest.fixture(scope="module")
def installed(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of a clean environment with the wheel and the packages that the server needs."""
    place = tmp_path_factory.mktemp("clean") / "env"
    run(str(UV), "venv", "--offline", "--python", sys.executable, str(place))
    constraints = str(ROOT / "requirements" / "dev.txt")
    install = (
        str(UV),
        "pip",
        "install",
        "--python",
        str(place / "bin" / "python"),
        "--constraint",
        constraints,
    )
    wanted = f"redrive[server] @ {built.wheel.as_uri()}"
    try:
        run(*install, "--offline", wanted)  # the tests have installed all of it, so it is in the cache
    except AssertionError:
        run(*install, wanted)
    return place / "bin"


def run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}\n{done.stderr}"


class Served(NamedTuple):
    url: str
    link: str
    log: Path


@pytest.fixture
def served(installed: Path, tmp_path: Path) -> Iterator[Served]:
    """`redrive serve` in a folder that contains only one module."""
    (tmp_path / "shop.py").write_text(MODULE)
    log = tmp_path / "server.log"
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("REDRIVE_", "PYTHON"))}
    command = [str(installed / "redrive"), "serve", "shop:app", "--port", "0", "--worker"]
    with log.open("wb") as file, subprocess.Popen(command, cwd=tmp_path, env=clean, stderr=file) as process:
        try:
            yield announced(process, log)
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(SECONDS) == 0, log.read_text()


def announced(process: subprocess.Popen[bytes], log: Path) -> Served:
    known = re.compile(r"Redrive is at (\S+)\n.*Sign in once with: (\S+)\n", re.DOTALL)
    end = time.monotonic() + SECONDS
    while not (found := known.search(log.read_text())):
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < end, log.read_text()
        time.sleep(0.02)
    return Served(found[1], found[2], log)


async def test_all_pages_are_in_the_wheel(browser: Browser, served: Served, tmp_path: Path) -> None:
    """From the link that the server prints, to every page that a link leads to."""
    site = Site(tmp_path)
    site.url = served.url
    visitor = Browsing(browser, site)
    page = await visitor.open(None, served.link.removeprefix(served.url))
    await page.get_by_role("button", name="Sign in with this link").click()
    await page.wait_for_url("**/app/admin")
    await page.evaluate(FAILING)
    seen = await crawled(page, served.url)
    kinds = {kind(each.removeprefix(served.url)) for each in seen}
    assert kinds >= KINDS, KINDS - kinds
    assert await visitor.close() == []
    assert "Traceback" not in served.log.read_text()


PLACES = ["", "/dlq", "/dlq/*", "/dlq/groups/*", "/runs", "/runs/*", "/replays", "/replays/*", "/replays/new"]
PLACES += ["/breakers", "/queues", "/workers", "/audit", "/keys", "/settings"]
KINDS = {f"/app/admin{each}" for each in PLACES}


def kind(path: str) -> str:
    """Return the kind of page that this address belongs to."""
    bare = path.partition("?")[0]
    return re.sub(r"/(?!new$|dlq$|runs$|replays$|groups$)[^/]*\d[^/]*$", "/*", bare)


async def crawled(page: Page, url: str) -> set[str]:
    """Visit every page within reach, but only a few of each kind."""
    ahead, seen, numbers = [f"{url}/app/admin"], set[str](), dict[str, int]()
    while ahead and len(seen) < MAX_COUNT:
        address = ahead.pop(0)
        of_kind = kind(address.removeprefix(url))
        if address in seen or numbers.get(of_kind, 0) >= 8:
            continue
        numbers[of_kind] = numbers.get(of_kind, 0) + 1
        answer = await page.goto(address, wait_until="load")
        assert answer is not None
        assert answer.status == 200, f"{answer.status} {address}"
        assert await page.locator("h1").count() == 1, address
        seen.add(address)
        ahead += [each for each in await page.evaluate(LINKS) if each.startswith(f"{url}/app/admin")]
    return seen


def test_all_files_of_the_package_are_in_the_wheel(built: Built) -> None:
    source = ROOT / "src"
    own = {
        str(each.relative_to(source))
        for each in (source / "redrive").rglob("*")
        if each.is_file() and "__pycache__" not in each.parts and each.suffix != ".pyc"
    }
    packed = set(zipfile.ZipFile(built.wheel).namelist())
    assert own <= packed, own - packed


def test_vendored_files_come_with_their_licenses(built: Built) -> None:
    folder = "redrive/server/admin/static"
    with zipfile.ZipFile(built.wheel) as wheel:
        assert b"BSD" in wheel.read(f"{folder}/htmx-licence.txt")
        assert b"SIL OPEN FONT LICENSE" in wheel.read(f"{folder}/inter-licence.txt")
        assert any(each.endswith(".dist-info/licenses/LICENSE") for each in wheel.namelist())
    with tarfile.open(built.source) as source:
        names = {each.partition("/")[2] for each in source.getnames()}
    assert {f"src/{folder}/htmx-licence.txt", f"src/{folder}/inter-licence.txt", "LICENSE"} <= names
