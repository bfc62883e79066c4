"""When does a turn end? Endpoint delay against false cutoffs, in media time, without sockets and clocks.

Labelled turns (`dialogues.py`) run through the real VAD, the real endpointer, the recogniser's final decode at
every soft end, and the turn model, asked at the soft end and after each 192 ms of further silence. Then every
policy decides on the same evidence: silence alone at fixed thresholds, and at the operating points the words alone,
the turn model alone, and both as a session combines them. A policy that ended a turn too early hears the rest as if
the turn had been reopened.

    false cutoff   a labelled pause of 200 ms and more at which the policy committed
    delay          commit - labelled end of speech; what decode and turn model take counts only as `--answer-ms`

With `--live F`, where F is what `turn_latency.py` printed, the picture also shows what whole turns through a server
did at the same operating points: when the client learnt of the commit, and when it heard the reply.

    python benchmarks/endpointing.py [--half report|tuning|all] [--takes 2] [--wavs DIR] [--seed N] [--plot F.svg]
                                     [--live F]
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
from curve import Series, write_svg
from dialogues import RATE_HZ, SPEECH_DB, LabelledTurn, assemble, trim
from labelled import spoken_turns
from live import live_series, read_points

from voicepipe.audio import read_wav, resample
from voicepipe.core.endpoint import Endpointer
from voicepipe.core.events import Onset, Resumed, Silence, SoftEnd, Voiced
from voicepipe.core.judging import EVERY_S
from voicepipe.core.patience import OPERATING_POINTS, Patience, is_worth_asking, needed_silence_s
from voicepipe.core.utterance import UNDECIDED
from voicepipe.engines.base import Asr, Context, TurnModel, Vad, Window
from voicepipe.engines.silero import SileroVad
from voicepipe.engines.smart_turn import SmartTurn
from voicepipe.engines.whisper import WhisperAsr
from voicepipe.models.place import default_root
from voicepipe.models.progress import TerminalReporter
from voicepipe.models.store import ModelStore

FRAME_SAMPLES = 512
ASK_EVERY_SAMPLES = round(EVERY_S * 16_000)
THRESHOLDS_S = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0, 1.2, 1.5)
"""Of the silence-only rule."""
CONTEXT = Context(session="benchmark", turn=1, epoch=1, revision=0)


@dataclass(slots=True)
class Pause:
    """One silence as the VAD saw it, and what is known in it."""

    start: int
    """First sample of the first silent frame."""
    text: str
    """The final decode, at the end of that frame."""
    silences: list[int] = field(default_factory=list)
    """Its length after every silent frame, in samples."""
    last: bool = True
    """Nobody spoke after it."""


@dataclass(frozen=True, slots=True)
class Heard:
    """One turn, listened to."""

    turn: LabelledTurn
    pauses: list[Pause]
    speech_start: int
    scores: dict[int, float] = field(default_factory=dict)
    """Position to the turn model's answer, filled as policies ask."""

    def score(self, model: TurnModel, position: int) -> float:
        """For what had been said up to `position`."""
        if position not in self.scores:
            answer = model.completeness(self.turn.samples[self.speech_start : position], CONTEXT)
            assert isinstance(answer, float), "a turn model of this process answers at once"
            self.scores[position] = answer
        return self.scores[position]


@dataclass(frozen=True, slots=True)
class Policy:
    name: str
    needed_s: Callable[[Heard, Pause, int], float]
    """(turn, pause, length of the silence by now in samples) -> the silence that it asks for."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a policy made of one turn."""

    cutoffs: int
    """Labelled pauses at which it committed."""
    early: int
    """Commits in silences of the VAD that are no labelled pause."""
    delay_s: float | None
    """None: it never ended the turn."""


def listen(turn: LabelledTurn, vad: Vad, asr: Asr) -> Heard:
    """Frames, events and finals as a session would have them."""
    frames, stream, endpointer = vad.open(), asr.open(), Endpointer()
    pauses: list[Pause] = []
    started: int | None = None
    voiced = voiced_before = 0
    for start in range(0, len(turn.samples) - FRAME_SAMPLES + 1, FRAME_SAMPLES):
        end = start + FRAME_SAMPLES
        probability = frames.probability(turn.samples[start:end])
        assert isinstance(probability, float)
        for event in endpointer.on_frame(probability, start, FRAME_SAMPLES):
            match event:
                case Onset(at):
                    started = at if started is None else started
                    voiced_before, voiced = voiced_before + voiced, 0
                case Resumed():
                    pauses[-1].last = False
                    voiced_before, voiced = voiced_before + voiced, 0
                case Voiced(samples):
                    voiced = samples
                case SoftEnd(at):
                    assert started is not None
                    window = Window(1, started, turn.samples[started:end], voiced_before + voiced)
                    transcript = stream.decode(window, final=True, ctx=CONTEXT)
                    assert not hasattr(transcript, "__await__")
                    pauses.append(Pause(at, transcript.text))
                case Silence(samples):
                    pauses[-1].silences.append(samples)
    return Heard(turn, pauses, started or 0)


def commit(policy: Policy, heard: Heard, pause: Pause, answer_s: float) -> int | None:
    """At which length of the silence, in samples; None where somebody spoke before it was enough."""
    for silence in pause.silences:
        needed = max(policy.needed_s(heard, pause, silence), answer_s)
        if silence / RATE_HZ >= needed:
            return silence
    return None


def judge(policy: Policy, heard: Heard, answer_s: float) -> Outcome:
    cut: set[tuple[int, int]] = set()
    early, delay_s = 0, None
    for pause in heard.pauses:
        silence = commit(policy, heard, pause, answer_s)
        if silence is None:
            continue
        at = pause.start + silence
        if pause.last:
            delay_s = (at - heard.turn.speech_end) / RATE_HZ
            continue
        labels = [label for label in heard.turn.pauses if label[0] < at and label[1] > pause.start]
        cut.update(labels[-1:])
        early += not labels
    return Outcome(len(cut), early, delay_s)


# --- policies


def silence_only(threshold_s: float) -> Policy:
    return Policy(f"silence {1000 * threshold_s:.0f} ms", lambda heard, pause, silence: threshold_s)


def by_text(patience: Patience) -> Policy:
    return Policy(f"text, {patience.name}", lambda heard, pause, silence: _needed_s(pause.text, None, patience))


def by_sound(patience: Patience, model: TurnModel, answer_s: float) -> Policy:
    """The newest score whose answer, `answer_s` after its question, is there; no words."""

    def needed_s(heard: Heard, pause: Pause, silence: int) -> float:
        known = max(0, silence - FRAME_SAMPLES - round(answer_s * RATE_HZ))
        asked = FRAME_SAMPLES + known // ASK_EVERY_SAMPLES * ASK_EVERY_SAMPLES
        return patience.silence_s(heard.score(model, pause.start + asked))

    return Policy(f"sound, {patience.name}", needed_s)


def by_both(patience: Patience, model: TurnModel, answer_s: float) -> Policy:
    """As a session does it: the model is asked where its answer can matter, and counts from when it is there."""

    def needed_s(heard: Heard, pause: Pause, silence: int) -> float:
        by_words_s = _needed_s(pause.text, None, patience)
        score = None
        for asked in range(FRAME_SAMPLES, silence - round(answer_s * RATE_HZ) + 1, ASK_EVERY_SAMPLES):
            left_s = _needed_s(pause.text, score, patience) - asked / RATE_HZ
            if pause.text and is_worth_asking(by_words_s, left_s, patience):
                score = heard.score(model, pause.start + asked)
        return _needed_s(pause.text, score, patience)

    return Policy(f"text and sound, {patience.name}", needed_s)


def _needed_s(text: str, score: float | None, patience: Patience) -> float:
    """As a turn asks for it."""
    return needed_silence_s(text, score, patience) if text else patience.silence_s(UNDECIDED)


# --- figures


@dataclass(frozen=True, slots=True)
class Figures:
    policy: str
    turns: int
    pauses: int
    cutoffs: int
    early: int
    unanswered: int
    p50_ms: float | None
    p95_ms: float | None

    @property
    def rate(self) -> float:
        """False cutoffs per labelled pause."""
        return self.cutoffs / self.pauses if self.pauses else 0.0


def figures(policy: Policy, set_: Sequence[Heard], answer_s: float) -> Figures:
    """A turn that was never ended is infinitely late."""
    outcomes = [judge(policy, heard, answer_s) for heard in set_]
    delays = [np.inf if o.delay_s is None else 1000 * o.delay_s for o in outcomes]
    p50, p95 = (float(np.percentile(delays, q, method="higher")) for q in (50, 95))
    return Figures(
        policy.name,
        len(set_),
        sum(len(heard.turn.pauses) for heard in set_),
        sum(o.cutoffs for o in outcomes),
        sum(o.early for o in outcomes),
        sum(o.delay_s is None for o in outcomes),
        round(p50, 1) if np.isfinite(p50) else None,
        round(p95, 1) if np.isfinite(p95) else None,
    )


def silence_only_as_fast(median_ms: float, set_: Sequence[Heard], answer_s: float) -> Figures:
    """The silence-only rule, to the frame, whose median delay is nearest to `median_ms`."""
    rules = (figures(silence_only(n * FRAME_SAMPLES / RATE_HZ), set_, answer_s) for n in range(1, 79))
    return min((f for f in rules if f.p50_ms is not None), key=lambda f: abs((f.p50_ms or 0.0) - median_ms))


def by_kind(policies: Sequence[Policy], set_: Sequence[Heard], answer_s: float) -> None:
    """Prints where the false cutoffs are: one column for each kind of place."""
    kinds = sorted({heard.turn.kind for heard in set_ if heard.turn.pauses})
    print("\n{:26}".format("false cutoffs by place") + "".join(f"{kind:>9}" for kind in kinds))
    for policy in policies:
        cells = []
        for kind in kinds:
            f = figures(policy, [heard for heard in set_ if heard.turn.kind == kind], answer_s)
            cells.append(f"{f.cutoffs}/{f.pauses}")
        print(f"{policy.name:26}" + "".join(f"{cell:>9}" for cell in cells))


TITLE = "Ending a turn: how soon, and how often too soon"
AXES = ("median ms after the end of speech", "pauses cut off, %")
TITLES = ("policy", "p50 ms", "p95 ms", "cutoffs", "rate", "early", "never")


def row(f: Figures) -> str:
    cells = (f"{f.cutoffs}/{f.pauses}", f"{100 * f.rate:.1f} %", f.early, f.unanswered)
    times = ("null" if t is None else f"{t:.0f}" for t in (f.p50_ms, f.p95_ms))
    return f"{f.policy:26}" + "".join(f"{cell:>9}" for cell in (*times, *cells))


# --- the run


def own_turns(folder: Path) -> Iterator[LabelledTurn]:
    """Every WAV of the folder is one turn; its gaps of 200 ms and more are its pauses."""
    for path in sorted(folder.glob("*.wav")):
        samples, rate_hz = read_wav(path, max_seconds=60)
        piece = trim(resample(samples, rate_hz, RATE_HZ), SPEECH_DB)
        yield assemble(path.stem, "natural", "report", [piece], [], "", random.Random(0), SPEECH_DB)


def default_turns(store: ModelStore, args: argparse.Namespace) -> list[LabelledTurn]:
    half = None if args.half == "all" else args.half
    return spoken_turns(store, half=half, takes=args.takes, seed=args.seed)


def families(model: TurnModel | None, answer_s: float) -> dict[str, list[Policy]]:
    """Which policies there are; `None` leaves the turn model out."""
    points = OPERATING_POINTS.values()
    known = {
        "silence": [silence_only(threshold_s) for threshold_s in THRESHOLDS_S],
        "text": [by_text(patience) for patience in points],
    }
    if model is not None:
        known["sound"] = [by_sound(patience, model, answer_s) for patience in points]
        known["text and sound"] = [by_both(patience, model, answer_s) for patience in points]
    return known


def report(set_: Sequence[Heard], model: TurnModel | None, args: argparse.Namespace) -> dict[str, object]:
    """Prints the table, draws the curve, and gives the summary."""
    answer_s = args.answer_ms / 1000
    known = families(model, answer_s)
    drawn: list[Series] = []
    print("{:26}{:>9}{:>9}{:>9}{:>9}{:>9}{:>9}".format(*TITLES))
    rows: list[dict[str, object]] = []
    for name, policies in known.items():
        family = [figures(policy, set_, answer_s) for policy in policies]
        drawn.append(_series(name, family))
        for f in family:
            print(row(f))
            entry: dict[str, object] = {**asdict(f), "rate": round(f.rate, 4)}
            if name != "silence" and f.p50_ms is not None:
                rival = silence_only_as_fast(f.p50_ms, set_, answer_s)
                print(f"  as fast: {row(rival)[:26]:>15}{row(rival)[26:]}")
                entry["silence_as_fast"] = {"policy": rival.policy, "rate": round(rival.rate, 4)}
            rows.append(entry)
    by_kind(
        [policy for name, policies in known.items() if name != "silence" for policy in policies], set_, answer_s
    )
    drawn += live_series(args.live)
    if args.plot:
        write_svg(args.plot, drawn, TITLE, *AXES)
    return {
        "turns": len(set_),
        "pauses": sum(len(heard.turn.pauses) for heard in set_),
        "half": "own" if args.wavs else args.half,
        "seed": args.seed,
        "answer_ms": args.answer_ms,
        "policies": rows,
    }


def _series(name: str, family: Sequence[Figures]) -> Series:
    """Operating points carry their names; the silence-only rule is a line."""
    points = [(f.p50_ms, 100 * f.rate, f.policy.rpartition(" ")[2]) for f in family if f.p50_ms is not None]
    if name == "silence":
        return Series(name, tuple((x, y, "") for x, y, _ in points), line=True)
    return Series(name, tuple(points))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--half", choices=("report", "tuning", "all"), default="report")
    parser.add_argument("--takes", type=int, default=2, help="how often each text comes with and without pauses")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--wavs", type=Path, help="folder of own recordings, one turn each")
    parser.add_argument("--answer-ms", type=float, default=0.0, help="what decode and turn model take")
    parser.add_argument("--no-turn-model", action="store_true")
    parser.add_argument("--plot", type=Path, help="where the curve goes, an SVG file")
    parser.add_argument("--live", type=read_points, default=(), help="output of turn_latency.py, drawn beside it")
    args = parser.parse_args()
    if args.live and not args.plot:
        parser.error("--live is drawn, and needs --plot")
    store = ModelStore(default_root(os.environ), report=TerminalReporter(sys.stderr))
    turns = list(own_turns(args.wavs)) if args.wavs else default_turns(store, args)
    if not turns:
        raise SystemExit(f"{args.wavs} holds no WAV file")
    hear = partial(listen, vad=SileroVad(), asr=WhisperAsr(store.ensure("whisper-tiny.en")))
    set_ = [hear(turn) for turn in turns]
    model = None if args.no_turn_model else SmartTurn(store.ensure("smart-turn-v3.2"))
    print(json.dumps({"summary": report(set_, model, args)}))


if __name__ == "__main__":
    main()
