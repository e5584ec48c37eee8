"""Secrets: made up once per home, or set, and shown to nobody."""

from __future__ import annotations

import pytest

from dedp_assets.graph.resources.environments import settings
from dedp_assets.graph.systems.secrets import Secrets
from dedp_assets.patterns.core.errors import ConfigError


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """A home without a key."""
    monkeypatch.setenv("DEDP_HOME", str(tmp_path))
    monkeypatch.delenv("DEDP_MASKING_KEY", raising=False)
    return tmp_path


def test_a_home_makes_up_its_masking_key_once(home):
    """The same key each time, readable by its owner only, and another one elsewhere."""
    first, second = Secrets().masking_key(), Secrets().masking_key()
    assert first == second
    assert (home / "masking.key").stat().st_mode & 0o077 == 0
    (home / "masking.key").unlink()
    assert Secrets().masking_key() != first


def test_a_key_that_is_set_is_taken(monkeypatch):
    """64 hexadecimal digits."""
    monkeypatch.setenv("DEDP_MASKING_KEY", "0f" * 32)
    assert Secrets().masking_key().secret == bytes([15]) * 32


@pytest.mark.parametrize("key", ["secret", "0f" * 8])
def test_a_key_that_is_none_is_refused_and_not_repeated(monkeypatch, key):
    """Neither a word nor a short key; the message does not show it."""
    monkeypatch.setenv("DEDP_MASKING_KEY", key)
    with pytest.raises(ConfigError) as raised:
        Secrets().masking_key()
    assert key not in str(raised.value)


def test_no_secret_shows_in_the_settings(monkeypatch):
    """Whoever prints them sees none."""
    monkeypatch.setenv("DEDP_MASKING_KEY", "0f" * 32)
    monkeypatch.setenv("DEDP_POSTGRES", "postgresql://u:very-secret@h/d")
    assert "0f0f" not in repr(settings())
    assert "very-secret" not in repr(settings())
