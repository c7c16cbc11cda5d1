"""Group D: cases that are calls of Python."""

from collections.abc import Callable
from typing import Any

from replies.plain import to_plain
from replies.tree import load, run_of

LEFT, RIGHT = "data/pictures/left/000.png", "data/pictures/right/001.png"
LOW = "data/sounds/low/000.wav"
CAT, DOG = "the cat saw a good fish .", "the dog ate a bad bone ."
SIDE = [{"image": LEFT}, "which side is bright ?"]
IS_LEFT = [{"image": RIGHT}, {"text": "is it the left side ?"}]
TALK = [
    {"role": "user", "content": "hot up"},
    {"role": "assistant", "content": "cold"},
    {"role": "user", "content": "old dry"},
]


def join(pieces: Any) -> list[Any]:
    """The text of a stream, and why it ended."""
    found = [*pieces]
    return ["".join(one.text for one in found), found[-1].finish]


def chat_stream(run: Any, messages: list[Any]) -> Any:
    """The pieces of an answer, by the method that the code has."""
    own = getattr(run, "chat_stream", None)
    return run.stream(messages, "chat") if own is None else own(messages)


def look_at(name: str, given: Any) -> dict[str, Any]:
    """A look of a run at an input."""
    seen = run_of(name).look(given)
    labels = [[one.label for one in own] for own in (seen.elements, seen.source_elements)]
    return {"labels": labels, "logits": seen.logits, "pattern": seen.pattern(0, 0)}


def encode(name: str, given: Any) -> dict[str, Any]:
    """An input as a run encodes it."""
    one = run_of(name).encode(given)
    return {"elements": [vars(own) for own in one.elements], "source": len(one.source)}


METHODS: dict[str, Callable[[], Any]] = {
    "generate": lambda: run_of("lm").generate("the cat", max_new_tokens=5, seed=1),
    "generate-several": lambda: run_of("lm").generate(["the cat", "a "], temperature=0),
    "generate-nothing": lambda: run_of("lm").generate([]),
    "generate-image": lambda: run_of("parts").generate(SIDE[1], image=LEFT),
    "generate-draft": lambda: run_of("lm").generate("the the", draft="ngram", temperature=0),
    "stream": lambda: join(run_of("lm").stream("the cat", max_new_tokens=5, seed=1)),
    "chat": lambda: run_of("chat").chat("hot up"),
    "chat-history": lambda: run_of("chat").chat(TALK),
    "chat-stream": lambda: join(chat_stream(run_of("chat"), TALK)),
    "chat-several": lambda: run_of("chat").chat([TALK[:1], TALK]),
    "score": lambda: run_of("lm").score("the cat"),
    "likelihoods": lambda: run_of("lm").likelihoods([("the ", "cat"), ("the ", "dog")]),
    "likelihoods-too-long": lambda: run_of("words").likelihoods([("the " * 60, "cat")]),
    "likelihoods-fit": lambda: run_of("words").likelihoods([("the " * 60, "cat")], fit=True),
    "likelihoods-of-pairs": lambda: run_of("pairs").likelihoods([("abc", "cba"), ("abc", "c")]),
    "score-of-parts": lambda: run_of("parts").score("which side"),
    "few-shot": lambda: run_of("words").few_shot("in/shots.csv", 2).choose([(CAT, None)]),
    "answer": lambda: run_of("parts").answer(SIDE),
    "answer-several": lambda: run_of("sources").answer([SIDE, IS_LEFT]),
    "draw": lambda: run_of("drawings").draw("a red flag"),
    "draw-several": lambda: run_of("drawings").draw(["a red flag", "a blue flag"], seed=2),
    "fill": lambda: run_of("masked").fill("the ___ saw a [MASK] fish ."),
    "fill-several": lambda: run_of("masked").fill(["the ___ .", "a ___ cat"]),
    "translate": lambda: run_of("pairs").translate("abc"),
    "translate-several": lambda: run_of("pairs").translate(["abc", "", "ab cd"], beams=2),
    "score-pairs": lambda: run_of("pairs").score_pairs([("abc", "cba"), ("ab cd", "dc ba")]),
    "cross-attention": lambda: run_of("pairs").cross_attention("ab cd", "dc ba").align(),
    "tag": lambda: run_of("tags").tag("the cat saw a zebra"),
    "tag-words": lambda: run_of("tags").tag(["the", "cat"]),
    "tag-several": lambda: run_of("spans").tag([["the", "cat"], [], ["a", "good", "owl"]]),
    "tag-parts": lambda: run_of("marks").tag(IS_LEFT),
    "classify": lambda: run_of("classes").classify(CAT),
    "classify-several": lambda: run_of("classes").classify([CAT, " ", DOG]),
    "classify-senses": lambda: run_of("senses").classify([CAT, ""], threshold=0.3),
    "classify-pair": lambda: run_of("nli").classify([(CAT, "the cat"), (CAT, "the dog")]),
    "classify-picture": lambda: run_of("pictures").classify(LEFT),
    "classify-sound": lambda: run_of("sounds").classify([LOW]),
    "classify-parts": lambda: run_of("questions").classify(SIDE),
    "embed": lambda: run_of("encoder").embed("the cat", prompt="query"),
    "embed-several": lambda: run_of("lm").embed(["the cat", "a dog"], pool="last", layer=1),
    "embed-empty": lambda: run_of("lm").embed(["a", ""]),
    "contexts": lambda: run_of("masked").contexts("cat", [CAT, "a cat ate"]).similarities,
    "look": lambda: look_at("lm", "the cat"),
    "look-ids": lambda: look_at("lm", [10, 7, 1]),
    "look-pair": lambda: look_at("pairs", ("ab cd", "dc")),
    "look-classes": lambda: look_at("classes", CAT),
    "look-nli": lambda: look_at("nli", (CAT, "the cat")),
    "look-words": lambda: look_at("tags", ["the", "cat"]),
    "look-masked": lambda: look_at("masked", "the <mask> saw"),
    "look-picture": lambda: look_at("pictures", RIGHT),
    "look-sound": lambda: look_at("sounds", LOW),
    "look-parts": lambda: look_at("parts", (SIDE, "left")),
    "look-drawing": lambda: look_at("drawings", "a red flag"),
    "look-drawn": lambda: look_at("drawings", ("a red flag", "data/red.png")),
    "look-too-long": lambda: look_at("masked", "the cat " * 30),
    "encode": lambda: encode("lm", "the cat"),
    "encode-parts": lambda: encode("sources", SIDE),
    "example-inputs": lambda: [run_of(name).example_inputs() for name in ("lm", "pairs", "tags")],
    "evaluate": lambda: run_of("classes").evaluate("validation"),
    "fingerprint": lambda: [run_of(name).fingerprint for name in ("lm", "gpt2")],
    "quantized": lambda: load("lm", quantize="int4").generate("the cat", temperature=0),
    "checkpoint": lambda: run_of("lm").at(30).score("the"),
    "options": lambda: run_of("pairs").options(beams=2).model_dump(),
    "classes": lambda: [run_of(name).classes for name in ("senses", "spans", "lm")],
    "unknown-option": lambda: run_of("lm").generate("a", temprature=1),
    "bad-option": lambda: run_of("lm").generate("a", temperature=-1),
    "search-and-sampling": lambda: run_of("pairs").translate("a", beams=2, temperature=1),
    "no-text": lambda: run_of("lm").generate(5),
    "no-texts": lambda: run_of("pairs").translate(["a", 5]),
    "other-task": lambda: run_of("tags").generate("a"),
    "no-picture": lambda: run_of("pictures").classify("in/broken.png"),
    "drawing-with-stop": lambda: run_of("drawings").draw("a red flag", stop=["a"]),
    "no-chat": lambda: run_of("lm").chat("hi"),
}


def reply_of_method(name: str) -> dict[str, Any]:
    """The value of a call, or its error."""
    try:
        return {"value": to_plain(METHODS[name]())}
    except Exception as error:  # noqa: BLE001 - whatever it raises is its reply
        return {"error": type(error).__name__, "sentence": to_plain(str(error))}
