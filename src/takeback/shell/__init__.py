"""The judge of commands: what one would do, found from its words alone, without running anything."""
