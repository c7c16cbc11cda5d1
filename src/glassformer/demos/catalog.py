"""The demos by name, and the data sets that can be written without training."""

from glassformer.demos import audio, classify, lm, tag, translate, vision, vqa
from glassformer.demos.dates import write_dates
from glassformer.demos.demo import Demo, Training, Write
from glassformer.demos.glyphs import write_glyphs
from glassformer.demos.instruments import write_notes
from glassformer.demos.languages import write_languages
from glassformer.demos.python_code import write_code
from glassformer.demos.python_text import write_documents
from glassformer.demos.shape_files import write_drawn, write_judged, write_shapes
from glassformer.demos.tables import constants

DATA: dict[str, Write] = {
    "lm": write_documents,
    "translate": write_dates,
    "tag": write_code,
    "classify": write_languages,
    "vision": write_glyphs,
    "shapes-drawn": write_drawn,
    "vqa": write_shapes,
    "audio": write_notes,
    "shapes-judge": write_judged,
}
_SHOW = {
    "lm": lm.show,
    "translate": translate.show,
    "tag": tag.show,
    "classify": classify.show,
    "vision": vision.show,
    "vqa": vqa.show,
    "audio": audio.show,
}
DEMOS = {
    name: Demo(
        row["about"],
        [Training(data, DATA[data], suffix) for data, suffix in row["trainings"].items()],
        _SHOW[name],
        row["commands"],
    )
    for name, row in constants("demos").items()
}
