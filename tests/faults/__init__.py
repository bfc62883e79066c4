"""A network that misbehaves, between a real client and a real server."""
