"""The server's application for other servers of ASGI; GLASSFORMER_RUNS names the run folders.

GLASSFORMER_RUNS="runs/lm runs/pos" uvicorn --app-dir examples --factory replica:application
GLASSFORMER_RUNS="$PWD/runs/lm" serve run --app-dir examples replica:ingress
"""

import os
from typing import Any

from glassformer.serve.api.server import replica

REPLICAS = 2


def application() -> Any:
    """The application of one process, with one thread for each computation."""
    return replica(os.environ["GLASSFORMER_RUNS"].split(), threads=1)


def ingress(_: dict[str, str]) -> Any:
    """The same as replicas of Ray Serve, each of which makes its own."""
    from ray import serve

    runs = {"GLASSFORMER_RUNS": os.environ["GLASSFORMER_RUNS"]}
    options = {"num_cpus": 1, "runtime_env": {"env_vars": runs}}
    made = serve.deployment(serve.ingress(application)())
    return made.options(num_replicas=REPLICAS, ray_actor_options=options).bind()
