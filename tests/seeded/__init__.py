"""The server in one seed: sessions, device, admission and texts on a virtual loop whose every chance is drawn.

What is real: everything above the socket. `server.VoiceServer` with its leases, waiting room and drain,
`reception`, `session`, `ears`, `outbox`, `device`, `background`, all of `core`, the wire's decoders and encoders.

What is not: the socket and its library (`connection.MemoryConnection` stands there, behind a limit on each send
like the websocket's own); threads (a blocking call runs at once, and its result comes when its time is over, so
that a race of a thread with the loop is not seen); engines (scripted ones, whose times and faults are drawn); HTTP.

`python -m tests.seeded 1234` plays a seed and shows what happened.
"""
