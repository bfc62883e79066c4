"""The core decides and never waits: no asyncio, clock, randomness, logging, numpy or thread in here.

A stateful component has four verbs:

    on_<event>(..., now) -> list[Command]    changes state, says what to do
    next_deadline() -> float | None          the one timer its driver must arm; None where nothing is pending
    on_timer(now) -> list[Command]           idempotent, harmless when early
    snapshot() -> frozen dataclass           for metrics, logs and assertions

`now` is scheduler time: seconds of a monotonic clock that the driver reads. Positions in sound are media
time: counts of samples. The two are never mixed; a driver that must relate them says so where it does. Commands
are data, and only drivers act on them. An event that is illegal in the present state is an AssertionError
where only our own bug can cause it, and is ignored where a peer's timing can.

An answer depends on the arguments of the events so far and on nothing else, and these are plain values. So a
recorded run is decided the same again.
"""
