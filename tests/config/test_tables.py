"""The tables of a file, as the types have them."""

from __future__ import annotations

from voicepipe.config import Config
from voicepipe.config.tables import dotted, kind_of, tables, unknown_keys, words_of

POLICIES = ("none", "count", "token-bucket", "aimd", "gradient", "vegas", "deadline")


def test_every_table_comes_before_those_in_it() -> None:
    names = [table.name for table in tables()]
    assert names[0] == "" and len(set(names)) == len(names)
    assert names.index("engines") + 1 == names.index("engines.scripted")
    assert names[-2:] == ["tokens.NAME", "tokens.NAME.quota"]


def test_a_table_knows_where_it_is_used() -> None:
    """Quotas are of one type, and mean three things."""
    homes = {table.name: table.home for table in tables()}
    assert homes["admission.per_token"] == ("AdmissionConfig", "per_token")
    assert homes["tokens.NAME.quota"] == ("TokenConfig", "quota")


def test_unknown_keys_are_found_at_any_depth() -> None:
    values = {
        "port": 1,
        "prot": 1,
        "engines": {"scripted": {"replies": "x"}, "asr": "x"},
        "tokens": {"env": {"env": "A", "quota": {"session": 1}}, "b": 3},
        "limits": 3,
    }
    assert [(one.table, one.key) for one in unknown_keys(values)] == [
        ("", "prot"),
        ("engines.scripted", "replies"),
        ("tokens.env.quota", "session"),
    ]


def test_the_type_of_an_option_by_its_key() -> None:
    """Also below a name of the user's choice, be it that of an option, and of an element of a list."""
    assert words_of(kind_of("admission.policy")) == POLICIES
    assert words_of(kind_of("ladder[0]"))[0] == "short-clause"
    assert kind_of("tokens.env.env") is str
    assert words_of(kind_of("metrics_public")) == ()
    assert kind_of("acknowledge") is type(Config().acknowledge)


def test_names_are_joined_by_dots() -> None:
    assert (dotted("", "port"), dotted("a", "b", ""), dotted("")) == ("port", "a.b", "")
