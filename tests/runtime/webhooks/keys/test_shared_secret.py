from __future__ import annotations

import pytest

from runtime.secrets.secret import Secret
from runtime.webhooks.keys.shared_secret import all_secret_bytes, base64_key, hex_key, secret_bytes, text_key


def test_text_bytes_and_secrets_are_the_same_key() -> None:
    assert secret_bytes("kéy") == secret_bytes("kéy".encode()) == secret_bytes(Secret("kéy".encode(), "test"))


def test_white_space_around_a_secret_belongs_to_it() -> None:
    assert secret_bytes(" key\n") == b" key\n"


@pytest.mark.parametrize("blank", ["", " ", "\n", "\u00a0\u3000", b"\x00" * 32, Secret(b"", "test")])
def test_a_blank_secret_is_no_key(blank: str | bytes | Secret) -> None:
    with pytest.raises(ValueError, match="empty or blank"):
        all_secret_bytes(["good", blank])


def test_no_secrets_are_an_error() -> None:
    with pytest.raises(ValueError, match="there is no secret"):
        all_secret_bytes([])


def test_a_secret_says_how_its_key_is_written() -> None:
    assert text_key(b"whsec_a") == b"whsec_a"
    assert base64_key(b"whsec_a2V5") == base64_key(b"a2V5\n") == b"key"
    assert hex_key(b"6B6579") == b"key"


@pytest.mark.parametrize("secret", [b"whsec_", b"AAAA", b"a2V", b"whsec_a2V5!", b"secret value"])
def test_what_is_no_base64_key_is_an_error_that_does_not_show_it(secret: bytes) -> None:
    with pytest.raises(ValueError, match="the secret is") as caught:
        base64_key(secret)
    assert secret.decode() not in str(caught.value)


@pytest.mark.parametrize("secret", [b"", b"0", b"zz", b"0000"])
def test_what_is_no_hexadecimal_key_is_an_error(secret: bytes) -> None:
    with pytest.raises(ValueError, match="the secret is"):
        hex_key(secret)
