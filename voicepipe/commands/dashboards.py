"""`voicepipe dashboards`: what Grafana and Prometheus are to be given, as files."""

from __future__ import annotations

import argparse
from pathlib import Path

from voicepipe.commands.folders import make_folder
from voicepipe.commands.options import path_of
from voicepipe.errors import ConfigError
from voicepipe.resources import dashboards_dir

FILES = {
    "voicepipe.json": "Grafana: Dashboards, New, Import",
    "voicepipe.rules.yml": "Prometheus: under `rule_files`",
}
SCRAPE = """\
scrape_configs:
  - job_name: voicepipe          # the alerts go by this name
    scrape_interval: 15s
    static_configs:
      - targets: ["127.0.0.1:8765"]
    # authorization:             # from another machine: what VOICEPIPE_METRICS_TOKEN says there
    #   credentials_file: /etc/prometheus/voicepipe.token"""


def add_dashboards(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> argparse.ArgumentParser:
    parser = commands.add_parser(
        "dashboards",
        help="write the Grafana dashboard and the Prometheus rules",
        description="The files for a Grafana and a Prometheus that watch `voicepipe serve`, and how it is scraped. "
        "`voicepipe top` shows the same without either.",
        epilog="Exit status: 0; 1, something failed; 2, a file is there already and is another one, or cannot be "
        "written.",
    )
    parser.add_argument("folder", type=path_of, metavar="DIR", help="where to")
    parser.add_argument("--force", action="store_true", help="also over files that are there")
    parser.set_defaults(run=_dashboards)
    return parser


def _dashboards(args: argparse.Namespace) -> int:
    texts = {args.folder / name: (dashboards_dir() / name).read_bytes() for name in FILES}
    for path, text in texts.items():
        make_folder(path, "DIR")
        if not args.force and path.exists() and _held(path) != text:
            raise ConfigError(f"{path}: is there already, and another one; --force writes over it", field="DIR")
    for path, text in texts.items():
        try:
            path.write_bytes(text)
        except OSError as exc:
            raise ConfigError(f"{path}: {exc.strerror}", field="DIR") from None
        print(f"{path}    {FILES[path.name]}")
    print(f"\n{SCRAPE}")
    return 0


def _held(path: Path) -> bytes | None:
    """None for what is no file."""
    try:
        return path.read_bytes()
    except OSError:
        return None
