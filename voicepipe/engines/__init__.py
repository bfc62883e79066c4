"""What does the work behind a stage: `base` holds the Protocols, one file per backend, `table` the names."""
