"""What the platform does: processes, durable files, private files, clocks; nothing about agents."""
