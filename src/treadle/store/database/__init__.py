"""The databases that can keep a store: what the store asks of one, and the two that answer."""
