"""Certificates: who signed them, for whom, how long; and keys that nobody else reads."""

from __future__ import annotations

import stat
from contextlib import suppress
from datetime import datetime, timedelta, timezone
from ipaddress import ip_address
from itertools import count
from unittest.mock import patch

import pytest
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.x509.oid import NameOID
from cryptography.x509.verification import PolicyBuilder, Store, VerificationError
from hypothesis import given, settings
from hypothesis import strategies as st

from dedp_assets.patterns.connectors.certificates import authority as module
from dedp_assets.patterns.connectors.certificates.authority import Authority
from dedp_assets.patterns.connectors.certificates.files import facts_of, is_signed_by
from dedp_assets.patterns.connectors.secrets.key_files import replace_private
from dedp_assets.patterns.core.errors import ConfigError

NOON = datetime(2026, 1, 5, 12, tzinfo=timezone.utc)
DAY = timedelta(days=1)
MAY_READ = stat.S_IRWXG | stat.S_IRWXO


def read(file):
    return x509.load_pem_x509_certificate(file.read_bytes())


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority.of(tmp_path_factory.mktemp("tls"), at=NOON)


def test_an_authority_is_made_once(tmp_path):
    """Of a folder there is one, whenever it is asked for; another folder has another."""
    made = Authority.of(tmp_path / "a", at=NOON)
    before = {path: path.read_bytes() for path in (tmp_path / "a").iterdir()}
    assert Authority.of(tmp_path / "a", at=NOON + DAY) == made
    assert {path: path.read_bytes() for path in (tmp_path / "a").iterdir()} == before
    assert read(Authority.of(tmp_path / "b", at=NOON).path) != read(made.path)


def test_a_servers_certificate_is_good_for_its_hosts(authority, tmp_path):
    """By an independent verifier: for a stated name and address, by this authority, within its time."""
    made = authority.issue("server", tmp_path, begins=NOON, ends=NOON + DAY, hosts=["localhost", "127.0.0.1"])
    soon, late = NOON + timedelta(hours=1), NOON + 2 * DAY
    for host in (x509.DNSName("localhost"), x509.IPAddress(ip_address("127.0.0.1"))):
        assert verified(made, authority, host, soon)
        with pytest.raises(VerificationError):
            verified(made, authority, host, late)
    with pytest.raises(VerificationError):
        verified(made, authority, x509.DNSName("other.example"), soon)


def verified(made, authority, host, at):
    """The chain of a server's certificate, as an independent verifier finds it."""
    policy = PolicyBuilder().store(Store([read(authority.path)])).time(at)
    return policy.build_server_verifier(host).verify(read(made.path), [])


def test_an_identitys_certificate_has_its_name_its_time_and_its_authority(authority, tmp_path):
    """It is no server's, and no authority's; another authority did not sign it."""
    made = read(authority.issue("reporter", tmp_path, begins=NOON, ends=NOON + DAY).path)
    assert [each.value for each in made.subject.get_attributes_for_oid(NameOID.COMMON_NAME)] == ["reporter"]
    assert (made.not_valid_before_utc, made.not_valid_after_utc) == (NOON, NOON + DAY)
    assert not made.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    made.verify_directly_issued_by(read(authority.path))
    with pytest.raises((InvalidSignature, ValueError)):
        made.verify_directly_issued_by(read(Authority.of(tmp_path / "other", at=NOON).path))


def test_nobody_else_may_read_a_key(authority, tmp_path):
    """Neither of an authority nor of a certificate, in both forms, which are of one key; all may read certificates."""
    made = authority.issue("reporter", tmp_path, begins=NOON, ends=NOON + DAY)
    assert [path.stat().st_mode & MAY_READ for path in (authority.key, made.key, made.java_key, made.keystore)] == [
        0
    ] * 4
    assert {path.name for path in tmp_path.iterdir()} == {
        "reporter.pem", "reporter.key", "reporter.pk8", "reporter.keystore.pem"
    }  # fmt: skip
    pem = serialization.load_pem_private_key(made.key.read_bytes(), password=None)
    der = serialization.load_der_private_key(made.java_key.read_bytes(), password=None)
    assert pem.private_numbers() == der.private_numbers()
    assert pem.public_key() == read(made.path).public_key()


def test_a_certificate_of_a_name_is_replaced(authority, tmp_path):
    """By one with another key, as a rotation needs it."""
    first, second = (
        read(authority.issue("reporter", tmp_path, begins=NOON, ends=NOON + DAY).path).public_key() for _ in range(2)
    )
    assert first != second


def test_an_authority_rotates_with_a_grace_period(tmp_path):
    """In the grace, certificates of both keys are by one of the trusted authorities; then those of the newer one."""
    signs = Authority.of(tmp_path / "ca", at=NOON)
    former = signs.issue("reporter", tmp_path / "former", begins=NOON, ends=NOON + DAY)
    signs.rotate(at=NOON)
    later = signs.issue("reporter", tmp_path / "later", begins=NOON, ends=NOON + DAY)
    assert [is_signed_by(each.path, signs.path) for each in (former, later)] == [True, True]
    signs.retire()
    assert [is_signed_by(each.path, signs.path) for each in (former, later)] == [False, True]
    again = signs.issue("reporter", tmp_path / "again", begins=NOON, ends=NOON + DAY)
    assert is_signed_by(again.path, signs.path)


@given(cut=st.integers(0, 3))
@settings(max_examples=4, deadline=None)
def test_a_rotation_that_dies_leaves_an_authority_that_signs(tmp_path_factory, cut):
    """After each of the three writes: what is issued then is by the first of the trusted certificates."""
    folder = tmp_path_factory.mktemp("ca")
    signs = Authority.of(folder, at=NOON)
    with patch.object(module, "replace_private", dying_after(cut)), suppress(Death):
        signs.rotate(at=NOON)
    made = signs.issue("reporter", folder / "made", begins=NOON, ends=NOON + DAY)
    read(made.path).verify_directly_issued_by(read(signs.path))


class Death(BaseException):
    """A process that ends."""


def dying_after(writes):
    """The writer of files, which dies after some."""
    done = count()

    def write(*args, **more):
        if next(done) >= writes:
            raise Death
        replace_private(*args, **more)

    return write


def test_a_key_that_is_lost_or_another_one_is_named(tmp_path):
    """And one that others can read; no text holds a key."""
    signs, other = (Authority.of(tmp_path / name, at=NOON) for name in ("a", "b"))
    asked = {"name": "reporter", "folder": tmp_path / "made", "begins": NOON, "ends": NOON + DAY}
    kept = signs.key.read_bytes()
    replace_private(signs.key, other.key.read_bytes())
    with pytest.raises(ConfigError, match=r"ca.key must be the key of .*ca.pem, not another one") as refused:
        signs.issue(**asked)
    assert kept.decode().splitlines()[1] not in str(refused.value)
    signs.key.unlink()
    with pytest.raises(ConfigError, match=r"ca.key must be the key of the authority, and is missing"):
        signs.issue(**asked)
    replace_private(signs.key, kept, mode=0o640)
    with pytest.raises(ConfigError, match=r"chmod 600 .*ca.key"):
        signs.issue(**asked)


def test_a_file_without_a_certificate_is_named(tmp_path):
    """Missing or not a certificate, in a sentence without the content."""
    with pytest.raises(ConfigError, match=r"x.pem must hold a certificate as PEM, not be missing"):
        facts_of(tmp_path / "x.pem")
    (tmp_path / "x.pem").write_text("secret words")
    with pytest.raises(ConfigError, match=r"x.pem must hold a certificate as PEM, not be unreadable"):
        facts_of(tmp_path / "x.pem")
