"""Decide what holds a child process in, and look at what it did all the same."""
