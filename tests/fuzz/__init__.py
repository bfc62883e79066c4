"""Everything that reads what others wrote, fed with what nobody should write: see `python -m tests.fuzz`."""
