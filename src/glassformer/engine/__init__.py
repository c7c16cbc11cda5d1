"""Many requests at once on one model: each step computes one more token of every text, and texts
come and go between steps.

engine = Engine(model)
number = engine.add(Request(prompt=ids, config=config, ends=(eos,)))
while not engine.idle:
    for event in engine.step(): ...

A request's tokens and log-probabilities are the same, bit for bit, alone or in any company.
"""

from glassformer.engine.engine import Engine
from glassformer.engine.request import Event, Request, Scored

__all__ = ["Engine", "Event", "Request", "Scored"]
