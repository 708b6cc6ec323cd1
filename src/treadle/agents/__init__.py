"""Drive the programs that do the thinking: one module per kind of tool."""
