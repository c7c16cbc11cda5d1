"""The demos by name, and the data sets that can be written without training."""

from glassformer.demos import audio, classify, lm, tag, translate, vision, vqa
from glassformer.demos.demo import Demo, Write
from glassformer.demos.shape_files import write_judged

DEMOS: dict[str, Demo] = {
    "lm": lm.DEMO,
    "translate": translate.DEMO,
    "tag": tag.DEMO,
    "classify": classify.DEMO,
    "vision": vision.DEMO,
    "vqa": vqa.DEMO,
    "audio": audio.DEMO,
}
DATA: dict[str, Write] = {
    training.name: training.write for demo in DEMOS.values() for training in demo.trainings
} | {"shapes-judge": write_judged}
