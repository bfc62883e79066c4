"""One module per command of the terminal, and what they share."""
