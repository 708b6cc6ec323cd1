"""Read and rewrite the fields at the top of a markdown file."""
