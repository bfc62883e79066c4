"""What the server answers over plain HTTP: health, readiness, metrics, the browser client's files, and pictures."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus

from voicepipe.gallery import GALLERY_PATH, Gallery
from voicepipe.gate import Gate, Visit
from voicepipe.lag import LagProbe
from voicepipe.metrics import Metrics
from voicepipe.webfiles import Reply, error_reply, json_reply
from voicepipe.wire.doors import DOORS

STUCK_LOOP_S = 1.0
"""An event loop that lags more than this is not alive."""


@dataclass(frozen=True, slots=True)
class Readiness:
    ready: bool
    reason: str = ""
    """Why not, as a short word: "warming_up"."""


class Pages:
    def __init__(
        self,
        files: Mapping[str, Reply],
        *,
        gallery: Gallery,
        gate: Gate,
        metrics: Metrics,
        lag: LagProbe,
        readiness: Callable[[], Readiness],
    ) -> None:
        self._files = files
        self._gallery = gallery
        self._gate = gate
        self._metrics = metrics
        self._lag = lag
        self._readiness = readiness

    def answer(self, visit: Visit) -> Reply | None:
        """None for a request for a session, which is not a page."""
        if visit.method not in ("GET", "HEAD"):
            allow = {"Allow": "GET, HEAD"}
            return error_reply(HTTPStatus.METHOD_NOT_ALLOWED, "only GET and HEAD", allow)
        if visit.path in DOORS:
            return None
        if visit.upgrades:
            return error_reply(HTTPStatus.NOT_FOUND, f"websockets are served at {' and '.join(DOORS)}")
        match visit.path:
            case "/healthz":
                return self._health()
            case "/readyz":
                return self._ready()
            case "/metrics":
                return self._counters(visit)
            case path if path == f"{GALLERY_PATH}/":
                moved = {"Location": f"..{GALLERY_PATH}"}
                return error_reply(HTTPStatus.PERMANENT_REDIRECT, f"it is at {GALLERY_PATH}", moved)
            case path:
                missing = error_reply(HTTPStatus.NOT_FOUND, "there is nothing here")
                return self._files.get(path) or self._gallery.reply(path) or missing

    def _health(self) -> Reply:
        lag_s = self._lag.last_s
        alive = lag_s < STUCK_LOOP_S
        status = HTTPStatus.OK if alive else HTTPStatus.SERVICE_UNAVAILABLE
        return json_reply(status, {"alive": alive, "loop_lag_ms": round(1000 * lag_s, 1)})

    def _ready(self) -> Reply:
        state = self._readiness()
        if state.ready:
            return json_reply(HTTPStatus.OK, {"ready": True})
        body = {"ready": False, "reason": state.reason}
        return json_reply(HTTPStatus.SERVICE_UNAVAILABLE, body)

    def _counters(self, visit: Visit) -> Reply:
        if not self._gate.may_read_metrics(visit):
            if self._gate.metrics_need_token:
                challenge = {"WWW-Authenticate": "Bearer"}
                return error_reply(HTTPStatus.UNAUTHORIZED, "metrics need their bearer token", challenge)
            return error_reply(HTTPStatus.FORBIDDEN, "metrics are for loopback peers")
        return Reply(HTTPStatus.OK, Metrics.CONTENT_TYPE, self._metrics.exposition())
