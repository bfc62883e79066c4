"""What can be set, and how that is read, checked, described and shown.

Whoever reads a file, the environment or argv is `cli`; here are only values.
"""

from voicepipe.config.options import (
    API_TEXT_SLOTS,
    DEFAULT_INSTRUCTIONS,
    NO_TURN_MODEL,
    AcknowledgeConfig,
    AdmissionConfig,
    Config,
    Enforcement,
    EnginesConfig,
    EngineSet,
    FilesConfig,
    LimitsConfig,
    LlmPool,
    OperatingPoint,
    OverloadConfig,
    PolicyName,
    QuotaConfig,
    ResumeConfig,
    Rung,
    ScriptedConfig,
    TokenConfig,
    TwilioConfig,
)
from voicepipe.config.parse import parse_config

__all__ = [
    "API_TEXT_SLOTS",
    "DEFAULT_INSTRUCTIONS",
    "NO_TURN_MODEL",
    "AcknowledgeConfig",
    "AdmissionConfig",
    "Config",
    "Enforcement",
    "EngineSet",
    "EnginesConfig",
    "FilesConfig",
    "LimitsConfig",
    "LlmPool",
    "OperatingPoint",
    "OverloadConfig",
    "PolicyName",
    "QuotaConfig",
    "ResumeConfig",
    "Rung",
    "ScriptedConfig",
    "TokenConfig",
    "TwilioConfig",
    "parse_config",
]
