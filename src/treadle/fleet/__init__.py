"""Runs on many machines: a queue, workers, and who looks after them."""
