"""The running program: its generation, reload, memories, secrets and open resources."""
