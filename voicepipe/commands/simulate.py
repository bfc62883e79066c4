"""`voicepipe simulate`: an experiment in virtual time."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import msgspec

from voicepipe.commands.folders import make_folder
from voicepipe.commands.options import path_of
from voicepipe.commands.progress import shown
from voicepipe.commands.rows import table
from voicepipe.errors import ConfigError, MissingExtra, UsageError, VoicepipeError
from voicepipe.signals import interrupted_once
from voicepipe.sim.calibrate import calibrate
from voicepipe.sim.experiment import Chart, Experiment, Input, Setting
from voicepipe.sim.experiments import NAMES, find
from voicepipe.sim.golden import golden
from voicepipe.sim.runner import Results, sweep
from voicepipe.sim.service import Need, load_service, need_in_words, preset_names, save_service

ALL = "all"
MOST_SEEDS = 1000


class Save(Protocol):
    def __call__(self, charts: Sequence[Chart], path: Path, *, title: str, about: str) -> None: ...


def add_simulate(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> argparse.ArgumentParser:
    parser = commands.add_parser(
        "simulate",
        help="ask what if: an experiment in virtual time",
        description="Runs an experiment thousands of times faster than real time. What decides is what decides in "
        "the server: the same admission, scheduler, budget and turns; only engines are replaced, by how long they "
        "take. Every point is run with several seeds, over all cores; a row of the table holds the means, each "
        "with its 95 % confidence interval. The same seed gives the same figures.",
        epilog="Try: voicepipe simulate --list; voicepipe simulate isolation --plot isolation.svg. Ctrl-C stops "
        "what runs and keeps what is done: points of which all seeds have run are printed, and drawn; a second one "
        "ends at once. Exit status: 0; 1, a run failed, "
        "or a picture needs a package that is not there; 2, an unknown name or wrong usage; 130, Ctrl-C.",
    )
    parser.add_argument("name", nargs="?", metavar="NAME", help=f"an experiment of --list, or {ALL!r} of them")
    parser.add_argument("--list", action="store_true", help="what each experiment asks, and how it is read")
    parser.add_argument("--seed", type=_seed, default=1, metavar="N", help="the first seed (default 1)")
    parser.add_argument(
        "--seeds", type=_count, metavar="N", help="seeds per point: N, N + 1, ... (default: the experiment's)"
    )
    parser.add_argument("--full", action="store_true", help="more points and longer runs")
    parser.add_argument(
        "--json",
        action="store_true",
        help="one line on stdout: {experiment, seed, rows, golden}; one per experiment",
    )
    parser.add_argument(
        "--plot",
        type=path_of,
        metavar="F",
        help=f"draw it: F.svg or F.png; with {ALL!r} a folder (needs the extra `plot`)",
    )
    parser.add_argument(
        "--processes", type=_count, metavar="N", help="runs at a time (default: as many as there are cores)"
    )
    parser.add_argument(
        "--service",
        type=_name,
        metavar="NAME|FILE",
        help="what chunks take, in experiments with voice: a built-in machine "
        f"({', '.join(preset_names())}), or a file of --calibrate (default gpu; goodput: gpu-large)",
    )
    parser.add_argument(
        "--calibrate",
        type=path_of,
        metavar="LEDGER",
        help="instead: what they took in a real run (serve --ledger LEDGER); kept as LEDGER.service.json",
    )
    parser.add_argument(
        "--shapes", type=path_of, metavar="F.toml", help="shapes of work of your own, instead of the five (fleet)"
    )
    parser.add_argument(
        "--trace",
        type=path_of,
        metavar="F.jsonl",
        help="arrivals that were recorded, instead of random ones (fleet); docs/simulator.md shows both forms",
    )
    parser.set_defaults(run=_simulate)
    return parser


def _name(text: str) -> str:
    return str(path_of(text))


def _seed(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 9:
        raise argparse.ArgumentTypeError(f"{text!r}: expected a whole number from 0 to 999999999")
    return int(text)


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text[:9]) <= MOST_SEEDS:
        raise argparse.ArgumentTypeError(f"{text!r}: expected a whole number from 1 to {MOST_SEEDS}")
    return int(text)


@dataclass(frozen=True, slots=True)
class _Asked:
    """What holds for every experiment of this command."""

    seed: int
    processes: int
    as_json: bool
    plot: Path | None
    """A file, or with several experiments a folder."""
    save: Save | None


def _simulate(args: argparse.Namespace) -> int:
    if args.list:
        return _list()
    if args.name is None:
        raise UsageError("which experiment? voicepipe simulate --list names them", field="name")
    is_all = args.name == ALL
    experiments = [find(name) for name in (NAMES if is_all else (args.name,))]
    _check_inputs(args, experiments)
    save = _drawing(args.plot, is_folder=is_all)
    service = _service(args, experiments)
    setting = Setting(full=args.full, shapes=str(args.shapes or ""), trace=str(args.trace or ""))
    asked = _Asked(args.seed, args.processes or os.cpu_count() or 1, args.json, args.plot, save)
    # whatever is wrong with a file is told before anything is run
    several = [
        Results(
            one,
            replace(setting, service=service or one.service),
            range(args.seed, args.seed + (args.seeds or one.seeds)),
        )
        for one in experiments
    ]
    for results in several:
        plot = args.plot / f"{results.experiment.name}.svg" if args.plot is not None and is_all else args.plot
        _run(results, asked, plot)
    return 0


def _check_inputs(args: argparse.Namespace, experiments: Sequence[Experiment]) -> None:
    """A file that nobody would read is refused. Raises ConfigError."""
    options: dict[str, Input] = {
        "--service": "service",
        "--calibrate": "service",
        "--shapes": "shapes",
        "--trace": "trace",
    }
    for option, what in options.items():
        given = getattr(args, option.removeprefix("--")) is not None
        if given and not any(what in experiment.reads for experiment in experiments):
            readers = ", ".join(name for name in NAMES if what in find(name).reads)
            name = experiments[0].name
            raise ConfigError(f"{option}: {name} makes no use of it; those that do: {readers}", field=option)
    if args.service is not None and args.calibrate is not None:
        raise ConfigError("--service and --calibrate: one of them says what chunks take", field="--calibrate")


def _service(args: argparse.Namespace, experiments: Sequence[Experiment]) -> str | None:
    """Name or path of a model that has costs of all that is going to be simulated; None where each experiment has
    its own. Raises ConfigError."""
    needs = tuple(dict.fromkeys(need for one in experiments for need in one.needs))
    if args.calibrate is not None:
        return _calibrated(args.calibrate, needs)
    if args.service is None:
        return None
    name = str(args.service)
    lacking = load_service(name).lacks(needs)
    if lacking:
        which = ", ".join(one.name for one in experiments if set(lacking) & set(one.needs))
        kinds = ", ".join(map(need_in_words, lacking))
        raise ConfigError(f"--service {name}: no costs of {kinds}, which {which} needs", field="costs")
    return name


def _calibrated(ledger: Path, needs: Sequence[Need]) -> str:
    """The path of the service model that the ledger gives; said on stderr. Raises ConfigError."""
    try:
        with ledger.open("rb") as lines:
            model = calibrate(lines, name=ledger.stem, needs=needs)
    except OSError as exc:
        raise ConfigError(f"--calibrate {ledger}: {exc.strerror}", field="--calibrate") from None
    except ConfigError as exc:
        raise ConfigError(f"--calibrate {ledger}: {exc.message}", field=exc.field) from None
    kept = ledger.with_name(f"{ledger.name}.service.json")
    save_service(model, kept)
    print(f"voicepipe: what chunks took in {ledger} is kept as {kept}", file=sys.stderr, flush=True)
    return str(kept)


def _list() -> int:
    for name in NAMES:
        experiment = find(name)
        print(f"{name}: {experiment.question}\n")
        print("\n".join(f"    {line}" for line in _folded(experiment.explanation)), end="\n\n")
    return 0


def _folded(text: str, width: int = 96) -> list[str]:
    lines, line = [], ""
    for word in text.split():
        if line and len(line) + 1 + len(word) > width:
            lines.append(line)
            line = ""
        line = f"{line} {word}".strip()
    return [*lines, line]


def _drawing(plot: Path | None, *, is_folder: bool) -> Save | None:
    """Whatever stands in the way of a picture is told before anything is run. Raises MissingExtra, ConfigError."""
    if plot is None:
        return None
    try:
        from voicepipe.sim.pictures import FORMATS, save
    except ModuleNotFoundError as exc:
        raise MissingExtra(
            f"{exc.name} is not installed; --plot needs the extra: "
            "pip install 'voicepipe-realtime[plot]' (from a checkout: pip install '.[plot]')"
        ) from None
    if not is_folder and plot.suffix not in FORMATS:
        raise ConfigError(f"--plot {plot}: expected a name that ends in {' or '.join(FORMATS)}", field="--plot")
    make_folder(plot / "any" if is_folder else plot, "--plot")
    return save


def _run(results: Results, asked: _Asked, plot: Path | None) -> None:
    """What is done is told, whatever ends it; an error before the first point is whole is all that is told. The
    second Ctrl-C does not wait for that."""
    with interrupted_once():
        try:
            with shown(results.experiment.name) as progress:
                sweep(results, processes=asked.processes, progress=progress)
        except VoicepipeError:
            if results.rows():
                _tell(results, asked, plot)
            raise
        except KeyboardInterrupt:
            print("voicepipe: stopped; a second Ctrl-C ends at once", file=sys.stderr, flush=True)
            _tell(results, asked, plot)
            raise
        except BaseException:
            _tell(results, asked, plot)
            raise
        _tell(results, asked, plot)


def _tell(results: Results, asked: _Asked, plot: Path | None) -> None:
    rows, experiment = results.rows(), results.experiment
    if results.done < results.runs:
        kept = f"{results.done} of {results.runs} runs are done; {len(rows)} points are whole, and are told"
        print(f"voicepipe: {experiment.name}: {kept}", file=sys.stderr, flush=True)
    if asked.as_json:
        found = {"experiment": experiment.name, "seed": asked.seed, "rows": rows, "golden": golden()}
        print(msgspec.json.encode(found).decode(), flush=True)
    else:
        points = tuple(dict.fromkeys(name for point in results.points for name in point))
        told = table(rows, points)
        print(f"{experiment.name}: {experiment.question}\n\n{told}\n\n{_about(results)}\n", flush=True)
    if rows and plot is not None and asked.save is not None:
        charts = (*experiment.charts(rows), *experiment.shown(asked.seed, results.setting))
        title = f"{experiment.name}: {experiment.question}"
        try:
            asked.save(charts, plot, title=title, about=experiment.explanation)
        except OSError as exc:
            raise ConfigError(f"--plot {plot}: {exc.strerror}", field="--plot") from None


def _about(results: Results) -> str:
    """What the figures are of."""
    first, last = results.seeds[0], results.seeds[-1]
    if first == last:
        return f"Seed {first} alone, which gives no interval; --seeds 5 gives one."
    return f"Means over seeds {first} to {last}, ± half of a 95 % interval."
