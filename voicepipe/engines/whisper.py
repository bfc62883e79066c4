"""Streaming speech recognition with Whisper on CTranslate2, loaded by faster-whisper.

`WhisperModel.transcribe` pads every call to 30 s, which costs half a second of encoder time on two cores. Here
only the window is encoded, followed by a short tail of zeros. On such short inputs the decoder does not notice
where speech ends and says it again and again: on 69 phrases 29 % of the words were wrong even with a tail
of 2 s, against 4 % with the full 30 s. What it misses is the long silence that filled the rest of the 30 s in
training. So the encoder's states of pure silence are computed once, when the model is loaded, and every
window's states are filled up with them to the full 1,500 before decoding: the cost of a short encode with the
behaviour of the long one (`benchmarks/asr_windows.py` holds both against each other).

CTranslate2 encodes and aligns. On a CPU it does not decode: it takes 4 ms for a token, a given one like a free one;
our own steps take half of that, and check a whole earlier hypothesis at once (`whisper_decoder`). No text of
earlier windows is a prompt.
"""

from __future__ import annotations

import json
import logging
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from math import ceil
from pathlib import Path

import ctranslate2
import numpy as np
from faster_whisper import WhisperModel, download_model
from numpy.typing import NDArray

from voicepipe.engines.base import Placement, Samples
from voicepipe.engines.ct2_model import CannotRead, read_model
from voicepipe.engines.features import FRAMES_PER_S, MAX_FRAMES, SAMPLE_RATE_HZ, LogMel
from voicepipe.engines.hypothesis import Evidence, judge, split_words, word_ends
from voicepipe.engines.utterance import TimedWord
from voicepipe.engines.whisper_decoder import Ct2Decoder, Decoder, DraftDecoder, States, filled_up
from voicepipe.engines.whisper_graph import Suppressed
from voicepipe.engines.windowed import Heard, WindowedStream
from voicepipe.errors import ConfigError, EngineError, ModelError, ModelMissing

log = logging.getLogger(__name__)

BUCKET_FRAMES = 50
"""Windows are padded up to a multiple of this: half a second."""
TOKENS_PER_S = 6
TOKENS_EXTRA = 8
"""The token cap: fast speech has about five tokens a second."""
LANGUAGE_SPEECH_S = 1.0
LANGUAGE_PROBABILITY = 0.7
SILENCE_LEVEL = -0.6
"""Normalised log-mel of digital silence behind ordinary speech: the median over 69 phrases. Not critical;
-1.0 to -0.3 do alike."""


class WhisperAsr:
    """One loaded model, shared by the streams of all sessions.

    `model_path` is a directory, or whatever else faster-whisper loads: a size ("base.en") or a hub id.
    A second thread gains nothing: a step of the decoder is too small to be shared, and an idle thread that spins
    takes a core from the next engine. Loading takes a second or so. Raises ModelMissing, ModelError, ConfigError.
    """

    placement: Placement = "thread"
    name = "whisper"

    def __init__(
        self,
        model_path: str | Path,
        *,
        device: str = "cpu",
        compute_type: str = "int8",
        threads: int = 1,
        language: str | None = None,
    ) -> None:
        if isinstance(model_path, Path) and not (model_path / "model.bin").is_file():
            raise ModelMissing(f"no Whisper model in {model_path}: model.bin is not there")
        try:
            path = model_path if isinstance(model_path, Path) else Path(download_model(model_path))
            loaded = WhisperModel(str(path), device=device, compute_type=compute_type, cpu_threads=threads)
        except (ValueError, RuntimeError, OSError) as error:
            raise ModelError(f"cannot load the Whisper model {model_path}: {error}") from error
        self._model = loaded.model
        self._tokenizer = loaded.hf_tokenizer
        self._to_cpu = device != "cpu"
        self._log_mel = LogMel(int(self._model.n_mels))
        self._sot = self._token("<|startoftranscript|>")
        self._end_of_text = self._token("<|endoftext|>")
        self._language = self._fixed_language(language)
        self._silence = self._encode(np.full((self._log_mel.n_mels, MAX_FRAMES), SILENCE_LEVEL, dtype=np.float32))
        own_steps = device == "cpu" and compute_type.startswith("int8")
        self._decoder = (self._own_steps(path, threads) if own_steps else None) or Ct2Decoder(
            self._model, self._silence
        )
        self._guards: Counter[str] = Counter()
        self._guards_lock = threading.Lock()

    @property
    def guards(self) -> Mapping[str, int]:
        """How often each guard fired, over all streams; "repetition_attempt" counts second attempts."""
        with self._guards_lock:
            return dict(self._guards)

    def open(self) -> WindowedStream[States]:
        return WindowedStream(self, self._language)

    def count(self, guard: str) -> None:
        with self._guards_lock:
            self._guards[guard] += 1

    def encode(self, audio: Samples, tail_s: float) -> States:
        """Of at most 30 s of audio and its tail. None at all for audio that is not finite. Raises EngineError."""
        frames = ceil((len(audio) / SAMPLE_RATE_HZ + tail_s) * FRAMES_PER_S / BUCKET_FRAMES)
        features = self._log_mel(audio, min(frames * BUCKET_FRAMES, MAX_FRAMES))
        if not np.isfinite(features).all():
            return self._silence[:, :0]
        return self._encode(features)

    def hear(
        self, audio: Samples, states: States, *, speech_s: float, language: str | None, draft: Sequence[int] = ()
    ) -> Heard[States]:
        """Decode greedily and without timestamps. Raises EngineError."""
        spoken, settled = self._spoken_language(states, language, speech_s)
        prompt = self._prompt(spoken)
        cap = TOKENS_EXTRA + ceil(TOKENS_PER_S * len(audio) / SAMPLE_RATE_HZ)
        decoded = self._decoder.decode(states, prompt, draft, cap)
        ids = decoded.ids
        text_ids = tuple(token for token in ids if token < self._end_of_text)
        evidence = Evidence(
            text=self._tokenizer.decode(text_ids),
            tokens=len(ids),
            token_cap=cap,
            speech_s=speech_s,
            avg_logprob=decoded.logprob,
            no_speech=decoded.no_speech,
        )
        return Heard(
            judgement=judge(evidence),
            language=spoken if settled else None,
            prompt=tuple(prompt),
            token_ids=text_ids,
            states=states,
            tokens=len(ids),
        )

    def timed_words(self, heard: Heard[States], audio: Samples) -> list[TimedWord]:
        """When the words of a hypothesis end, by aligning its tokens with the sound: to about 100 ms.
        Costs about as much as two tokens. Raises EngineError."""
        audio_s = len(audio) / SAMPLE_RATE_HZ
        starts: dict[int, float] = {}
        for token, position in self._align(heard, audio_s).alignments:
            starts.setdefault(token, 2 * position / FRAMES_PER_S)
        return self._ends(list(heard.token_ids), starts, audio_s)

    def _align(self, heard: Heard[States], audio_s: float) -> ctranslate2.models.WhisperAlignmentResult:
        try:
            return self._model.align(
                self._whole(heard.states),
                list(heard.prompt[:-1]),  # align adds <|notimestamps|> itself
                [list(heard.token_ids)],
                2 * max(1, ceil(audio_s * FRAMES_PER_S / 2)),
            )[0]
        except RuntimeError as error:
            raise EngineError(f"aligning failed: {error}") from error

    def _ends(self, ids: list[int], starts: dict[int, float], audio_s: float) -> list[TimedWord]:
        """A word ends where the token after its last one starts."""
        lengths = [len(self._tokenizer.decode(ids[: count + 1])) for count in range(len(ids))]
        text = self._tokenizer.decode(ids)
        words: list[TimedWord] = []
        token = 0
        for word, end in zip(split_words(text), word_ends(text), strict=True):
            while token < len(lengths) and lengths[token] < end:
                token += 1
            words.append(TimedWord(word, starts.get(token + 1, audio_s)))
        return words

    def _whole(self, states: States) -> ctranslate2.StorageView:
        return ctranslate2.StorageView.from_array(filled_up(states, self._silence))

    def _spoken_language(self, states: States, language: str | None, speech_s: float) -> tuple[str | None, bool]:
        """The language token to decode with, and whether it is settled for the rest of the session."""
        if language is not None or not self._model.is_multilingual:
            return language, True
        token, probability = self._model.detect_language(self._whole(states))[0][0]
        return token, speech_s >= LANGUAGE_SPEECH_S and probability > LANGUAGE_PROBABILITY

    def _encode(self, features: NDArray[np.float32]) -> States:
        view = ctranslate2.StorageView.from_array(np.ascontiguousarray(features[np.newaxis]))
        try:
            return np.array(self._model.encode(view, to_cpu=self._to_cpu))
        except RuntimeError as error:
            raise EngineError(f"encoding failed: {error}") from error

    def _own_steps(self, path: Path, threads: int) -> Decoder | None:
        """None where the model is not one that we understand."""
        try:
            config = json.loads((path / "config.json").read_text("utf-8"))
            return DraftDecoder(
                read_model(path / "model.bin"),
                self._silence,
                suppressed=Suppressed(config["suppress_ids"], config["suppress_ids_begin"]),
                no_speech=self._no_speech(),
                end_of_text=self._end_of_text,
                threads=threads,
            )
        except (CannotRead, KeyError) as error:
            log.info("CTranslate2 decodes %s: %s", path.name, error)
            return None

    def _no_speech(self) -> int:
        """<|nospeech|>, as it was called at first."""
        old = self._tokenizer.token_to_id("<|nocaptions|>") is not None
        return self._token("<|nocaptions|>" if old else "<|nospeech|>")

    def _prompt(self, language: str | None) -> list[int]:
        task = [self._token(language), self._token("<|transcribe|>")] if language else []
        return [self._sot, *task, self._token("<|notimestamps|>")]

    def _token(self, text: str) -> int:
        token = self._tokenizer.token_to_id(text)
        if token is None:
            raise ModelError(f"the model's vocabulary has no {text}")
        return int(token)

    def _fixed_language(self, language: str | None) -> str | None:
        """The language token of every decode; None for a model with one language, or to detect it."""
        if not self._model.is_multilingual:
            if language not in (None, "en"):
                raise ConfigError(f"this Whisper model only knows English, not {language!r}", field="language")
            return None
        if language is None:
            return None
        if self._tokenizer.token_to_id(f"<|{language}|>") is None:
            raise ConfigError(f"Whisper does not know the language {language!r}", field="language")
        return f"<|{language}|>"
