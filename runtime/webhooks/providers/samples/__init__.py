"""Sample deliveries: one JSON file for each provider, loaded by `sample`."""
