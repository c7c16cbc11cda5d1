"""A recipe: everything that a run is made from, as one YAML file with overrides."""

from glassformer.recipe.recipe import Recipe as Recipe
from glassformer.recipe.recipe import read_recipe as read_recipe
