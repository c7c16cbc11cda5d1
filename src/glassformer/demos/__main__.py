"""Write the data of a demo as files: python -m glassformer.demos NAME FOLDER."""

import argparse
import sys
from pathlib import Path

from glassformer.core.errors import GlassformerError
from glassformer.demos.catalog import DATA
from glassformer.training.folder.given_data import write_data


def main() -> None:
    """Write one data set into a new folder."""
    parser = argparse.ArgumentParser("python -m glassformer.demos", description=__doc__)
    parser.add_argument("name", choices=DATA, help="the data of which recipe")
    parser.add_argument("folder", type=Path, help="a folder that does not exist yet")
    options = parser.parse_args()
    if options.folder.exists():
        parser.error(f"{options.folder} already exists; name another folder")
    try:
        write_data(DATA[options.name], options.folder)
    except GlassformerError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
