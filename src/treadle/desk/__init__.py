"""Everything that waits for a human."""
