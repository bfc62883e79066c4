"""What the benchmark of whole turns notes while it plays them."""

from __future__ import annotations

import numpy as np
import pytest
from clips import label
from turn_latency import Books, LabelledSource, Watch, arguments, own_or_labelled, play

from voicepipe.app import serving
from voicepipe.config import Config, EnginesConfig, LimitsConfig, ScriptedConfig
from voicepipe.engines.table import load
from voicepipe.models.store import ModelStore
from voicepipe.recorders import Recorders
from voicepipe.wire.messages import ReplyDone, TurnCommitted, TurnReopened
from voicepipe_client import Clip

RATE_HZ = 16_000


class Clock:
    """Time passes while one sleeps."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.now += seconds


def tone(seconds: float) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    return (0.2 * np.sin(np.arange(round(seconds * RATE_HZ)) * 0.1)).astype(np.float32)


async def test_the_source_knows_where_in_which_clip_it_is() -> None:
    """A lead-in of 0.2 s, then a clip of 0.1 s of speech and 0.1 s of silence."""
    clock = Clock()
    clip = Clip("x", np.concatenate([tone(0.1), np.zeros(1_600, np.float32)]), 1_600)
    source = LabelledSource([clip, clip], clock, clock.sleep)
    for _ in range(10 + 3):
        await source.frame()
    assert (source.clip, source.position) == (0, 3 * 320)
    for _ in range(30):
        await source.frame()
    assert source.position == 3_200, "the silence after a clip is none of it"
    source.advance()
    await source.frame()
    assert (source.clip, source.position) == (1, 320)
    assert source.begun[0] == pytest.approx(100.22)
    assert source.ended[0] == pytest.approx(100.30)


async def test_a_commit_is_noted_with_its_place() -> None:
    clock = Clock()
    source = LabelledSource([Clip("x", tone(0.2), 3_200)], clock, clock.sleep)
    watch = Watch(source, total=1)
    watch.on_event(TurnCommitted(turn=1, epoch=1), clock())
    assert watch.commits == [], "nobody has said anything yet"
    for _ in range(15):
        await source.frame()
    for event in (TurnCommitted(turn=1, epoch=1), TurnReopened(turn=1, epoch=2), ReplyDone(1, 1, 0)):
        watch.on_event(event, clock())
    (commit,) = watch.commits
    assert (commit.turn, commit.clip, commit.position) == (1, 0, 5 * 320)
    assert watch.reopened == 1


async def test_a_turn_is_played_to_a_server_and_booked_on_both_sides() -> None:
    """Scripted engines, a real socket, two sessions one after the other in the only place there is."""
    scripted = ScriptedConfig(reply="Yes.", asr_ms=5, llm_prefill_ms=5, llm_token_ms=5, tts_ms=5)
    engines = EnginesConfig(kind="scripted", scripted=scripted)
    config = Config(port=0, engines=engines, limits=LimitsConfig(max_sessions=1, grace_s=1.0))
    books = Books()
    clip = label("tone", tone(0.4), None)
    async with serving(
        config, lambda: load(engines, None, sessions=1, api_key=None), recorders=Recorders((books,))
    ) as served:
        points = [await play(served, books, config, name, [clip]) for name in ("fast", "safe")]
    gaps = []
    for point in points:
        (turn,) = point.turns
        assert turn.answer is not None and turn.path is not None
        assert sum(ms for _, ms in turn.path.parts) == pytest.approx(turn.answer.felt_ms)
        assert turn.cutoffs() == (0, 0) and len(turn.commits) == 1
        assert point.lags_s
        gaps.append(turn.answer.felt_ms)
    assert gaps[0] + 100 < gaps[1], "each session had its own operating point"


@pytest.mark.parametrize(
    ("argv", "turns"),
    [
        ([], 40),
        (["--full"], 60),
        (["--operating-point", "all"], 20),
        (["--operating-point", "all", "--full"], 60),
        (["--turns", "7", "--full"], 7),
    ],
)
def test_how_many_turns_there_are(argv: list[str], turns: int) -> None:
    assert arguments(argv).turns == turns


@pytest.mark.parametrize("turns", [6, 60])
def test_the_set_has_as_many_turns_as_are_asked_for(turns: int, tmp_path: object) -> None:
    """More than one take of each text gives, if need be; without models, nothing is fetched."""
    store = ModelStore(tmp_path)  # type: ignore[arg-type]
    clips = own_or_labelled(arguments(["--engines", "scripted", "--turns", str(turns)]), store)
    assert len({clip.name for clip in clips}) == turns
    assert 0.3 < sum(bool(clip.pauses) for clip in clips) / turns < 0.7


def test_own_recordings_are_no_questions(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        arguments(["--wavs", "x", "--set", "questions"])
    assert ended.value.code == 2
    assert "--wavs" in capsys.readouterr().err


@pytest.mark.parametrize(
    "argv", [["--turns", "-1"], ["--reply-tokens", "0"], ["--budget-ms", "-3"], ["--budget-ms", "nan"]]
)
def test_numbers_that_cannot_be_are_refused(argv: list[str]) -> None:
    with pytest.raises(SystemExit):
        arguments(argv)
