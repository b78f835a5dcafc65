"""What the daemon counts of itself. `exposition` writes it for Prometheus; nothing else imports prometheus-client."""
