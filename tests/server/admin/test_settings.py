"""The pages of settings, for each role."""

from __future__ import annotations

import pytest
from tests.server.admin.reading import read
from tests.server.house import House

from redrive.parts import parts_of
from redrive.policy.monitor import Thresholds

PASSWORD = "a horse, a horse, my kingdom"
PATH = "/app/admin/settings"


async def test_owners_manage_members_and_others_only_see_them(house: House) -> None:
    await house.member("ana", PASSWORD, "OWNER")
    await house.member("vic", PASSWORD, "VIEWER")
    owner, viewer = await house.signed_in("ana", PASSWORD), await house.signed_in("vic", PASSWORD)
    page = await read(owner, PATH)
    assert "POST /api/v1/members" in page.actions
    assert sum(each.startswith("DELETE /api/v1/members/") for each in page.actions) == 2
    seen = await read(viewer, PATH)
    assert "ana" in seen.text
    assert "STAFF everything VIEWER can; note, tag and assign ADMIN" in seen.text
    assert not [each for each in seen.actions if "/members" in each]


@pytest.mark.parametrize("section", ["keys", "organizations", "server"])
async def test_pages_for_owners_are_absent_for_other_roles(small_house: House, section: str) -> None:
    admin, owner = await small_house.keyed("ADMIN"), await small_house.keyed("OWNER")
    address = f"{PATH}?section={section}"
    assert address not in (await read(admin, PATH)).links
    assert address in (await read(owner, PATH)).links
    assert "Only owners can see these settings" in (await read(admin, address, 403)).text
    await read(owner, address)


async def test_the_configuration_is_for_the_home_organization(house: House) -> None:
    await house.organization("acme")
    owner = await house.keyed("OWNER", "acme")
    await read(owner, f"{PATH}?section=keys")
    await read(owner, f"{PATH}?section=server", 403)


async def test_a_key_is_listed_without_its_text(house: House) -> None:
    text = await house.key("ADMIN", name="deployment")
    answer = await (await house.keyed("OWNER")).get(f"{PATH}?section=keys")
    assert "deployment" in answer.text
    assert text.split("_", 2)[2] not in answer.text


async def test_secrets_of_the_configuration_are_masked(small_house: House) -> None:
    page = await read(await small_house.keyed(), f"{PATH}?section=server")
    assert "database_url" in page.text
    assert "worker_concurrency" in page.text


async def test_everyone_has_an_account_and_programs_have_none(house: House) -> None:
    await house.member("vic", PASSWORD, "VIEWER")
    page = await read(await house.signed_in("vic", PASSWORD), f"{PATH}?section=me")
    assert "current" in page.text
    assert "PUT /api/v1/session/password" in page.actions
    await read(await house.keyed(), f"{PATH}?section=me", 403)


@pytest.mark.parametrize("section", ["dead-letters", "redaction", "retention", "alerts"])
async def test_all_roles_can_read_the_settings_in_effect(small_house: House, section: str) -> None:
    page = await read(await small_house.keyed("VIEWER"), f"{PATH}?section={section}")
    assert not [each for each in page.actions if not each.endswith("/session")]


async def test_the_alerts_of_the_application_are_shown_and_that_redrive_sends_none(house: House) -> None:
    parts_of(house.app).declared.thresholds = Thresholds(exhausted=7, minimum_samples=31)
    viewer = await house.keyed("VIEWER")
    page = await read(viewer, f"{PATH}?section=alerts")
    assert "more than 7 dead letters are exhausted" in page.text
    assert "at least 31 in the last hour" in page.text
    assert "No active alerts" in page.text
    assert "Redrive doesn't send alerts" in page.text
    assert "Notifications" not in page.text


async def test_the_old_address_of_the_alerts_leads_to_them(small_house: House) -> None:
    answer = await (await small_house.keyed("VIEWER")).get(f"{PATH}?section=notifications")
    assert (answer.status_code, answer.headers["location"]) == (308, f"{PATH}?section=alerts")


async def test_settings_that_there_are_not(small_house: House) -> None:
    assert "Unknown settings page" in (await read(await small_house.keyed(), f"{PATH}?section=x", 404)).text
