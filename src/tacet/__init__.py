"""tacet."""
