"""The same core in virtual time: experiments with latency budgets, admission and fleets, a thousand times faster
than they would take.

    timeline      events in order of time
    service       what chunks take: models, presets, draws from them
    calibrate     such a model from a recorded ledger
    caller        who calls, and says what when, drawn beforehand
    ears          what is told of what is said, and when
    recogniser    which words are heard
    replies, slot, voice    an answer, how it is read, written and spoken
    playback      a client that plays it, and reports
    machine       what runs chunks: `core.scheduler`, in virtual time
    texts         what nobody waits to hear
    steps, talk   one session
    warm, house   what sessions share
    scene         a server and its callers; `play`
    played        what has become of them
    experiment    what an experiment is: points, a run of one of them, rows, charts

Sessions are simulated by the classes that serve (`voicepipe.core`): what decides here is what decides there. They
are told of endpoints as events, never of frames, and engines are the times that they take.
"""
