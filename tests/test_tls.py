"""TLS at both doors: sessions over wss with a certificate that is made here, and what is said of wrong files."""

from __future__ import annotations

import asyncio
import os
import ssl
import subprocess
import urllib.request
from pathlib import Path

import pytest
import trustme
from websockets.asyncio.client import connect

from tests.processes import begun, run
from voicepipe.errors import ConfigError
from voicepipe.tls import server_context
from voicepipe.wire.messages import AudioFormat, InputText, SessionStart, TurnEnded
from voicepipe.wire.native import PROTOCOL, decode_server, encode_client


class Files:
    """An authority, and two certificates of it."""

    def __init__(self, folder: Path) -> None:
        self.authority = trustme.CA()
        for name in ("one", "two"):
            issued = self.authority.issue_cert("localhost", "127.0.0.1")
            issued.private_key_pem.write_to_path(folder / f"{name}.key")
            for pem in issued.cert_chain_pems:
                pem.write_to_path(folder / f"{name}.pem", append=True)
        self.authority.cert_pem.write_to_path(folder / "ca.pem")
        self.folder = folder

    def path(self, name: str) -> str:
        return str(self.folder / name)

    def client(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=self.path("ca.pem"))


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return Files(tmp_path_factory.mktemp("certificates"))


async def answered(url: str, context: ssl.SSLContext) -> str:
    """The verdict of a typed turn."""
    async with connect(url, ssl=context, proxy=None, subprotocols=[PROTOCOL]) as ws:  # type: ignore[list-item]
        await ws.send(encode_client(SessionStart(audio=AudioFormat(16_000), protocol=PROTOCOL)))
        await ws.send(encode_client(InputText("Hello.")))
        while True:
            match decode_server(await ws.recv()):
                case TurnEnded(verdict=verdict):
                    return str(verdict)


def test_a_session_and_a_text_over_tls(files: Files) -> None:
    """A process, both ports; nothing is served in the clear."""
    argv = ("serve", "--engines", "scripted", "--port", "0", "--api-port", "0")
    process = begun(*argv, "--tls-cert", files.path("one.pem"), "--tls-key", files.path("one.key"))
    assert process.stdout is not None
    try:
        listening, ready, texts = (process.stdout.readline() for _ in range(3))
        assert listening.startswith("listening on https://") and ready.startswith("ready: wss://"), (
            listening,
            ready,
        )
        assert texts.startswith("texts: https://"), texts
        port = int(listening.split(";")[0].rsplit(":", 1)[1])
        api = texts.split()[1].replace("/chat/completions", "/models")
        assert asyncio.run(answered(f"wss://localhost:{port}/v1/voice", files.client())) == "met"
        for url in (f"https://127.0.0.1:{port}/healthz", api):
            with urllib.request.urlopen(url, timeout=5, context=files.client()) as answer:
                assert answer.status == 200
        with pytest.raises(OSError):
            urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=5)
        said = run("talk", "--url", f"wss://localhost:{port}", "--wav", "/nowhere.wav", env={**os.environ})
        assert said.returncode == 2, said.stderr
    finally:
        process.terminate()
        _, err = process.communicate(timeout=20)
    assert process.returncode == 0 and "Traceback" not in err, err


@pytest.mark.parametrize(
    ("cert", "key", "says"),
    [
        ("one.pem", "two.key", "tls_key (--tls-key): {key} is not the key of the certificate in {cert}"),
        ("gone.pem", "one.key", "tls_cert (--tls-cert): {cert}: No such file or directory"),
        ("one.pem", "gone.key", "tls_key (--tls-key): {key}: No such file or directory"),
        ("one.key", "one.key", "tls_cert (--tls-cert): {cert} holds no PEM certificate"),
        ("one.pem", "ca.pem", "tls_key (--tls-key): {key} holds no PEM private key"),
        ("empty", "one.key", "tls_cert (--tls-cert): {cert} holds no PEM certificate"),
        ("one.pem", "empty", "tls_key (--tls-key): {key} holds no PEM private key"),
        ("one.pem", "locked.key", "tls_key (--tls-key): {key} has a passphrase"),
    ],
)
def test_what_is_wrong_with_the_files_is_said(cert: str, key: str, says: str, files: Files) -> None:
    """By option and file, with nothing of what they hold."""
    Path(files.path("empty")).write_text("")
    locked = ["openssl", "pkcs8", "-topk8", "-in", files.path("one.key"), "-out", files.path("locked.key")]
    subprocess.run([*locked, "-passout", "pass:s3cret"], check=True, capture_output=True)
    cert, key = files.path(cert), files.path(key)
    with pytest.raises(ConfigError) as caught:
        server_context(cert, key)
    assert caught.value.message.startswith(says.format(cert=cert, key=key))
    assert "BEGIN" not in str(caught.value) and caught.value.__suppress_context__


def test_serve_says_so_before_anything_else(files: Files) -> None:
    """Status 2; and with one of the two alone, too."""
    wrong = run("serve", "--check", "--tls-cert", files.path("one.pem"), "--tls-key", files.path("two.key"))
    assert wrong.returncode == 2 and "is not the key of the certificate" in wrong.stderr
    half = run("serve", "--check", "--tls-cert", files.path("one.pem"))
    assert half.returncode == 2 and "tls_key (--tls-key)" in half.stderr and "TLS needs both" in half.stderr


def test_old_versions_are_not_spoken(files: Files) -> None:
    context = server_context(files.path("one.pem"), files.path("one.key"))
    assert context.minimum_version == ssl.TLSVersion.TLSv1_2
