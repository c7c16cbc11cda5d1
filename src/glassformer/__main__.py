"""`python -m glassformer`."""

from glassformer.cli.main import main

if __name__ == "__main__":
    main()
