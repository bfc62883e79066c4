"""OpenAI's Realtime protocol, its GA names and the beta ones before them: a dialect, sans-I/O."""
