"""Keys that verify signatures: shared secrets, public keys, certificates, JSON Web Keys."""
