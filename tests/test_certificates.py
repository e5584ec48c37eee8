"""``dedp certificates`` in a home whose servers do not run: files are exchanged, and one sentence refuses the rest."""

from __future__ import annotations

from datetime import timedelta

import pytest

from dedp_assets.cli import main
from dedp_assets.graph.resources.clock import Clock
from dedp_assets.graph.resources.environments import settings
from dedp_assets.graph.systems.identities import CLIENTS, home_authority
from dedp_assets.patterns.connectors.certificates.files import is_signed_by

now = Clock().now


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A home without an authority."""
    monkeypatch.setenv("DEDP_HOME", str(tmp_path))
    monkeypatch.setenv("DEDP_SECURE", "on")
    (tmp_path / "lake").mkdir()
    return tmp_path


@pytest.fixture
def dedp(home, capsys):
    """Run the command: exit code, and all that was said in one line."""

    def run(*words):
        code = main(["certificates", *words])
        said = capsys.readouterr()
        return code, " ".join((said.out + said.err).split())

    return run


def test_without_an_authority_nothing_is_rotated_or_retired(dedp, home):
    """The sentence names what makes one, and no file comes to be."""
    for action in ("rotate", "retire"):
        code, said = dedp(action)
        assert (code, "has no authority of certificates: `DEDP_SECURE=on dedp up` makes one" in said) == (2, True)
    assert not (home / "tls").exists()


def test_a_former_key_is_retired_once_and_only_after_a_rotation(dedp):
    """A second rotation within the grace goes on with the first one, and makes no third key."""
    authority = home_authority(settings())
    code, said = dedp("retire")
    assert (code, "no former authority is left to retire: begin with `dedp certificates rotate`" in said) == (2, True)
    first = authority.path.read_bytes()
    code, said = dedp("rotate")
    both = authority.path.read_bytes()
    assert (code, both.endswith(first), both != first) == (0, True, True)
    assert "no server with a lock runs: the next start takes it" in said
    assert "`dedp certificates retire`" in said
    dedp("rotate")
    assert authority.path.read_bytes() == both
    assert dedp("retire")[0] == 0
    assert authority.path.read_bytes() == both.removesuffix(first)
    assert dedp("retire")[0] == 2


def test_a_former_key_whose_certificate_somebody_holds_is_kept_unless_at_once(dedp, home):
    """Until that certificate ends; the time is named by both commands."""
    authority, ends = home_authority(settings()), now() + timedelta(hours=1)
    held = authority.issue("dedp", home / CLIENTS / "dedp" / "a1", begins=now() - timedelta(minutes=1), ends=ends)
    assert f"after {ends:%Y-%m-%d %H:%M:%S} UTC" in dedp("rotate")[1]
    code, said = dedp("retire")
    assert (code, f"until {ends:%H:%M:%S} UTC" in said, authority.in_grace) == (2, True, True)
    assert dedp("retire", "--at-once")[0] == 0
    assert not is_signed_by(held.path, authority.path)
