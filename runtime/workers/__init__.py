"""Worker processes of the daemon: their start, and messages to and from them."""
