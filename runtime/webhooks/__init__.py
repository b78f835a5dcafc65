"""Webhooks: senders, verification of requests, filters, and deliveries."""
