"""One run: what was asked of it, what it remembers, its files, and how it begins or goes on."""
