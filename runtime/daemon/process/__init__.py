"""The process of a daemon: settings, root, keys, log, systemd."""
