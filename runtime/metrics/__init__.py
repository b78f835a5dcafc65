"""The daemon's metrics. `exposition` writes them for Prometheus; no other module imports prometheus-client."""
