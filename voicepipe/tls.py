"""The server's certificate: files to an SSL context, and in plain words what is wrong with them."""

from __future__ import annotations

import ssl
from pathlib import Path

from voicepipe.errors import ConfigError

CERT, KEY = "tls_cert (--tls-cert)", "tls_key (--tls-key)"


class _Encrypted(Exception):
    """OpenSSL asks for a passphrase."""


def server_context(cert: str, key: str) -> ssl.SSLContext:
    """TLS 1.2 and later. `cert`: PEM, the chain behind the certificate; `key`: PEM, unencrypted. Raises
    ConfigError, which names the file at fault and shows nothing of it."""
    _check_file(cert, CERT)
    _check_file(key, KEY)

    def passphrase() -> str:
        raise _Encrypted

    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(cert, key, passphrase)
    except _Encrypted:
        text = f"{KEY}: {key} has a passphrase; give a key without one, which only the server's user can read"
        raise ConfigError(text, field="tls_key") from None
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            text = f"{KEY}: {key} is not the key of the certificate in {cert}"
            raise ConfigError(text, field="tls_key") from None
        raise _unreadable(cert, key) from None
    return context


def _unreadable(cert: str, key: str) -> ConfigError:
    """OpenSSL does not say which of the two it could not read: the certificate alone tells."""
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_verify_locations(cert)
    except ssl.SSLError:
        return ConfigError(f"{CERT}: {cert} holds no PEM certificate", field="tls_cert")
    return ConfigError(f"{KEY}: {key} holds no PEM private key", field="tls_key")


def _check_file(path: str, option: str) -> None:
    try:
        with Path(path).open("rb"):
            pass
    except OSError as error:
        raise ConfigError(f"{option}: {path}: {error.strerror}", field=option.partition(" ")[0]) from None
