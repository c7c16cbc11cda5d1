"""Each route gives what the run's own verb gives; a stream gives what the plain reply gives."""

import base64
import re

import numpy as np
import pytest

from glassformer.core.errors import ConfigError
from glassformer.pages.images import address
from small_runs import probabilities

SAMPLED = {"model": "lm", "prompt": "the cat", "max_tokens": 6, "seed": 5}


def joined(events, n=1):
    """The texts of a stream, why each ended, and their tokens."""
    found = [{"text": "", "finish_reason": None, "tokens": []} for _ in range(n)]
    for event in events:
        for choice in event["choices"]:
            own = found[choice["index"]]
            assert own["finish_reason"] is None, "nothing comes behind the end"
            own["text"] += choice.get("text") or choice.get("delta", {}).get("content", "")
            own["finish_reason"] = choice["finish_reason"]
            told = choice["logprobs"] or {}
            own["tokens"] += told.get("token_logprobs") or told.get("content") or []
    return found


def test_a_completion_is_what_the_run_generates(api):
    run = api.runs["lm"]
    reply = api.post("/v1/completions", **SAMPLED, temperature=0.9, top_k=5)
    (choice,) = reply["choices"]
    own = run.predict("the cat", max_new_tokens=6, seed=5, temperature=0.9, top_k=5)
    assert choice["text"] == own.text
    assert choice["finish_reason"] == {"end": "stop", "length": "length"}[own.finish]
    n = len(own.ids)
    assert reply["usage"] == {"prompt_tokens": 7, "completion_tokens": n, "total_tokens": 7 + n}


def test_a_quantized_model_writes_what_its_run_does(api_of):
    api = api_of("lm", "chat", quantize="int8")
    assert {run.bits for run in api.runs.values()} == {"int8"}
    (choice,) = api.post("/v1/completions", **SAMPLED)["choices"]
    assert choice["text"] == api.runs["lm"].generate("the cat", max_new_tokens=6, seed=5)


@pytest.mark.parametrize("draft", ["ngram", "itself"])
def test_a_draft_changes_no_reply(api, api_of, folders, draft):
    drafted = api_of("lm", drafts=(f"lm={folders['lm'] if draft == 'itself' else draft}",))
    texts = {"model": "lm", "prompt": ["aaaaaaa", "the the"], "max_tokens": 9, "seed": 5}
    for how in ({"temperature": 0, "logprobs": 2}, {"n": 3, "stop": ["t"]}):
        own = drafted.post("/v1/completions", **texts, **how)["choices"]
        assert own == api.post("/v1/completions", **texts, **how)["choices"]
    (served,) = drafted.service.models.values()
    assert served.drafts.counts.proposed > 0
    assert draft == "ngram" or served.drafts.counts.right > 10


def test_a_draft_of_no_served_run_is_refused(api_of):
    for given in ("other=ngram", "lm", "lm="):
        with pytest.raises(ConfigError, match=f"--draft '{given}' is no NAME=RUN"):
            api_of("lm", drafts=(given,))
    for name in ("pairs", "tags", "sounds"):
        with pytest.raises(ConfigError, match=f"--draft {name}=ngram is for a run that answers"):
            api_of(name, drafts=(f"{name}=ngram",))


@pytest.mark.parametrize(
    "how",
    [
        {},
        {"n": 3, "temperature": 2.0},
        {"logprobs": 3, "echo": True},
        {"stop": ["t", " a"], "n": 4},
        {"prompt": ["the cat", "a dog"], "echo": True},
        {"prompt": [[1, 2, 3], [2]], "logprobs": 0},
        {"max_tokens": 0, "echo": True, "logprobs": 1},
        {"logit_bias": {"3": -100}, "min_p": 0.01, "top_p": 0.9},
    ],
)
def test_a_stream_is_the_plain_reply_in_pieces(api, how):
    asked = SAMPLED | how
    plain = api.post("/v1/completions", **asked)
    events = api.stream("/v1/completions", **asked, stream_options={"include_usage": True})
    *pieces, last = events
    assert (last["choices"], last["usage"]) == ([], plain["usage"])
    assert {event["usage"] is None for event in pieces} == {True}
    assert len({event["id"] for event in events}) == 1
    for own, whole in zip(joined(pieces, len(plain["choices"])), plain["choices"], strict=True):
        assert (own["text"], own["finish_reason"]) == (whole["text"], whole["finish_reason"])
        told = whole["logprobs"] or {"token_logprobs": []}
        assert own["tokens"] == told["token_logprobs"]


def test_a_banned_token_and_a_stop_string_do_not_come(api):
    texts = [c["text"] for c in api.post("/v1/completions", **SAMPLED, n=8)["choices"]]
    shown = max("".join(texts).replace("<unk>", ""), key="".join(texts).count)
    (index,) = api.post("/tokenize", model="lm", text=shown)["tokens"]
    banned = api.post("/v1/completions", **SAMPLED, n=8, logit_bias={str(index): -100})
    assert all(shown not in c["text"].replace("<unk>", "") for c in banned["choices"])
    stopped = api.post("/v1/completions", **SAMPLED, n=8, stop=shown)["choices"]
    assert [c["text"] for c in stopped] == [text.partition(shown)[0] for text in texts]
    assert {c["finish_reason"] for c in stopped if len(c["text"]) < 6} >= {"stop"}


@pytest.mark.parametrize("name", ["lm", "chat"])
def test_echo_has_the_scores_of_the_run(api, name):
    text = "the cat sat on" if name == "lm" else "hot day cold"
    scores = api.runs[name].score(text)
    asked = {"model": name, "prompt": text, "echo": True, "logprobs": 1, "temperature": 0}
    (choice,) = api.post("/v1/completions", **asked, max_tokens=1)["choices"]
    (alone,) = api.post("/v1/completions", **asked, max_tokens=0)["choices"]
    told = choice["logprobs"]
    assert alone["text"] == text
    assert choice["text"].startswith(text)
    for name_of, n in (("tokens", None), ("token_logprobs", None), ("text_offset", None)):
        assert alone["logprobs"][name_of] == told[name_of][:-1], n
    assert [one.strip() for one in told["tokens"][:-1]] == [one.piece.strip() for one in scores]
    for given, own in zip(told["token_logprobs"], scores, strict=False):
        # float32, by products of other shapes
        assert given == pytest.approx(own.log_prob, abs=4e-6)
    for value, best in zip(told["token_logprobs"], told["top_logprobs"], strict=True):
        assert best is None or value in best.values(), "harnesses compare them exactly"
        assert best is None or value <= max(best.values())


def test_a_message_is_answered_as_by_the_run(api):
    asked = {"model": "chat", "messages": [{"role": "user", "content": "hot day"}]}
    reply = api.post("/v1/chat/completions", **asked, logprobs=True, top_logprobs=2)
    (choice,) = reply["choices"]
    assert choice["message"]["content"] == api.runs["chat"].chat("hot day") == "cold"
    assert choice["logprobs"]["content"][0]["token"] == "cold"
    first, *events, last = api.stream(
        "/v1/chat/completions", **asked, stream_options={"include_usage": True}
    )
    assert first["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert joined(events)[0]["text"] == "cold"
    assert events[-1]["choices"][0] | {"logprobs": None} == {
        "index": 0,
        "delta": {},
        "logprobs": None,
        "finish_reason": "stop",
    }
    assert last["usage"] == reply["usage"]


def test_vectors_are_those_of_the_run_in_both_forms(api):
    texts = ["the cat", "a dog ran on"]
    floats = api.post("/v1/embeddings", model="lm", input=texts)
    coded = api.post("/v1/embeddings", model="lm", input=texts, encoding_format="base64")
    rows = [np.array(one["embedding"], np.float32) for one in floats["data"]]
    bits = [base64.b64decode(one["embedding"]) for one in coded["data"]]
    np.testing.assert_array_equal(rows, [np.frombuffer(own, "<f4") for own in bits])
    np.testing.assert_array_equal(rows, api.runs["lm"].embed(texts))
    ids = api.post("/tokenize", model="lm", text=texts[0])["tokens"]
    (one,) = api.post("/v1/embeddings", model="lm", input=ids)["data"]
    np.testing.assert_allclose(one["embedding"], rows[0], atol=1e-6)  # float32, another batch
    assert floats["usage"]["total_tokens"] == sum(map(len, texts))


def outputs(reply):
    assert [one["index"] for one in reply["data"]] == list(range(len(reply["data"])))
    return reply["data"]


def test_tasks_of_text_answer_as_their_runs(api):
    runs = api.runs
    found = outputs(
        api.post("/v1/translate", model="pairs", input=["abc", "fed"], beams=2, n_best=2)
    )
    assert [one["text"] for one in found] == runs["pairs"].translate(["abc", "fed"], beams=2)
    assert {len(one["alternatives"]) for one in found} == {1}
    asked = {"input": ["abc fed", ""], "beams": 0, "max_tokens": 3, "alignments": True}
    first, empty = outputs(api.post("/v1/translate", model="pairs", **asked))
    pairs = runs["pairs"].cross_attention("abc fed", first["text"]).align()
    assert pairs
    assert (first["alignment"], empty["alignment"]) == ([[*pair] for pair in pairs], [])
    for given in ("a b c", ["a b c", "b"], [["a", "b", "c"]]):
        found = outputs(api.post("/v1/tag", model="tags", input=given, top=2))
        several = [given] if isinstance(given, str) else given
        own = runs["tags"].tag([one.split() if isinstance(one, str) else one for one in several])
        assert [[*zip(o["words"], o["tags"], strict=True)] for o in found] == own
    found = outputs(api.post("/v1/classify", model="classes", input=["a b c", "h g"]))
    assert [one["labels"] for one in found] == [
        [c] for c in runs["classes"].classify(["a b c", "h g"])
    ]
    (one, both) = outputs(api.post("/v1/fill", model="masked", input=["a ___", "___ b ___"], top=2))
    assert [one["filled"], both["filled"]] == runs["masked"].fill(["a ___", "___ b ___"])
    assert [[len(blank) for blank in o["blanks"]] for o in (one, both)] == [[2], [2, 2]]


def test_texts_are_continued_and_scored_as_by_their_runs(api):
    """The choices of the command are the fields of the request."""
    run, how = api.runs["lm"], {"max_new_tokens": 6, "temperature": 0.9, "seed": 5}
    found = outputs(api.post("/v1/generate", model="lm", input=["the cat", "a dog"], **how))
    assert [one["text"] for one in found] == run.generate(["the cat", "a dog"], **how)
    assert {one["finish"] for one in found} <= {"end", "length"}
    (found,) = outputs(api.post("/v1/score", model="lm", input="the cat"))
    assert found["tokens"] == [vars(one) for one in run.score("the cat")]
    pairs = [["abc", "cba"], ["fed", "d"]]
    found = outputs(api.post("/v1/score", model="pairs", input=pairs))
    expected = api.runs["pairs"].score_pairs([tuple(pair) for pair in pairs])
    assert [one["log_probs"] for one in found] == expected
    for model, path, given in (
        ("lm", "/v1/generate", [["the", "cat"]]),
        ("pairs", "/v1/translate", [["abc", "cba"]]),
        ("pairs", "/v1/score", "abc"),
    ):
        assert api.ask("POST", path, json={"model": model, "input": given}).status_code == 400
    stops = {"model": "lm", "input": "a", "stop": ["x"] * 17}
    assert api.ask("POST", "/v1/generate", json=stops).json()["error"]["param"] == "stop"


@pytest.mark.parametrize("name", ["pictures", "sounds", "parts"])
def test_files_are_read_by_their_content(api, name):
    run = api.runs[name]
    ((kind, reader),) = run.processor.media().items()
    raw = reader.to_file(reader.neutral_inputs()[0])
    part = {kind: address(reader.accept.partition(",")[0], raw)}
    if name == "parts":
        found = outputs(api.post("/v1/generate", model=name, input=[[part, "what is it"]]))
        again = [{kind: reader.from_file(raw)}, "what is it"]
        assert [one["text"] for one in found] == [run.answer(again)]
    else:
        found = outputs(api.post("/v1/classify", model=name, input=part))
        assert found[0]["labels"] == [run.classify(reader.from_file(raw))]
    path = "/v1/generate" if name == "parts" else "/v1/classify"
    for wrong in ({kind: "/etc/passwd"}, {kind: "example:0"}, {kind: "data:x;base64,?"}):
        reply = api.ask(
            "POST", path, json={"model": name, "input": [[wrong] if name == "parts" else wrong]}
        )
        assert (reply.status_code, reply.json()["error"]["param"]) == (400, "input")


def test_a_path_is_no_input(api, folders):
    for given in (str(folders["pictures"] / "config.json"), ["README.md"]):
        reply = api.ask("POST", "/v1/classify", json={"model": "pictures", "input": given})
        assert reply.status_code == 400
        assert "reads" in reply.json()["error"]["message"]


def test_tokens_come_and_go(api):
    told = api.post("/tokenize", model="lm", text="the cat")
    assert told["count"] == len(told["tokens"]) == 7
    assert api.post("/detokenize", model="lm", tokens=told["tokens"])["text"] == "the cat"


def test_models_have_the_routes_of_their_tasks(api):
    listed = api.ask("GET", "/v1/models").json()
    api.replies["/v1/models"].model_validate(listed)
    found = {one["id"]: one["routes"] for one in listed["data"]}
    assert found == {
        "lm": ["/v1/completions", "/v1/generate", "/v1/score", "/v1/embeddings"],
        "chat": [
            *("/v1/chat/completions", "/v1/completions", "/v1/generate", "/v1/score"),
            "/v1/embeddings",
        ],
        "pairs": ["/v1/translate", "/v1/score", "/v1/embeddings"],
        "classes": ["/v1/classify", "/v1/embeddings"],
        "tags": ["/v1/tag", "/v1/embeddings"],
        "masked": ["/v1/fill", "/v1/embeddings"],
        "pictures": ["/v1/classify"],
        "sounds": ["/v1/classify"],
        "parts": ["/v1/generate", "/v1/embeddings"],
    }
    for name, own in found.items():
        assert api.ask("GET", f"/v1/models/{name}").json()["routes"] == own
        for path in {path for routes in found.values() for path in routes} - {*own}:
            fields = {"model": name, "input": "a", "prompt": "a"}
            fields["messages"] = [{"role": "user", "content": "a"}]
            known = {"/v1/completions": ("prompt",), "/v1/chat/completions": ("messages",)}
            kept = known.get(path, ("input",))
            body = {"model": name, **{key: fields[key] for key in kept}}
            body |= {"input": ["a"]} if path == "/v1/generate" else {}
            reply = api.ask("POST", path, json=body)
            assert reply.status_code == 400, path
            assert reply.json()["error"]["code"] == "model_not_supported"
            assert own[0] in reply.json()["error"]["message"]


def test_every_schema_is_described(api):
    told = api.ask("GET", "/openapi.json").json()
    parts = told["components"]["schemas"]
    text = str(told)
    assert {*re.findall(r"#/components/schemas/(\w+)", text)} <= parts.keys()
    assert parts["CompletionRequest"]["additionalProperties"] is False
    described = {one["operationId"] for own in told["paths"].values() for one in own.values()}
    assert {"completions", "health"} <= described
    assert len(described) == len(told["paths"]) == 18


def test_the_page_of_documentation_needs_no_network(api):
    page = api.ask("GET", "/docs").text
    files = re.findall(r'(?:src|href)="([^"]+)"', page)
    assert len(files) == 3
    assert all(api.ask("GET", file).status_code == 200 for file in files)
    assert "https://" not in page


def test_metrics_count_what_clients_saw(api_of):
    api = api_of("lm")
    replies = [api.post("/v1/completions", **SAMPLED | {"max_tokens": n}) for n in (1, 2, 3)]
    n = sum(reply["usage"]["completion_tokens"] for reply in replies)
    api.ask("POST", "/v1/completions", json={"model": "hostile\n" * 9, "prompt": ""})
    for path in ("/a", "/b"):
        api.ask("GET", path)
    lines = api.ask("GET", "/metrics").text.splitlines()
    assert 'glassformer_requests_total{code="200",route="/v1/completions"} 3.0' in lines
    assert 'glassformer_requests_total{code="404",route="/v1/completions"} 1.0' in lines
    assert 'glassformer_requests_total{code="404",route="other"} 2.0' in lines
    assert f"glassformer_generated_tokens_total {n}.0" in lines
    assert "glassformer_prompt_tokens_total 21.0" in lines
    assert "glassformer_in_flight 0.0" in lines
    assert "glassformer_ttft_seconds_count 3.0" in lines


@pytest.mark.parametrize("blank", ["", "   ", "\t\u2003\n"])
def test_a_text_of_nothing_but_space_has_no_class(api, blank):
    run = api.runs["classes"]
    cat = run.classify("the cat")
    assert run.classify(blank) is None
    assert run.classify([blank, "the cat", blank]) == [None, cat, None]
    assert np.isnan(probabilities(run, [blank, "the cat"])).all(1).tolist() == [True, False]
    data = api.post("/v1/classify", model="classes", input=[blank, "the cat"])["data"]
    nothing = {"labels": [], "label": None, "probability": None, "probabilities": {}}
    assert data[0] == {"index": 0, **nothing}
    assert data[1]["labels"] == [cat]
    assert api.post("/v1/classify", model="classes", input=[[blank], ["the cat"]])["data"] == data
    part = api.post("/v1/classify", model="classes", input=[{"text": blank}])["data"]
    assert part[0] == data[0]
