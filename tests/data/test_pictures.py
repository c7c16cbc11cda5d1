"""Pictures of every format become pixels that NumPy computes too; broken ones are one sentence
each."""

import io
import struct
import tracemalloc
import zipfile
import zlib
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from PIL import Image, ImageOps

from glassformer.core.errors import ConfigError, DataError
from glassformer.data.records.pictures import LARGEST, SIXTEEN_BITS, decode, pictures, value_range
from small_runs import data_config

NOISE = np.random.default_rng(0).integers(0, 256, (6, 9, 4), dtype=np.uint8)


def saved(picture: Image.Image, kind: str = "PNG", **settings) -> bytes:
    file = io.BytesIO()
    picture.save(file, kind, **settings)
    return file.getvalue()


def png(width: int, height: int, data: bytes = b"") -> bytes:
    chunks = [
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)),
        (b"IDAT", zlib.compress(data)),
        (b"IEND", b""),
    ]
    written = [
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        for kind, body in chunks
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(written)


@pytest.mark.parametrize("kind", ["PNG", "BMP", "WEBP"])
def test_colours_come_back_exactly(kind):
    raw = saved(
        Image.fromarray(NOISE[..., :3]), kind, **({"lossless": True} if kind == "WEBP" else {})
    )
    pixels = decode(raw, "x")
    np.testing.assert_array_equal(pixels, NOISE[..., :3])
    assert pixels.flags.writeable


@pytest.mark.parametrize("kind", ["PNG", "BMP", "GIF"])
def test_grey_comes_back_exactly_with_one_channel(kind):
    np.testing.assert_array_equal(
        decode(saved(Image.fromarray(NOISE[..., 0]), kind), "x"), NOISE[..., :1]
    )


def test_black_and_white():
    bits = NOISE[..., 0] > 127
    np.testing.assert_array_equal(
        decode(saved(Image.fromarray(bits)), "x"), 255 * bits[..., None].astype("u1")
    )


@pytest.mark.parametrize("bits", [8, 9, 12, 16])
@pytest.mark.parametrize("kind", ["PNG", "TIFF"])
def test_more_than_eight_bits_are_the_upper_eight_of_those_in_use(bits, kind):
    wide = np.arange(1 << bits).astype(np.uint16).reshape(16, -1)
    raw = saved(Image.fromarray(wide), kind)
    levels = (wide >> (bits - 8)).astype("u1")[..., None]
    np.testing.assert_array_equal(decode(raw, "x"), levels)
    np.testing.assert_array_equal(
        decode(raw, "x", SIXTEEN_BITS), (wide >> 8).astype("u1")[..., None]
    )


def test_numbers_of_other_types_keep_their_range_also_below_nothing():
    steps = np.arange(256).reshape(16, 16)
    for values in (
        (steps / 256).astype("f4"),
        (steps / 4).astype("f4"),
        (steps * 2 - 255).astype("i4"),
        steps.astype("i4"),
        (steps * 257).astype(">u2"),
    ):
        image = (
            Image.fromarray(values)
            if values.dtype != ">u2"
            else Image.frombytes("I;16B", (16, 16), values.tobytes())
        )
        pixels = decode(saved(image, "TIFF"), "x")[..., 0]
        assert len(np.unique(pixels)) >= 255
        assert (np.diff(pixels.ravel().astype(int)) >= 0).all()
        assert pixels.min() <= 1
        assert pixels.max() >= 254
    with pytest.raises(DataError, match="x has values that are infinite or no numbers"):
        decode(saved(Image.fromarray(np.full((2, 2), np.nan, "f4")), "TIFF"), "x")


def test_all_images_of_a_data_set_have_one_range(tmp_path):
    for name, top in (("a/1.png", 100), ("a/2.tif", 4000), ("b/1.png", 900)):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        image = Image.fromarray(np.full((2, 2), top, np.uint16))
        (tmp_path / name).write_bytes(saved(image, "TIFF" if "tif" in name else "PNG"))
    (tmp_path / "b/2.png").write_bytes(saved(Image.fromarray(np.full((2, 2), 77, np.uint8))))
    (tmp_path / "b/3.png").write_bytes(b"no image")
    found = pictures(data_config({"train.path": str(tmp_path), "validation.fraction": 0.0}))
    whole = value_range(found)
    assert whole == (0, 4095)
    assert [int(one.pixels(whole).max()) for one in found[:4]] == [100 // 16, 250, 56, 77]
    assert value_range(found[3:]) is None, "eight bits have the range of theirs"
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    cells = [(tmp_path / "a/1.png").read_bytes(), (tmp_path / "b/1.png").read_bytes()]
    pq.write_table(pa.table({"file_name": cells, "label": ["a", "b"]}), tmp_path / "x.parquet")
    table = {"train.path": str(tmp_path / "x.parquet"), "validation.fraction": 0.0}
    assert value_range(pictures(data_config(table))) == (0, 1023)


@pytest.mark.parametrize("kind", ["PNG", "WEBP"])
def test_transparency_is_mixed_with_white(kind):
    colour, alpha = NOISE[..., :3].astype(float), NOISE[..., 3:] / 255
    pixels = decode(
        saved(
            Image.fromarray(NOISE),
            kind,
            **({"lossless": True, "exact": True} if kind == "WEBP" else {}),
        ),
        "x",
    )
    np.testing.assert_array_equal(pixels, np.floor(colour * alpha + 255 * (1 - alpha) + 0.5 - 1e-9))


def test_transparent_grey_stays_grey():
    pixels = decode(saved(Image.fromarray(NOISE[..., [0, 3]], "LA")), "x")
    np.testing.assert_array_equal(
        pixels, decode(saved(Image.fromarray(NOISE[..., [0, 0, 0, 3]])), "x")[..., :1]
    )


def test_a_palette_with_a_transparent_colour():
    picture = Image.fromarray(NOISE[..., 0] % 4, "L").convert("P")
    picture.putpalette([255, 0, 0, 0, 255, 0, 0, 0, 255, 7, 8, 9])
    colours = np.array([[255, 0, 0], [255, 255, 255], [0, 0, 255], [7, 8, 9]], np.uint8)
    np.testing.assert_array_equal(
        decode(saved(picture, transparency=1), "x"), colours[NOISE[..., 0] % 4]
    )


def test_cmyk_is_told_in_red_green_and_blue():
    ink = Image.new("CMYK", (8, 8), (0, 255, 255, 0))
    pixels = decode(saved(ink, "JPEG", quality=100), "x")
    assert pixels.shape == (8, 8, 3)
    assert np.abs(pixels.astype(int) - [255, 0, 0]).max() <= 4  # JPEG's rounding


def test_the_first_picture_of_an_animation():
    frames = [Image.fromarray(np.full((3, 4, 3), c, np.uint8)) for c in ((9, 0, 0), (0, 9, 0))]
    for kind in ("GIF", "PNG"):
        raw = saved(frames[0], kind, save_all=True, append_images=frames[1:])
        np.testing.assert_array_equal(decode(raw, "x"), np.asarray(frames[0]))


@pytest.mark.parametrize("orientation", range(10))
@pytest.mark.parametrize("kind", ["PNG", "JPEG"])
def test_pictures_stand_upright(orientation, kind):
    exif = Image.Exif()
    exif[0x0112] = orientation
    raw = saved(Image.fromarray(NOISE[..., :3]), kind, exif=exif)
    wanted = ImageOps.exif_transpose(Image.open(io.BytesIO(raw)))
    np.testing.assert_array_equal(decode(raw, "x"), np.asarray(wanted))


def test_damaged_exif_damages_no_picture():
    raw = saved(Image.fromarray(NOISE[..., :3]), "PNG", exif=b"Exif\0\0MM\0*\0\0\0\x08\xff\xff")
    np.testing.assert_array_equal(decode(raw, "x"), NOISE[..., :3])


@pytest.mark.parametrize(
    ("width", "height"), [(50_000, 50_000), (10_000, 10_000), (1 << 13, (1 << 13) + 1)]
)
@pytest.mark.parametrize("kind", ["PNG", "GIF", "BMP", "JPEG"])
def test_a_huge_header_is_refused_before_anything_is_allocated(width, height, kind):
    match kind:
        case "PNG":
            raw = png(width, height)
        case "GIF":
            raw = (
                b"GIF89a"
                + struct.pack("<HH", width, height)
                + saved(Image.new("L", (2, 2)), "GIF")[10:]
            )
        case "BMP":
            raw = bytearray(saved(Image.new("RGB", (2, 2)), "BMP"))
            raw[18:26] = struct.pack("<II", width, height)
        case _:
            raw = bytearray(saved(Image.new("RGB", (2, 2)), "JPEG"))
            at = raw.index(b"\xff\xc0") + 5
            raw[at : at + 4] = struct.pack(">HH", height, width)
    tracemalloc.start()
    with pytest.raises(
        DataError, match=r"x.png has [\dx, ]+ pixels by its header, and 1 to 67,108,864 can be read"
    ):
        decode(bytes(raw), "x.png")
    assert tracemalloc.get_traced_memory()[1] < 3_000_000  # Pillow's modules, the first time
    tracemalloc.stop()
    assert LARGEST == 67_108_864


@pytest.mark.parametrize(
    ("raw", "sentence"),
    [
        (b"", r"x.png is not an image; give PNG, JPEG"),
        (b"hello", r"x.png is not an image"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", r"x.png is not an image"),
        (png(4, 4, b"123"), r"x.png is a damaged image"),
        (saved(Image.fromarray(NOISE), "PNG")[:100], r"x.png is a damaged image"),
        (saved(Image.fromarray(NOISE[..., :3]), "JPEG")[:-150], r"x.png is a damaged image"),
    ],
)
def test_one_sentence_for_what_is_no_picture(raw, sentence):
    with pytest.raises(DataError, match=sentence) as caught:
        decode(raw, "x.png")
    assert "\n" not in str(caught.value)
    assert "object at" not in str(caught.value)


WHOLE = [
    saved(Image.fromarray(NOISE), "PNG"),
    saved(Image.fromarray(NOISE[..., 0]), "PNG", exif=b"Exif\0\0MM\0*\0\0\0\x08\0\0"),
    saved(Image.fromarray(NOISE[..., :3]), "JPEG"),
    saved(Image.fromarray(NOISE[..., :3]), "JPEG", progressive=True),
    saved(
        Image.fromarray(NOISE[..., :3]),
        "GIF",
        save_all=True,
        append_images=[Image.fromarray(NOISE[..., 1:])],
    ),
    saved(Image.fromarray(NOISE), "WEBP"),
    saved(Image.fromarray(NOISE[..., :3]), "BMP"),
    saved(Image.fromarray(NOISE[..., 0]).convert("P"), "PNG", transparency=b"\0\1\2"),
]


@settings(max_examples=200)
@example(WHOLE[0], 10_000, [])
@given(
    st.sampled_from(WHOLE),
    st.integers(0, 1000),
    st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 255)), max_size=6),
)
def test_garbled_bytes_are_a_picture_or_a_data_error(raw, end, changes):
    garbled = bytearray(raw[: end or None])
    for at, byte in changes:
        garbled[at % len(garbled)] = byte
    with suppress(DataError):
        pixels = decode(bytes(garbled), "x")
        assert pixels.dtype == np.uint8
        assert pixels.ndim == 3
        assert pixels.shape[2] in (1, 3)


def read(root, path, **fields):
    return pictures(
        data_config(
            {"train.path": path, "root": str(root), **{"validation.fraction": 0.0} | fields}
        )
    )


def test_files_in_folders_and_archives(tmp_path):
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        for name, colour in (("cat/1.png", 1), ("dog/2.bmp", 2), ("dog/3.jpg", 3)):
            archive.writestr(
                name,
                saved(
                    Image.new("L", (3, 2), colour),
                    "JPEG" if name.endswith("jpg") else name[-3:].upper(),
                ),
            )
        archive.writestr("dog/4.png", b"no picture")
    found = read(tmp_path, "x.zip")
    assert [(picture.labels, picture.split) for picture in found] == [(("cat",), "train")] + 3 * [
        (("dog",), "train")
    ]
    assert [picture.pixels().tolist() for picture in found[:3]] == [
        [[[c]] * 3] * 2 for c in (1, 2, 3)
    ]
    with pytest.raises(DataError, match=r"x.zip/dog/4.png is not an image; give PNG"):
        found[3].pixels()


STACK = np.random.default_rng(0).integers(0, 256, (7, 4, 5), dtype=np.uint8)
DIGITS = np.array([0, 1, 2, 0, 1, 2, 0], np.uint8)


def idx(array: np.ndarray) -> bytes:
    return struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape) + array.tobytes()


@pytest.mark.parametrize("kind", ["idx", "npy", "npz", "npz of three"])
def test_arrays(tmp_path, kind):
    stack, fields = STACK, {"train.labels": "y"}
    match kind:
        case "idx":
            (tmp_path / "x-ubyte").write_bytes(idx(STACK))
            (tmp_path / "y").write_bytes(idx(DIGITS))
            path = "x-ubyte"
        case "npy":
            stack = np.stack([STACK, 255 - STACK, STACK // 2], 3)
            np.save(tmp_path / "x.npy", np.moveaxis(stack, 3, 1))  # channels first
            np.save(tmp_path / "y.npy", DIGITS.astype(np.int64)[:, None])
            path, fields = "x.npy", {"train.labels": "y.npy"}
        case _:
            np.savez(
                tmp_path / "x.npz",
                **(
                    {"x": STACK, "y": DIGITS}
                    if kind == "npz"
                    else {"images": STACK, "labels": DIGITS}
                ),
            )
            path, fields = "x.npz", {}
    found = read(tmp_path, path, class_names=("a", "b", "c"), test_fraction=2 / 7, **fields)
    assert [picture.split for picture in found].count("test") == 2
    for picture in found:
        i = int(picture.where.rpartition(" ")[2]) - 1
        assert picture.labels == ("abc"[DIGITS[i]],)
        pixels = picture.pixels()
        np.testing.assert_array_equal(pixels, stack[i] if stack.ndim == 4 else stack[i][..., None])
        assert pixels.flags.writeable
        assert pixels.flags.c_contiguous
    assert sorted(int(picture.where.rpartition(" ")[2]) for picture in found) == list(range(1, 8))


def test_arrays_of_a_split_of_their_own_and_names_as_classes(tmp_path):
    np.savez(tmp_path / "train.npz", x=STACK, y=np.array(list("abcabca")))
    np.savez(tmp_path / "test.npz", x=STACK[:2], y=np.array(["c", "b"]))
    found = read(tmp_path, "train.npz", test_path="test.npz")
    assert [(p.split, *p.labels) for p in found] == [("train", c) for c in "abcabca"] + [
        ("test", "c"),
        ("test", "b"),
    ]


@pytest.mark.parametrize(
    ("path", "fields", "sentence"),
    [
        ("x.npy", {}, r"data.train.labels is not set; give the file with the classes of .*x.npy"),
        (
            "x.npy",
            {"train.labels": "two.npy"},
            r"two.npy has 2 classes for the 7 images of .*x.npy; give one for each",
        ),
        ("x.npy", {"train.labels": "x.npy"}, r"x.npy holds 7 x 4 x 5 of uint8 as classes"),
        (
            "x.npy",
            {"train.labels": "float.npy"},
            r"float.npy holds 2 x 3 x 4 x 1 of float64 as classes",
        ),
        (
            "float.npy",
            {"train.labels": "two.npy"},
            r"float.npy holds 2 x 3 x 4 x 1 of float64; give whole numbers",
        ),
        (
            "flat.npy",
            {"train.labels": "two.npy"},
            r"flat.npy holds 2 x 784 of uint8; give whole numbers",
        ),
        ("four.npy", {"train.labels": "two.npy"}, r"four.npy holds 2 x 5 x 5 x 4 of uint8"),
        ("x.npz", {}, r"x.npz holds z; an array called images or x or data is needed"),
        (["x.npy", "flat.npy"], {"train.labels": "two.npy"}, r"data.train.path stands for 2 files"),
        (
            "x.npy",
            {"train.labels": "y.npy", "class_names": ("a",)},
            r"y.npy is of class [12], but data.class_names has 1",
        ),
        ("x.npy", {"test.where": {}}, r"data.test.where: .* at least 1 item"),
        ("x.npy", {"format": "images"}, r"there are no images in x.npy"),
        (
            "x.npy",
            {"format": "idx", "train.labels": "no.npy"},
            r"there is no file or folder .*no.npy",
        ),
    ],
)
def test_one_sentence_for_arrays_that_are_no_pictures(tmp_path, path, fields, sentence):
    np.save(tmp_path / "x.npy", STACK)
    np.save(tmp_path / "y.npy", DIGITS)
    np.save(tmp_path / "two.npy", DIGITS[:2])
    np.save(tmp_path / "float.npy", np.zeros((2, 3, 4, 1)))
    np.save(tmp_path / "flat.npy", np.zeros((2, 784), np.uint8))
    np.save(tmp_path / "four.npy", np.zeros((2, 5, 5, 4), np.uint8))
    np.savez(tmp_path / "x.npz", z=STACK)
    with pytest.raises((DataError, ConfigError), match=sentence) as caught:
        read(tmp_path, path, **fields)
    assert "\n" not in str(caught.value)
