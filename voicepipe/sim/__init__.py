"""The same core in virtual time: experiments with latency budgets, admission and fleets, a thousand times faster
than they would take.

    timeline      events in order of time
    experiment    what an experiment is: points, a run of one of them, rows, charts

Sessions are simulated by the classes that serve (`voicepipe.core`): what decides here is what decides there. They
are told of endpoints as events, never of frames, and engines are the times that they take.
"""
