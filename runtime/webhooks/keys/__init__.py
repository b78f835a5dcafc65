"""Keys that signatures are checked with: shared secrets, public keys, certificates, JSON Web Keys."""
