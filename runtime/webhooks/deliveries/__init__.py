"""Deliveries from the inbox to their end: claims, runs, retries, redelivery, retention."""
