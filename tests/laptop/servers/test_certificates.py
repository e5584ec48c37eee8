"""Certificates: who signed them, for whom, how long; and keys that nobody else reads."""

from __future__ import annotations

import stat
from datetime import datetime, timedelta, timezone
from ipaddress import ip_address

import pytest
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.x509.oid import NameOID
from cryptography.x509.verification import PolicyBuilder, Store, VerificationError

from dedp_assets.laptop.servers.certificates import Authority

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
    assert [path.stat().st_mode & MAY_READ for path in (authority.key, made.key, made.java_key)] == [0, 0, 0]
    assert {path.name for path in tmp_path.iterdir()} == {"reporter.pem", "reporter.key", "reporter.pk8"}
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
