"""Letters: markdown files from one agent to another."""
