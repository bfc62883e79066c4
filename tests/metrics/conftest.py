"""A server's metrics, and their values."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry

from voicepipe.metrics import Metrics


@pytest.fixture
def metrics() -> Metrics:
    return Metrics(CollectorRegistry(), version="1.2.3")


def value(metrics: Metrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(name, labels)
