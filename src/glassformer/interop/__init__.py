"""Published formats: models of other programs come in, each family by one table."""
