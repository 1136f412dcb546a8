"""The shipped data is the published set."""

import hashlib
from importlib import resources

import numpy as np
import pytest

import sweepgrad as sg
from sweepgrad import data


def test_the_set_has_the_published_size_range_and_class_counts():
    """Counts of the digits 0 to 9 as the UCI repository states them for this part."""
    train, held_out = data.load_digits()
    labels = np.concatenate([train.labels, held_out.labels])

    assert (len(train), len(held_out)) == (1438, 359)
    assert train.images.shape == (1438, 64)
    counts = [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]
    assert np.bincount(labels).tolist() == counts
    scaled = np.concatenate([train.images, held_out.images]) * 16
    assert (scaled.min(), scaled.max()) == (0.0, 16.0)
    assert np.array_equal(scaled, np.round(scaled))


def test_the_stored_pixels_are_those_of_the_original_file():
    with (resources.files("sweepgrad.data") / "digits.npz").open("rb") as file:
        stored = np.load(file)
        images, labels = stored["images"], stored["labels"]

    assert hashlib.sha256(images.tobytes()).hexdigest() == (
        "8f26b2bd9d135c256808f68f14fdabddde6d9c7f869ae419704b051f0f14b3b3"
    )
    assert hashlib.sha256(labels.tobytes()).hexdigest() == (
        "8ba4f891220f5e4c9c819638d1602d74b83618f167043c6da52a2a247841ddf0"
    )


def test_the_licence_stands_beside_the_data():
    text = (resources.files("sweepgrad.data") / "LICENSE-digits.txt").read_text("utf-8")

    assert "CC BY 4.0" in text
    assert "Alpaydin" in text
    assert "10.24432/C50P49" in text


def test_no_image_is_in_both_parts_and_none_is_lost():
    train, held_out = data.load_digits()
    with (resources.files("sweepgrad.data") / "digits.npz").open("rb") as file:
        images = np.load(file)["images"]

    both = sorted(np.concatenate([train.images, held_out.images]).tolist())
    assert both == sorted((images / np.float32(16)).tolist())
    assert not {i.tobytes() for i in train.images} & {i.tobytes() for i in held_out.images}


def test_loaded_arrays_cannot_be_written_into():
    train, _ = data.load_digits()

    with pytest.raises(ValueError, match="read-only"):
        train.images[0] = 0


@pytest.mark.parametrize(
    "content", [None, b"", b"not an archive", {"images": np.zeros((3, 64)), "labels": np.zeros(3)}]
)
def test_a_missing_or_damaged_file_is_a_named_error(tmp_path, monkeypatch, content):
    if isinstance(content, bytes):
        (tmp_path / "digits.npz").write_bytes(content)
    elif content is not None:
        np.savez(tmp_path / "digits.npz", **content)
    monkeypatch.setattr(data.resources, "files", lambda name: tmp_path)

    with pytest.raises(sg.DatasetError, match="install sweepgrad again"):
        data.load_digits()
