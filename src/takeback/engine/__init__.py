"""What happens: recording, taking back, recovering. Written once, over ports."""
