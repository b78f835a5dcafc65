"""The programming interfaces of a root: `admin` for the admin socket and commands, `rest` for `/v1`."""
