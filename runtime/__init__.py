"""What a program means while it runs: the receiver, the inbox, agents and their memories, in one daemon."""
