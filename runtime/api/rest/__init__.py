"""The REST interface under `/v1`."""
