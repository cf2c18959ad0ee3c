"""The wheel and the source archive, built once."""

from __future__ import annotations

import pytest
from tests.packaging.building import ROOT, Built, build


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    return build(ROOT, tmp_path_factory.mktemp("dist"))
