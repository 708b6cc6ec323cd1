"""The words that cross a border: requests, responses, verdicts, criteria, events."""
