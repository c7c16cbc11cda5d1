"""Pictures as a model takes them, against NumPy in float64; what is saved comes back; what does not
fit is refused."""

import json

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from PIL import Image

from glassformer.core.errors import ConfigError, DataError
from glassformer.media.image import ImageConfig, ImageReader, mean_std

HALF = {"mean": [0.5, 0.5, 0.5], "std": [0.25, 0.5, 1.0]}


def noise(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)


def reader(**fields) -> ImageReader:
    return ImageReader(ImageConfig.parse({"size": 8, "channels": 3, "patch": 4} | HALF | fields))


def test_geometry():
    made = reader(size=[8, 12], patch=[4, 2])
    assert (made.shape, made.grid, made.n_patches, made.patch_width) == ((8, 12, 3), (2, 6), 12, 24)


def test_a_picture_of_its_size_is_left_alone():
    pixels = noise(8, 8, 3)
    np.testing.assert_array_equal(reader().fit(pixels), pixels)


@pytest.mark.parametrize("how", ["nearest", "bilinear", "bicubic"])
@pytest.mark.parametrize("shape", [(30, 20), (5, 9), (8, 40), (1, 300), (4096, 2)])
@pytest.mark.parametrize("channels", [1, 3])
def test_stretched_is_what_pillow_makes(how, shape, channels):
    pixels = noise(*shape, channels)
    made = reader(
        size=[4, 12], resize="stretch", interpolation=how, channels=channels, mean=None, std=None
    ).fit(pixels)
    wanted = Image.fromarray(pixels.squeeze(2) if channels == 1 else pixels).resize(
        (12, 4), Image.Resampling[how.upper()]
    )
    np.testing.assert_array_equal(made, np.asarray(wanted).reshape(4, 12, channels))


@pytest.mark.parametrize(
    ("shape", "cut"), [((16, 24), np.s_[:, 4:20]), ((24, 16), np.s_[4:20, :]), ((16, 16), np.s_[:])]
)
def test_cropped_is_the_centre_made_smaller(shape, cut):
    pixels = noise(*shape, 3)
    middle = Image.fromarray(np.ascontiguousarray(pixels[cut])).resize(
        (8, 8), Image.Resampling.BILINEAR
    )
    # outside the cut nothing is seen, so the smoothing at its border may differ: the inside is the
    # same
    np.testing.assert_allclose(
        reader().fit(pixels)[1:-1, 1:-1].astype(int), np.asarray(middle)[1:-1, 1:-1], atol=1
    )


@pytest.mark.parametrize("how", ["nearest", "bilinear", "bicubic"])
@pytest.mark.parametrize("shape", [(30, 20), (5, 9), (12, 12), (8, 8), (1, 300), (4096, 2)])
@pytest.mark.parametrize(
    ("resize", "to"), [("crop", 12), ("stretch", (11, 13)), ("stretch", 8), ("crop", 8)]
)
def test_the_centre_is_cut_from_what_pillow_makes(resize, to, shape, how):
    pixels, short = noise(*shape, 3), min(shape)
    tall, wide = (to * side // short for side in shape) if resize == "crop" else np.resize(to, 2)
    whole = Image.fromarray(pixels).resize((int(wide), int(tall)), Image.Resampling[how.upper()])
    top, left = (tall - 8) // 2, (wide - 8) // 2
    made = reader(resize=resize, resize_to=to, interpolation=how).fit(pixels)
    np.testing.assert_array_equal(made, np.asarray(whole)[top : top + 8, left : left + 8])


def test_of_a_long_strip_only_the_centre_is_resized():
    """The whole would have 12 x 1,800,000 pixels; both round to bytes, at other places."""
    pixels = np.repeat(noise(1, 3000, 3), 50, 1)
    made = reader(resize_to=12).fit(pixels)
    middle = reader(resize_to=12).fit(np.ascontiguousarray(pixels[:, 74_980:75_020]))
    np.testing.assert_allclose(made.astype(int), middle.astype(int), atol=1)


@pytest.mark.parametrize("shape", [(8, 16), (16, 8)])
def test_cropping_without_scaling_cuts_exactly_the_centre(shape):
    pixels = noise(*shape, 3)
    np.testing.assert_array_equal(
        reader().fit(pixels), pixels[:, 4:12] if shape == (8, 16) else pixels[4:12]
    )


def test_padded_with_black_in_the_middle():
    made = reader(resize="pad").fit(np.full((4, 8, 3), 200, np.uint8))
    assert made.shape == (8, 8, 3)
    assert (made[2:6] == 200).all()
    assert not made[[0, 1, 6, 7]].any()


@given(
    st.integers(1, 70),
    st.integers(1, 70),
    st.sampled_from(["stretch", "crop", "pad"]),
    st.sampled_from([1, 3]),
)
def test_any_picture_fits(height, width, how, channels):
    made = reader(size=[8, 12], resize=how).fit(np.full((height, width, channels), 77, np.uint8))
    assert made.shape == (8, 12, 3)
    assert made.dtype == np.uint8
    assert (made == 77).all() if how != "pad" else set(np.unique(made)) <= {0, 77}


def test_grey_is_repeated_and_colour_becomes_grey_only_if_asked():
    grey, colour = noise(8, 8, 1), noise(8, 8, 3)
    np.testing.assert_array_equal(reader().fit(grey), grey.repeat(3, 2))
    asked = reader(channels=1, mean=[0.5], std=[0.5])
    weighed = colour @ np.array([0.299, 0.587, 0.114])
    np.testing.assert_allclose(
        asked.fit(colour)[..., 0], weighed, atol=0.51
    )  # rounded, in Pillow's whole numbers
    found = ImageReader(ImageConfig(size=8).fill_in(grey))
    with pytest.raises(
        DataError,
        match=r"cat.png has 3 channels and the first training image 1; set processor.image.channels",
    ):
        found.fit(colour, "cat.png")
    assert ImageReader(ImageConfig(size=8).fill_in(colour)).fit(grey).shape == (8, 8, 3)


def test_size_and_channels_of_the_first_picture():
    made = ImageReader(ImageConfig(patch=(4, 2)).fill_in(noise(8, 12, 1)))
    assert made.shape == (8, 12, 1)
    assert ImageConfig(size=4, channels=3).fill_in(noise(8, 12, 1)) == ImageConfig(
        size=4, channels=3
    )
    with pytest.raises(
        ConfigError, match=r"image: a patch of 4 x 4 must divide the size 9 x 12; use 3 or 1"
    ):
        ImageConfig().fill_in(noise(9, 12, 1))


@given(
    arrays.arrays(
        "u1",
        st.tuples(st.integers(1, 5), st.integers(1, 3), st.integers(1, 3), st.sampled_from([1, 3])),
    )
)
def test_mean_and_deviation_against_float64(stack):
    mean, std = mean_std(stack)
    values = stack.astype(np.float64) / 255
    np.testing.assert_allclose(
        mean, values.mean((0, 1, 2)), rtol=1e-13
    )  # a few roundings of float64
    wanted = values.std((0, 1, 2))
    np.testing.assert_allclose(
        std, np.where(wanted < 1e-9, 1.0, wanted), rtol=1e-7
    )  # NumPy's own cancellation


def test_mean_and_deviation_of_more_pictures_than_one_chunk():
    stack = noise(2500, 3, 2, 3)
    mean, std = mean_std(stack)
    np.testing.assert_allclose(
        [mean, std], [(stack / 255).mean((0, 1, 2)), (stack / 255).std((0, 1, 2))], rtol=1e-12
    )
    with pytest.raises(DataError, match="no training images"):
        mean_std(stack[:0])


@pytest.mark.parametrize("kind", ["array", "read-only", "backwards", "tensor"])
def test_normalized_and_back(kind):
    made, pixels = reader(), noise(5, 8, 8, 3)
    wanted = (pixels / 255 - HALF["mean"]) / HALF["std"]
    given_pixels = pixels
    match kind:
        case "read-only":
            given_pixels = np.frombuffer(pixels.tobytes(), np.uint8).reshape(pixels.shape)
        case "backwards":
            given_pixels = np.ascontiguousarray(pixels[:, :, ::-1])[:, :, ::-1]
        case "tensor":
            given_pixels = torch.from_numpy(pixels)
    numbers = made.normalize(given_pixels)
    assert numbers.dtype == torch.float32
    np.testing.assert_allclose(numbers, wanted, atol=1e-6)  # float32 of numbers up to 2
    patches = made.patches(numbers)
    assert patches.shape == (5, made.n_patches, made.patch_width)
    np.testing.assert_array_equal(made.pixels_of(patches), pixels)


def test_what_is_normalized_is_not_changed():
    pixels = torch.full((1, 8, 8, 3), 9.0)  # pixels after augmentation may be float32 already
    reader().normalize(pixels)
    assert (pixels == 9).all()


def test_resolved_normalizes_the_training_pictures():
    stack = noise(50, 8, 8, 3) // 3
    made = reader(mean=None, std=None).resolve(stack)
    numbers = made.normalize(stack).double()
    np.testing.assert_allclose(numbers.mean((0, 1, 2)), 0, atol=1e-6)  # float32
    np.testing.assert_allclose(numbers.std((0, 1, 2), correction=0), 1, atol=1e-6)
    assert made.resolve(stack[:1]) is made
    with pytest.raises(
        ConfigError, match=r"processor.image.mean and processor.image.std are not set"
    ):
        reader(mean=None, std=None).normalize(stack)


def test_pictures_of_impossible_patches_are_cut_off():
    made = reader()
    pixels = made.pixels_of(torch.tensor([-100.0, 100.0]).repeat(1, 4, 24))
    assert pixels.min() == 0
    assert pixels.max() == 255


@pytest.mark.parametrize("found", [False, True])
def test_saved_and_loaded(tmp_path, found):
    stack = noise(3, 8, 12, 1)
    config = (
        ImageConfig(patch=(4, 2)).fill_in(stack[0])
        if found
        else ImageConfig(size=(8, 12), channels=1, patch=2)
    )
    made = ImageReader(config).resolve(stack)
    made.save(tmp_path)
    for place in (tmp_path, tmp_path / "image.json"):
        loaded = ImageReader.load(place)
        assert loaded.config == made.config
        assert torch.equal(loaded.normalize(stack), made.normalize(stack))
    with pytest.raises(ConfigError, match="not set"):
        ImageReader(config).save(tmp_path)


def test_a_file_from_before_a_field_was_added_takes_its_default(tmp_path):
    reader().save(tmp_path)
    values = json.loads((tmp_path / "image.json").read_bytes())
    del values["resize"], values["found_channels"]
    (tmp_path / "image.json").write_text(json.dumps(values))
    assert ImageReader.load(tmp_path).config == reader().config


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (b"", r"image.json is not JSON"),
        (b"[" * 100_000, r"image.json is not JSON"),
        (b"\xff", r"image.json is not JSON"),
        (b"[]", r"image.json is not a JSON object"),
        (b" " * (1 << 21), r"image.json has over 1 MB, too many for image.json"),
        ({"patch": None}, r"image.json is damaged: processor.image.patch"),
        (
            {"patch": 3},
            r"image.json is damaged: processor.image: a patch of 3 x 3 must divide the size 8 x 8",
        ),
        ({"std": [0.1, 0.0, 1.0]}, r"image.json is damaged: processor.image: mean and std"),
        (
            {"mean": None, "std": None},
            r"image.json is damaged: processor.image.mean and processor.image.std are not set",
        ),
        ({"size": None}, r"image.json is damaged: processor.image.size is not set"),
        ({"more": 1}, r"image.json is damaged: Unknown key processor.image.more"),
        ("channels", r"image.json is damaged: processor.image.channels is not set"),
        (None, r"cannot read .*image.json: No such file"),
    ],
)
def test_a_damaged_file_is_one_sentence(tmp_path, change, sentence):
    file = tmp_path / "image.json"
    reader().save(file)
    values = json.loads(file.read_bytes())
    match change:
        case bytes():
            file.write_bytes(change)
        case dict():
            file.write_text(json.dumps(values | change))
        case str():
            del values[change]
            file.write_text(json.dumps(values))
        case None:
            file.unlink()
    with pytest.raises(DataError, match=sentence) as caught:
        ImageReader.load(file)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"patch": 0}, r"a patch of 0 x 0 is none"),
        ({"patch": 5}, r"a patch of 5 x 5 must divide the size 8 x 8; use 4 or 2, or another size"),
        ({"size": 0}, r"size 0 x 0 must be from 1 x 1 to 4096 x 4096"),
        ({"size": [8, 100_000]}, r"size 8 x 100000 must be"),
        ({"mean": None}, r"mean and std belong together"),
        ({"mean": [0.5], "std": [0.5]}, r"need a number for each channel, got 1 and 1"),
        ({"mean": [127, 127, 127]}, r"divide them by 255"),
        ({"std": [0.5, 0.5, 0.0]}, r"std is above 0"),
        ({"channels": 4}, r"image.channels"),
        ({"resize": "squash"}, r"image.resize"),
        ({"resize_to": 7}, r"resize_to=7 must be from size=8 to 4096"),
        ({"resize_to": [8, 9]}, r"resize_to=\(8, 9\) needs resize='stretch', or of one number"),
        ({"resize": "pad", "resize_to": 9}, r"resize_to=9 needs resize='stretch'"),
        ({"size": True}, r"image.size"),
        ({"sizes": 8}, r"Unknown key processor.image.sizes; did you mean 'size'"),
    ],
)
def test_a_configuration_that_cannot_be(fields, sentence):
    with pytest.raises(ConfigError, match=sentence):
        reader(**fields)


def test_what_is_not_known_is_asked_for():
    with pytest.raises(ConfigError, match=r"image.channels is not set"):
        ImageReader(ImageConfig(size=8))
    with pytest.raises(ConfigError, match=r"image.size is not set"):
        ImageReader(ImageConfig(channels=1))
