"""Runs in the evaluation harness `lm-eval`, as a model of type `glassformer`.

    python -m glassformer.run.harness run --model glassformer --model_args run=runs/x --tasks ...
    lm_eval.simple_evaluate(harness.registered()("runs/x"), tasks=[...])

The harness makes prompts and scores; here are the log-probabilities and texts that it asks for, by
its conventions: spaces before an answer are the answer's, prompts that are too long lose their
beginning, texts are read in windows that predict each token once. `lm-eval` is imported when it is
asked for: it is no dependency.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from itertools import groupby
from typing import Any

from glassformer.core.errors import ConfigError
from glassformer.run.folder import load

NAME = "glassformer"
UNASKED = "cuda:0"
"""The device that the harness names where its user names none, on machines without CUDA too."""
TOGETHER = 32
"""Requests that are answered together."""
NEW_TOKENS = 256
"""New tokens where a task says nothing, as in the harness's own models."""
LIMITS = ("max_gen_toks", "max_new_tokens", "max_tokens", "max_completion_tokens")
"""Names of the number of new tokens, the first that is there counts."""


class Answers:
    """The three questions of the harness, put to a run."""

    cache_hook: Any

    def __init__(self, run: str, device: str | None = None, **batching: Any):
        """`run`: its folder; `batching`: what the harness tells all models, without effect here."""
        super().__init__()
        self.run = load(run, "auto" if device in (None, UNASKED) else device)

    @property
    def scorer(self) -> Any:
        """The predictor that answers the questions."""
        return self.run.predictor("score")

    @property
    def tokenizer_name(self) -> str:
        """A name for what prompts become, in the harness's cache of requests."""
        return self.run.fingerprint

    def loglikelihood(
        self, requests: Sequence[Any], disable_tqdm: bool = False
    ) -> list[tuple[float, bool]]:
        """log p of each (context, continuation) in nats, and whether it is the likeliest."""
        found = list[tuple[float, bool]]()
        for part in _parts(requests, disable_tqdm):
            pairs = [request.args for request in part]
            own = [(one.log_prob, one.greedy) for one in self.run.likelihoods(pairs, fit=True)]
            self._keep("loglikelihood", part, own)
            found += own
        return found

    def loglikelihood_rolling(
        self, requests: Sequence[Any], disable_tqdm: bool = False
    ) -> list[float]:
        """log p of each text in nats."""
        found = list[float]()
        for part in _parts(requests, disable_tqdm):
            texts = [request.args[0] for request in part]
            own = self.scorer.roll(texts)
            self._keep("loglikelihood_rolling", part, own)
            found += own
        return found

    def generate_until(self, requests: Sequence[Any], disable_tqdm: bool = False) -> list[str]:
        """New text for each (context, options), greedily unless they ask for samples."""
        found = list[str]()
        for part in _parts(requests, disable_tqdm):
            own = list[str]()
            for options, group in groupby(part, key=lambda request: request.args[1]):
                how = self.run.options(**_decoding(options))
                prompts = [request.args[0] for request in group]
                own += self.scorer.complete(prompts, how)
            self._keep("generate_until", part, own)
            found += own
        return found

    def _keep(self, question: str, requests: Sequence[Any], answers: Sequence[Any]) -> None:
        for request, answer in zip(requests, answers, strict=True):
            self.cache_hook.add_partial(question, request.args, answer)


@cache
def register() -> type:
    """The class of such models, known to the harness by its name; ConfigError: there is no
    harness."""
    try:
        base = import_module("lm_eval.api.model").LM
        register = import_module("lm_eval.api.registry").register_model
        import_module("lm_eval.models")  # whose own are known only if nobody else's are
    except ImportError:
        raise ConfigError(
            "The evaluation harness is not installed; install it with pip install lm-eval."
        ) from None
    return register(NAME)(type("GlassformerLM", (Answers, base), {}))


def _parts(requests: Sequence[Any], silent: bool) -> Iterator[Sequence[Any]]:
    """Requests that are answered together, with a bar of progress."""
    with import_module("tqdm").tqdm(total=len(requests), disable=silent) as bar:
        for at in range(0, len(requests), TOGETHER):
            yield requests[at : at + TOGETHER]
            bar.update(len(requests[at : at + TOGETHER]))


def _decoding(options: Mapping[str, Any]) -> dict[str, Any]:
    """How text is generated, in our words; sampling only by a temperature above 0."""
    until = options.get("until") or []
    stop = [until] if isinstance(until, str) else list(until)
    limit = next((options[name] for name in LIMITS if options.get(name)), NEW_TOKENS)
    how = {"stop": [text for text in stop if text], "max_new_tokens": int(limit)}
    how |= {"temperature": 0.0, "overflow": "window"}
    temperature = float(options.get("temperature") or (1.0 if options.get("do_sample") else 0.0))
    if temperature and options.get("do_sample", True):
        chosen = {name: options[name] for name in ("top_k", "top_p", "min_p") if options.get(name)}
        how |= {"temperature": temperature, **chosen}
    return how


def main() -> None:
    """The command line of the harness, which knows our models."""
    register()
    import_module("lm_eval.__main__").cli_evaluate()


if __name__ == "__main__":
    main()
