"""A server's metrics as a live view for a terminal: read, compared with what they were, put into figures, drawn."""
