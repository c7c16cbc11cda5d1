"""Comparison of production code, or of any model, with the notes' equations in float64 NumPy.

rows = list(verify.notes_rows()); print(verify.table(rows))
rows = list(verify.model_rows(model, batch))
"""

from glassformer.verify.row import Row as Row
from glassformer.verify.row import as_json as as_json
from glassformer.verify.row import report_row as report_row
from glassformer.verify.row import summary as summary
from glassformer.verify.row import table as table
from glassformer.verify.rows_model import model_rows as model_rows
from glassformer.verify.rows_notes import notes_rows as notes_rows
