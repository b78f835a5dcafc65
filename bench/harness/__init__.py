"""What the benches share: load generator, reference servers, data."""
