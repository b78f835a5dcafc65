"""Sample deliveries: one JSON file a provider, made and loaded by `sample`."""
