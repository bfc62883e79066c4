"""The environment variables that are read, and what they hold. A test holds that none is missing."""

from __future__ import annotations

SERVER_TOKENS = "VOICEPIPE_SERVER_TOKENS"
METRICS_TOKEN = "VOICEPIPE_METRICS_TOKEN"
LLM_API_KEY = "VOICEPIPE_LLM_API_KEY"
TWILIO_AUTH_TOKEN = "VOICEPIPE_TWILIO_AUTH_TOKEN"

VARIABLES = {
    SERVER_TOKENS: "bearer tokens that callers may show, separated by commas; beside those of [tokens.NAME]. Where "
    "there is any token, everybody needs one; where there is none, only this machine gets in",
    METRICS_TOKEN: "the bearer token of /metrics, and what `voicepipe top` shows; goes before metrics_token_file",
    LLM_API_KEY: "the key of the endpoint in engines.llm; goes before engines.llm_api_key_file",
    TWILIO_AUTH_TOKEN: "the auth token of the Twilio account whose calls come to /v1/twilio; goes before "
    "twilio.auth_token_file",
    "VOICEPIPE_TOKEN": "the token that `voicepipe talk` shows",
    "VOICEPIPE_CACHE": "the folder of models (no secret)",
}
