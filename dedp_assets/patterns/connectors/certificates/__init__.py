"""Certificates: files and checks, an authority of a folder, and one of a Vault-compatible server."""
