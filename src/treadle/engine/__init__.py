"""Turn the wheel: runs, steps, commits, recovery."""
