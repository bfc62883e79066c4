"""The model store: which models there are, where they come from, whether they are intact."""

from voicepipe.models.catalog import CATALOG, Kind, Model, ModelFile
from voicepipe.models.place import default_root
from voicepipe.models.progress import Progress, TerminalReporter, render, size_text
from voicepipe.models.store import ModelStatus, ModelStore

__all__ = [
    "CATALOG",
    "Kind",
    "Model",
    "ModelFile",
    "ModelStatus",
    "ModelStore",
    "Progress",
    "TerminalReporter",
    "default_root",
    "render",
    "size_text",
]
