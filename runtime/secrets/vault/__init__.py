"""The secret backend for HashiCorp Vault and OpenBao."""
