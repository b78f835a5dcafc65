"""Operations on webhooks and their deliveries."""
