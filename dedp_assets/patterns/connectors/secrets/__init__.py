"""Secrets by name: an encrypted file, a Vault-compatible server, and a cache with the grants of a run."""
