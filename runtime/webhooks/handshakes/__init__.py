"""Handshakes: requests that a provider sends to check an address; they are answered and not stored."""
