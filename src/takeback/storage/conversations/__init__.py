"""The state that agent frameworks keep of their conversations: on this machine, on a server, or in memory."""
