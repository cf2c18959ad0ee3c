"""Pages about internals name modules that exist."""

import re
from pathlib import Path

from tests.cases import loop_over

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "redrive"
PAGES = sorted(
    [*(ROOT / "docs" / "decisions").glob("*.md"), ROOT / "docs" / "internals" / "life-of-a-run.md"]
)
_MODULE = re.compile(r"`((?:model|policy|store|observe|calls|engine|verify|server|cli)/[a-z_/]+)(?:\.py)?`")


@loop_over("page", PAGES)
def test_the_modules_of(page: Path) -> None:
    for name in _MODULE.findall(page.read_text()):
        assert (SOURCE / f"{name}.py").exists() or (SOURCE / name).is_dir(), f"{page.name} names {name}"


def test_the_life_of_a_run_names_many() -> None:
    text = (ROOT / "docs" / "internals" / "life-of-a-run.md").read_text()
    assert len(set(_MODULE.findall(text))) > 25
