"""The families of published models that are known, by their `model_type`."""

from glassformer.families.family import read_families

FAMILIES = read_families("gpt2", "llama", "bert", "t5", "bart", "vit", "nanogpt")
