"""Encryption: encrypting and decrypting, key rotation, and texts that only look encrypted (M11)."""

from __future__ import annotations

import pickle
import sys
from base64 import urlsafe_b64encode
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.engine.process_work import claim

from redrive.engine.encryption import MARK, NO_ENCRYPTION, Encryption, key_id
from redrive.errors import InvalidValueError, NotStorableError, SealedError, UnavailableError
from redrive.policy.classify import classify
from redrive.policy.codec import decode, encode
from redrive.settings import Settings

OLD, NEW = (urlsafe_b64encode(letter * 32).decode() for letter in (b"o", b"n"))
LOOK_ALIKES = [
    '{"$sealed":"x"}',
    '{"$sealed":"plain:eHg="}',
    f'{{"$sealed":"{key_id(NEW)}:gAAAA"}}',
    '{"$sealed":"',
    '{"$sealed":"a","more":1}',
    '{"$sealed":null}',
]


def test_a_sealed_text_is_json_that_names_its_key_and_hides_the_rest() -> None:
    sealed = Encryption([NEW]).encrypt('{"password":"hunter2"}')
    value = decode(sealed)
    assert isinstance(value, dict)
    [(name, token)] = value.items()
    assert name == "$sealed"
    assert str(token).startswith(f"{key_id(NEW)}:")
    assert "hunter2" not in sealed
    assert Encryption([NEW]).decrypt(sealed) == '{"password":"hunter2"}'


def test_the_same_text_is_sealed_differently_every_time() -> None:
    assert Encryption([NEW]).encrypt("1") != Encryption([NEW]).encrypt("1")


@given(st.text(st.characters(exclude_categories=["Cs"])) | st.sampled_from(LOOK_ALIKES))
def test_whatever_is_sealed_comes_back_with_keys_and_without(text: str) -> None:
    for encryption in (NO_ENCRYPTION, Encryption([NEW]), Encryption([NEW, OLD])):
        assert encryption.decrypt(encryption.encrypt(text)) == text
        assert (
            encryption.decrypt(encryption.encrypt(encryption.encrypt(text))) == encryption.encrypt(text)
            or encryption.newest is not None
        )


@pytest.mark.parametrize("text", LOOK_ALIKES)
def test_a_look_alike_that_was_stored_without_keys_is_still_readable_with_them(text: str) -> None:
    stored = NO_ENCRYPTION.encrypt(text)
    assert not NO_ENCRYPTION.is_sealed(stored)
    assert Encryption([NEW]).decrypt(stored) == text


def test_without_keys_a_text_is_returned_unchanged() -> None:
    text = encode({"a": 1})
    assert NO_ENCRYPTION.encrypt(text) is text
    assert NO_ENCRYPTION.decrypt(text) is text
    assert not NO_ENCRYPTION.is_sealed(text)


def test_without_keys_nothing_is_imported() -> None:
    """Programs without encryption would pay for the import."""
    import subprocess

    program = "import sys, redrive.app; sys.exit('cryptography' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_the_first_key_seals_and_all_of_them_open() -> None:
    before, both, after = Encryption([OLD]), Encryption([NEW, OLD]), Encryption([NEW])
    assert both.newest == key_id(NEW)
    assert both.decrypt(before.encrypt("1")) == "1"
    assert after.decrypt(both.encrypt("2")) == "2"


@pytest.mark.parametrize("encryption", [NO_ENCRYPTION, Encryption([NEW])])
def test_a_missing_key_is_named(encryption: Encryption) -> None:
    with pytest.raises(SealedError, match=f"{key_id(OLD)!r}, which is not configured here; add it") as caught:
        encryption.decrypt(Encryption([OLD]).encrypt("1"))
    assert caught.value.key_id == key_id(OLD)
    assert isinstance(pickle.loads(pickle.dumps(caught.value)), SealedError)


def test_work_whose_key_is_missing_is_released_uncharged() -> None:
    failure = classify(SealedError("no key", key_id="x"))
    assert failure.unavailable
    assert not failure.may_have_executed
    assert issubclass(SealedError, UnavailableError)


@pytest.mark.parametrize("change", ["cut", "swap", "foreign", "empty"])
def test_a_damaged_value_is_distinguished_from_a_missing_key(change: str) -> None:
    sealed = Encryption([NEW]).encrypt("1")
    broken = {
        "cut": sealed[:40],
        "swap": sealed[:40] + ("A" if sealed[40] != "A" else "B") + sealed[41:],
        "foreign": Encryption([OLD]).encrypt("1").replace(key_id(OLD), key_id(NEW)),
        "empty": f'{MARK}{key_id(NEW)}:"}}',
    }[change]
    with pytest.raises(NotStorableError, match="cannot be decrypted") as caught:
        Encryption([NEW]).decrypt(broken)
    assert not isinstance(caught.value, SealedError)


def test_a_claim_is_opened_in_all_its_parts() -> None:
    encryption = Encryption([NEW])
    plain = claim('"step"', '{"$sealed":"look-alike"}').replace(metadata='{"a":1}')
    sealed = plain.replace(
        input=encryption.encrypt(plain.input),
        step_input=encryption.encrypt('"step"'),
        metadata=encryption.encrypt('{"a":1}'),
    )
    assert encryption.opened(sealed) == plain
    assert encryption.opened(sealed.replace(step_input=None)).step_input is None
    untouched = claim('"step"', "1")
    assert encryption.opened(untouched) is untouched


def test_keys_are_never_shown() -> None:
    settings = Settings(encryption_keys=(NEW, OLD))
    for text in (repr(settings), str(settings), repr(Encryption([NEW, OLD]))):
        assert NEW not in text
        assert OLD not in text
    assert "encryption_keys=***" in repr(settings)
    assert key_id(NEW) in repr(Encryption([NEW]))


@pytest.mark.parametrize("wrong", ["secret", f"{NEW},secret", ["secret"], [7], 7, "", f"{NEW},,", NEW[:-2]])
def test_a_wrong_key_is_refused_without_being_shown(wrong: object) -> None:
    with pytest.raises(InvalidValueError, match="44 characters") as caught:
        Settings(encryption_keys=wrong)  # type: ignore[arg-type]
    assert "secret" not in str(caught.value)
    assert NEW[:20] not in str(caught.value)
    with pytest.raises(InvalidValueError, match="44 characters"):
        Encryption(["secret"])


def test_keys_come_from_the_environment_or_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "keys").write_text(f"{NEW}\n\n{OLD}\n")
    (tmp_path / "redrive.toml").write_text(f'encryption_keys = ["{NEW}", "{OLD}"]')
    for settings in (
        Settings.load({"REDRIVE_ENCRYPTION_KEYS": f"{NEW}, {OLD}"}),
        Settings.load({"REDRIVE_ENCRYPTION_KEYS_FILE": str(tmp_path / "keys")}),
        Settings.load({}, tmp_path / "redrive.toml"),
        Settings(encryption_keys=(NEW, OLD)),
    ):
        assert settings.read_encryption_keys() == (NEW, OLD)
    assert Settings().read_encryption_keys() == ()


def test_a_file_of_keys_that_cannot_be_used_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidValueError, match="cannot read the encryption keys in"):
        Settings(encryption_keys_file=str(tmp_path / "none of that name")).read_encryption_keys()
    for content in (b"secret", b"", b"\xff\xfe"):
        (tmp_path / "keys").write_bytes(content)
        with pytest.raises(InvalidValueError) as caught:
            Settings(encryption_keys_file=str(tmp_path / "keys")).read_encryption_keys()
        assert "secret" not in str(caught.value)
    with pytest.raises(InvalidValueError, match="not both"):
        Settings(encryption_keys=(NEW,), encryption_keys_file="keys").read_encryption_keys()
