"""A recipe: everything that a run is made from, as one YAML file with overrides."""

from glassformer.recipe.reading import read_recipe as read_recipe
from glassformer.recipe.recipe import Recipe as Recipe
