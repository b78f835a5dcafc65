"""Tools that manage webhooks created through the API."""
