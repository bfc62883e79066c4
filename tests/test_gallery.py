"""The page of pictures: what is served of a folder, with which captions, and what is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from voicepipe.gallery import MAX_PICTURE_BYTES, MAX_PICTURES, Gallery, page_of, read_shelves, replies_of

SVG = '<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"><rect width="9" height="9"/></svg>'
PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "results"
    (root / "later").mkdir(parents=True)
    (root / "later" / "deeper").mkdir()
    (root / "load_curve.svg").write_text(SVG)
    (root / "gap.png").write_bytes(PNG)
    (root / "later" / "load_curve.svg").write_text(SVG.replace("><rect", "><title>A &lt;b&gt; title</title><rect"))
    (root / "later" / "deeper" / "unseen.svg").write_text(SVG)
    (root / "notes.txt").write_text("private")
    (root / "page.html").write_text("<script>alert(1)</script>")
    (root / "with space.svg").write_text(SVG)
    (root / ".hidden.svg").write_text(SVG)
    (tmp_path / "secret.svg").write_text(SVG)
    (root / "link.svg").symlink_to(tmp_path / "secret.svg")
    return root


def test_pictures_with_plain_names_are_served_and_nothing_else(folder: Path) -> None:
    table = replies_of(folder)
    assert set(table) == {
        "/experiments",
        "/experiments/gap.png",
        "/experiments/load_curve.svg",
        "/experiments/later/load_curve.svg",
    }
    assert table["/experiments/gap.png"].body == PNG
    assert table["/experiments/gap.png"].content_type == "image/png"


def test_a_picture_that_is_opened_alone_runs_no_script(folder: Path) -> None:
    policy = replies_of(folder)["/experiments/load_curve.svg"].all_headers()["Content-Security-Policy"]
    assert "default-src 'none'" in policy and "sandbox" in policy and "script-src" not in policy


def test_captions_come_from_the_file_then_the_title_then_the_name(folder: Path) -> None:
    (folder / "captions.toml").write_text('load_curve = "In time, under load"')
    captions = {picture.path: picture.caption for shelf in read_shelves(folder) for picture in shelf.pictures}
    assert captions == {
        "gap.png": "gap",
        "load_curve.svg": "In time, under load",
        "later/load_curve.svg": "A <b> title",
    }


def test_a_picture_can_be_left_out(folder: Path) -> None:
    (folder / "captions.toml").write_text("gap = false")
    assert "/experiments/gap.png" not in replies_of(folder)


def test_the_page_shows_every_picture_and_escapes_what_is_said_of_it(folder: Path) -> None:
    page = replies_of(folder)["/experiments"].body.decode()
    assert page.count("<img ") == 3
    assert 'src="experiments/later/load_curve.svg"' in page
    assert "A &lt;b&gt; title" in page and "<b>" not in page
    assert "<script" not in page and "style=" not in page


@pytest.mark.parametrize(
    ("text", "told"),
    [("load_curve = ", "captions.toml cannot be read"), ("gap = 3", "captions.toml: no text for gap.")],
)
def test_a_caption_file_that_is_wrong_is_named_on_the_page(folder: Path, text: str, told: str) -> None:
    (folder / "captions.toml").write_text(text)
    page = page_of(list(read_shelves(folder)))
    assert told in page
    assert page.count("<img ") == 3


def test_what_is_too_large_or_too_much_is_named_on_the_page(tmp_path: Path) -> None:
    (tmp_path / "large.png").write_bytes(bytes(MAX_PICTURE_BYTES + 1))
    for number in range(MAX_PICTURES + 1):
        (tmp_path / f"p{number:03}.svg").write_text(SVG)
    page = page_of(list(read_shelves(tmp_path)))
    assert "large.png is larger than 8 MiB." in page
    assert f"Only {MAX_PICTURES} pictures are shown." in page
    assert page.count("<img ") == MAX_PICTURES


def test_an_empty_folder_one_that_is_gone_and_none_are_told_apart(tmp_path: Path) -> None:
    assert "There is no picture in the folder." in page_of(list(read_shelves(tmp_path)))
    assert "The folder cannot be read: No such file" in page_of(list(read_shelves(tmp_path / "gone")))
    assert "--experiments DIR" in replies_of(None)["/experiments"].body.decode()


async def test_a_picture_that_came_later_is_there_when_the_page_is_asked_for_again(folder: Path) -> None:
    gallery = Gallery(folder)
    assert gallery.reply("/experiments") is None
    await gallery.refresh()
    assert gallery.reply("/experiments/new.svg") is None
    (folder / "new.svg").write_text(SVG)
    await gallery.refresh()
    found = gallery.reply("/experiments/new.svg")
    assert found is not None and found.body == SVG.encode()
