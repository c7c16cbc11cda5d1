"""The explorer over HTTP: who is let in, what is given out, and that nothing that is sent makes it
fail."""

import http.client
import json
import socket
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glassformer.core.errors import ConfigError
from glassformer.serve.explorer import routes
from glassformer.serve.explorer.routes import EXPLORING, Server
from properties.asking import served
from serve.asking import reply_of


@pytest.fixture(scope="module")
def server(explorer_of, static):
    with served(explorer_of("lm")) as running:
        yield running


class Client:
    """A browser as far as needed; `headers` of None are left out."""

    def __init__(self, server):
        self.server = server
        self.port = server.port
        self.cookie = f"{server.cookie}={server.token}"

    def __call__(self, method, path, body=None, **headers):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        own = {
            "Host": f"127.0.0.1:{self.port}",
            "Cookie": self.cookie,
            "Content-Type": "application/json",
        }
        own |= {name.replace("_", "-"): value for name, value in headers.items()}
        try:
            connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
            if data is not None:
                own.setdefault("Content-Length", str(len(data)))
            for name, value in own.items():
                if value is not None:
                    connection.putheader(name, value)
            connection.endheaders(data)
            answer = connection.getresponse()
            return answer, answer.read()
        finally:
            connection.close()

    def api(self, **request):
        return self("POST", "/api", request)


@pytest.fixture
def client(server):
    return Client(server)


def refusal(answer, body, status):
    assert answer.status == status, body
    found = json.loads(body)
    assert set(found) == {"error", "kind"}
    assert found["error"].count("\n") == 0
    return found["error"]


def secure(answer):
    policy = answer.headers["Content-Security-Policy"]
    assert "default-src 'self'" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Referrer-Policy"] == "no-referrer"
    assert answer.headers["Server"] is None


def test_the_printed_address_gives_the_cookie_and_the_cookie_opens(server, client):
    assert server.address == f"http://127.0.0.1:{client.port}/?token={server.token}"
    answer, _ = client("GET", server.address.partition(str(client.port))[2], Cookie=None)
    assert (answer.status, answer.headers["Location"]) == (303, "/")
    cookie = answer.headers["Set-Cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    answer, body = client("POST", "/api", {"op": "model"}, Cookie=cookie.partition(";")[0])
    assert answer.status == 200
    assert reply_of(body).header["capabilities"] == ["generates"]
    assert answer.headers["Content-Type"] == "application/octet-stream"
    secure(answer)


def test_without_the_token_nothing_is_told(client):
    for cookie in (
        None,
        "",
        "a=b",
        f"{client.cookie}x",
        client.cookie.replace("=", "x="),
        '"',
        client.cookie[:-1],
    ):
        for path in ("/api", "/stream"):
            answer, body = client("POST", path, {"op": "model"}, Cookie=cookie)
            assert "no token yet" in refusal(answer, body, 403)
            secure(answer)
    answer, body = client("GET", "/?token=wrong")
    assert "not the one" in refusal(answer, body, 403)
    assert "Set-Cookie" not in answer.headers


def test_the_api_of_the_run_answers_beside_the_pages(server, client, lm):
    """By the same key, as a header of programs or as the cookie of the pages."""
    bearer = {"Cookie": None, "Authorization": f"Bearer {server.token}"}
    assert client("POST", "/api", {"op": "model"}, **bearer)[0].status == 200
    asked = {"prompt": "the cat", "max_tokens": 3, "temperature": 0}
    for own in ({}, bearer):
        (listed,) = json.loads(client("GET", "/v1/models", **own)[1])["data"]
        answer, body = client("POST", "/v1/completions", asked | {"model": listed["id"]}, **own)
        assert answer.headers["Content-Security-Policy"] is None
        wanted = lm.run.generate("the cat", max_new_tokens=3, temperature=0)
        assert json.loads(body)["choices"][0]["text"] == wanted
    for wrong in (
        {"Cookie": None},
        {"Origin": "http://evil.example"},
        {"Authorization": "Bearer x"},
        {"Cookie": None, "Authorization": f"Bearer {server.token}x"},
    ):
        for path in ("/v1/completions", "/v1/nothing", "/metrics", "/docs", "/api"):
            answer, body = client("POST", path, asked, **wrong)
            assert answer.status == (401 if "Authorization" in wrong else 403)
            assert set(json.loads(body)) == ({"error", "kind"} if path == "/api" else {"error"})
    assert client("GET", "/livez", Cookie=None)[0].status == 200
    assert client("GET", "/docs", Cookie=None)[0].status == 403


def test_a_stream_that_waits_changes_no_text(client, lm):
    """Its edits are of its own context, though one thread computes both."""
    edits = [{"edit": "Zero", "point": "*.resid_post"}]
    request = {"op": "generate", "look": {"input": "the cat", "edits": edits}, "new_tokens": 4}
    asked = {"model": lm.run.folder.name, "prompt": "the cat", "max_tokens": 3, "temperature": 0}
    connection = http.client.HTTPConnection("127.0.0.1", client.port, timeout=20)
    headers = {"Cookie": client.cookie, "Content-Type": "application/json"}
    connection.request("POST", "/stream", json.dumps(request), headers)
    answer = connection.getresponse()
    assert json.loads(answer.readline())["step"] == 0
    _, body = client("POST", "/v1/completions", asked)
    wanted = lm.run.generate("the cat", max_new_tokens=3, temperature=0)
    assert json.loads(body)["choices"][0]["text"] == wanted
    assert json.loads(answer.read().splitlines()[-1]) == {"done": True}
    connection.close()


def test_every_run_is_listed(explorer, static):
    """One that no route answers, too."""
    with served(explorer) as server:
        (listed,) = json.loads(Client(server)("GET", "/v1/models")[1])["data"]
    assert listed["task"] == explorer.run.task.recipe.task


def test_a_foreign_host_is_refused(client):
    """A name that was made to point here (DNS rebinding) is not ours."""
    for host in ("evil.example", f"evil.example:{client.port}", "", None, "127.0.0.1.evil", "[::"):
        for method, path in (("GET", "/"), ("GET", "/pages/a.js"), ("POST", "/api")):
            assert client(method, path, Host=host)[0].status == 400
    for host in (f"localhost:{client.port}", f"LOCALHOST:{client.port}", f"[::1]:{client.port}"):
        assert client("GET", "/", Host=host)[0].status == 200


def test_another_sites_page_is_refused(client):
    for headers in (
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": f"https://127.0.0.1:{client.port}"},
        {"Origin": f"http://127.0.0.1:{client.port + 1}"},
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
    ):
        answer, body = client("POST", "/api", {"op": "model"}, **headers)
        assert "another site" in refusal(answer, body, 403)
    own = {"Origin": f"http://127.0.0.1:{client.port}", "Sec_Fetch_Site": "same-origin"}
    assert client("POST", "/api", {"op": "model"}, **own)[0].status == 200


def test_only_files_of_the_pages_are_given_out(client):
    for path in ("/", "/index.html", "/pages/a.js"):
        answer, body = client("GET", path)
        assert answer.status == 200
        assert body
        secure(answer)
    assert (
        client("GET", "/pages/a.js")[0].headers["Content-Type"] == "text/javascript; charset=utf-8"
    )
    for path in (
        "/../outside.js",
        "/pages/../../outside.js",
        "/%2e%2e/outside.js",
        "//etc/passwd",
        "/etc/passwd",
        "/pages",
        "/pages/",
        "/.",
        "/server.py",
        "/%00",
    ):
        answer, body = client("GET", path)
        assert answer.status == 404
        secure(answer)


def test_an_unchanged_file_is_not_sent_again(client, static):
    answer, body = client("GET", "/pages/a.js")
    tag = answer.headers["ETag"]
    again, nothing = client("GET", "/pages/a.js", If_None_Match=tag)
    assert (again.status, nothing) == (304, b"")
    (static / "pages" / "a.js").write_text("export const a = 2;\n")
    changed, body = client("GET", "/pages/a.js", If_None_Match=tag)
    assert (changed.status, body) == (200, b"export const a = 2;\n")
    head, nothing = client("HEAD", "/pages/a.js")
    assert (head.status, nothing, head.headers["Content-Length"]) == (200, b"", str(len(body)))


def test_wrong_requests_are_one_sentence_with_a_status(client):
    wrong = [
        (b"", 400, "no JSON"),
        (b"{", 400, "no JSON"),
        (b'{"op": NaN}', 400, "A request is a JSON object"),
        (b"[" * 100_000, 400, "no JSON"),
        (b"\xff", 400, "no JSON"),
        (b"[]", 400, "A request is a JSON object"),
        (b"{}", 400, "A request is a JSON object"),
        (b'{"op": "heads"}', 400, "did you mean 'head'"),
        (b'{"op": "generate"}', 400, "no op 'generate' here"),
        (b'{"op": "look"}', 400, "request.look: field required"),
        (b'{"op": "look", "look": 3}', 400, "request.look must hold key: value"),
        (b'{"op": "look", "look": {}}', 400, "request.look.input: field required"),
        (b'{"op": "look", "look": {"input": null}}', 400, "The input is empty"),
        (
            b'{"op": "look", "look": {"input": {"image": "/etc/passwd"}}}',
            400,
            "is no part that this model reads; give a text.",
        ),
        (
            b'{"op": "look", "look": {"input": {"image": "example:0"}}}',
            400,
            "is no part that this model reads",
        ),
        (b'{"op": "look", "look": {"input": "\\ud800"}}', 400, ""),
        (
            b'{"op": "head", "look": {"input": "a"}, "layer": 0, "head": 99}',
            400,
            "its heads are 0 to 3",
        ),
    ]
    for body, status, sentence in wrong:
        assert sentence in refusal(*client("POST", "/api", body), status)
    for method, path in (("POST", "/"), ("PUT", "/api"), ("DELETE", "/api"), ("TRACE", "/api")):
        assert client(method, path)[0].status == 405


def test_a_body_has_a_length_and_a_limit(client):
    assert "Content-Length" in refusal(*client("POST", "/api", None), 411)
    assert "larger than" in refusal(
        *client("POST", "/api", None, Content_Length=str(EXPLORING.body + 1)), 413
    )
    unsent = {"Content_Length": str(EXPLORING.body)}  # who may not ask is not waited for
    assert "no token yet" in refusal(*client("POST", "/api", None, Cookie=None, **unsent), 403)
    assert client("POST", "/api", None, Host="a", **unsent)[0].status == 400
    large = b" " * (8 << 20)  # more than a connection holds back
    assert "no token yet" in refusal(*client("POST", "/api", large, Cookie=None), 403)
    refusal(*client("POST", "/api", None, Transfer_Encoding="chunked"), 411)
    for length in ("-5", "9" * 5000):
        headers = {"Content_Length": length, "Transfer_Encoding": "chunked"}
        assert client("POST", "/api", None, **headers)[0].status in (400, 411), "no HTTP"


def test_a_stream_is_a_line_for_each_item_and_ends_with_done(client):
    request = {"op": "generate", "look": {"input": "the cat"}, "new_tokens": 3, "temperature": 0}
    answer, body = client("POST", "/stream", request)
    assert answer.headers["Content-Type"] == "application/x-ndjson"
    secure(answer)
    lines = [json.loads(line) for line in body.splitlines()]
    assert [line.get("step") for line in lines] == [0, 1, 2, None]
    assert lines[-1] == {"done": True}
    wrong = {**request, "temperature": -1}
    assert "request.temperature" in refusal(*client("POST", "/stream", wrong), 400)
    assert "no op 'model' here" in refusal(*client("POST", "/stream", {"op": "model"}), 400)


STOP = ConfigError("No more of this; stop.")
UNEXPECTED = "An unexpected error occurred (KeyError: 'x'); please report it with the request."


@pytest.mark.parametrize(
    ("error", "sentence", "kind"),
    [(STOP, str(STOP), "ConfigError"), (KeyError("x"), UNEXPECTED, "Bug")],
)
def test_an_error_in_the_middle_of_a_stream_is_its_last_line(
    client, lm, monkeypatch, error, sentence, kind
):
    def broken(request, gone):
        yield {"step": 0}
        raise error

    monkeypatch.setattr(lm, "stream", broken)
    _, body = client("POST", "/stream", {"op": "generate"})
    lines = [json.loads(line) for line in body.splitlines()]
    assert lines == [{"step": 0}, {"error": sentence, "kind": kind}]


def test_whoever_hangs_up_ends_the_stream(client, lm, monkeypatch):
    ended = threading.Event()

    def endless(request, gone):
        try:
            step = 0
            while not gone():
                yield {"step": step, "filler": "x" * 4096}
                step += 1
        finally:
            ended.set()

    monkeypatch.setattr(lm, "stream", endless)
    with socket.create_connection(("127.0.0.1", client.port)) as connection:
        body = b'{"op": "generate"}'
        head = (
            f"POST /stream HTTP/1.1\r\nHost: 127.0.0.1:{client.port}\r\nCookie: {client.cookie}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        connection.sendall(head.encode() + body)
        assert connection.recv(100).startswith(b"HTTP/1.1 200")
    assert ended.wait(20)
    assert client("GET", "/")[0].status == 200


def test_several_requests_on_one_connection(client):
    connection = http.client.HTTPConnection("127.0.0.1", client.port, timeout=20)
    headers = {"Cookie": client.cookie, "Content-Type": "application/json"}
    for body, status in (
        (b'{"op": "model"}', 200),
        (b"{", 400),
        (b'{"op": "curves"}', 200),
        (b'{"op": "x"}', 400),
    ):
        connection.request("POST", "/api", body, headers)
        answer = connection.getresponse()
        answer.read()
        assert answer.status == status
    connection.request("PUT", "/api", headers={"Cookie": client.cookie})
    answer = connection.getresponse()
    assert answer.status == 405
    connection.close()


def test_a_taken_port_is_passed_over_unless_it_was_asked_for(explorer_of, monkeypatch):
    with served(explorer_of("lm")) as one:
        taken = one.port
        with pytest.raises(ConfigError, match=rf"port {taken} .*choose another --port"):
            Server(explorer_of("lm"), port=taken)
        monkeypatch.setattr(routes, "PORT", taken)
        with Server(explorer_of("lm")) as other:
            assert other.port > taken
    with pytest.raises(ConfigError, match=r"cannot listen at 203\.0\.113\.1"):
        Server(explorer_of("lm"), host="203.0.113.1", port=0)


def test_two_explorers_do_not_take_each_others_cookies(explorer_of, static):
    with served(explorer_of("lm")) as one, served(explorer_of("lm")) as other:
        assert one.cookie != other.cookie
        answer, _ = Client(other)("POST", "/api", {"op": "model"}, Cookie=Client(one).cookie)
        assert answer.status == 403


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=6,
)
INPUTS = JSON | st.sampled_from(
    [
        "the cat",
        "",
        ["a", "b"],
        [1, 2, 3],
        [10**9],
        {"image": "example:0"},
        {"image": "data:image/png;base64,AAAA"},
        [["a"], "b"],
        {"audio": "data:,"},
        ["a", {"text": "b"}, "c"],
    ]
)
NUMBERS = st.integers(-3, 9) | JSON
EDITS = st.fixed_dictionaries(
    {
        "edit": st.sampled_from(
            [
                "Zero",
                "Mean",
                "Set",
                "Scale",
                "Patch",
                "Freeze",
                "Mask",
                "Temperature",
                "Permute",
                "Resample",
                "Add",
            ]
        )
        | JSON,
        "point": st.sampled_from(
            [
                "*.z",
                "decoder.blocks.0.attention.pattern",
                "*.scores",
                "*.resid_post",
                "head.logits",
                "*",
            ]
        )
        | JSON,
    },
    optional={
        "head": NUMBERS,
        "query": NUMBERS,
        "key": NUMBERS,
        "position": NUMBERS | st.just("0:2"),
        "to": NUMBERS,
        "by": NUMBERS,
        "tau": NUMBERS,
        "order": JSON,
        "source": JSON | st.just({"input": "a"}),
        "vector": NUMBERS,
        "seed": NUMBERS,
    },
)
LOOKS = (
    st.fixed_dictionaries(
        {"input": INPUTS},
        optional={"edits": st.lists(EDITS, max_size=2) | JSON, "checkpoint": JSON},
    )
    | JSON
)
ARGUMENTS = st.fixed_dictionaries(
    {},
    optional={
        "look": LOOKS,
        "a": LOOKS,
        "b": LOOKS,
        "source": LOOKS,
        "side": st.sampled_from(["", "encoder", "decoder"]) | JSON,
        "site": st.sampled_from(["self", "cross"]) | JSON,
        **{
            name: NUMBERS
            for name in (
                "layer",
                "head",
                "query",
                "target",
                "position",
                "against",
                "size",
                "k",
                "part",
                "steps",
                "temperature",
                "top_k",
                "top_p",
                "new_tokens",
                "beams",
                "seed",
            )
        },
        "layers": JSON | st.lists(st.integers(-2, 3), max_size=2),
        "positions": JSON | st.lists(st.integers(-9, 9), max_size=2),
        "point": st.sampled_from(["decoder.blocks.0.attention.z", "head.logits", "*"]) | JSON,
        "method": st.sampled_from(
            ["rollout", "occlusion", "gradient_x_input", "gradient_attention"]
        )
        | JSON,
        "kind": st.sampled_from(["patch", "zero", "mean"]),
        "by": st.sampled_from(["layer_position", "layer_head"]),
        "given": JSON | st.lists(st.integers(-1, 20), max_size=3),
        "state": JSON,
        "questions": JSON,
    },
)


@pytest.mark.parametrize("family", ["lm", "translate", "image", "classify"])
@settings(max_examples=60)
@given(data=st.data())
def test_nothing_that_is_asked_is_an_error_of_ours(explorer_of, family, data):
    """Any request has an answer or a sentence: no other exception may leave the explorer, which
    would be status 500."""
    from glassformer.core.errors import GlassformerError
    from glassformer.serve.explorer.schema import REQUESTS, STREAMS

    explorer = explorer_of(family)
    op = data.draw(st.sampled_from([*REQUESTS]))
    fields = REQUESTS[op].model_fields if op != "document" else {}
    arguments = data.draw(ARGUMENTS)
    if fields and data.draw(
        st.integers(0, 9)
    ):  # mostly arguments that the op has, and all that it needs
        needed = [name for name, field in fields.items() if field.is_required()]
        arguments = {name: value for name, value in arguments.items() if name in fields}
        arguments |= {name: data.draw(_of(name, explorer)) for name in needed}
    request, said = {"op": op, **arguments}, "answered"
    try:
        if op in STREAMS:
            for _, _ in zip(range(5), explorer.stream(request), strict=False):
                pass
        else:
            reply_of(explorer.handle(request).to_bytes())
    except GlassformerError as refused:
        said = str(refused).strip()
    assert said
    assert "\n" not in said


def _of(name, explorer):
    from serve.asking import first

    look = st.fixed_dictionaries(
        {"input": st.just(first(explorer))}, optional={"edits": st.lists(EDITS, max_size=2)}
    )
    points = st.sampled_from(
        ["decoder.blocks.0.attention.z", "encoder.blocks.0.resid_mid", "head.logits", "*"]
    )
    return {"look": look, "a": look, "b": look, "point": points}.get(name, NUMBERS)


def test_no_thread_outlives_the_server(static, lm):
    """A thread that still runs when Python ends can abort it (SIGABRT after Ctrl-C, seen in one of
    four runs)."""
    before = set(threading.enumerate())
    with served(lm) as server:
        connections = [
            http.client.HTTPConnection("127.0.0.1", server.port, timeout=20) for _ in range(3)
        ]
        for connection in connections:
            connection.request("GET", "/pages/a.js")
            assert connection.getresponse().read()
    for connection in connections:
        connection.close()
    for one in set(threading.enumerate()) - before:  # those of a pool end a moment after its loop
        one.join(20)
        assert not one.is_alive()
