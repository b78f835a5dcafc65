"""The runtime of compiled programs: the receiver, the inbox, agents and their memories, in one daemon."""
