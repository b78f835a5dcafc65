"""What the daemon counts of itself. `exposition` writes it for Prometheus; nothing else imports prometheus-client."""

from runtime.metrics.metrics import MADE, VERDICTS, Metrics

__all__ = ["MADE", "VERDICTS", "Metrics"]
