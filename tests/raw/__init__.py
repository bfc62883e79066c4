"""Clients that speak to the socket by themselves, byte by byte, so that they can do what no library lets them."""
