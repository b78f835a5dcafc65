"""Routes: declared webhooks, and those created through the API."""
