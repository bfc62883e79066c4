"""What a server counts, in Prometheus' format. Observes; decides nothing.

Methods are named after what happened. Each `Metrics` has a registry of its own, so that two servers
in one process do not mix. No label ever holds what a user said, an address or a session's id, and
each label takes a bounded number of values.
"""

from voicepipe.metrics.labels import CLASSES, LEASE_KINDS, STAGES, VERDICTS
from voicepipe.metrics.server import Metrics, leave_out_created

__all__ = ["CLASSES", "LEASE_KINDS", "STAGES", "VERDICTS", "Metrics", "leave_out_created"]
