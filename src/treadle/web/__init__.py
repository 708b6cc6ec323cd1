"""The page: what runs, why, at what cost, and what waits for a person."""
