"""Who may ask: every route but two needs a key; pages of other sites may not."""

from hashlib import sha256

import pytest

from glassformer.core.errors import ConfigError
from glassformer.serve.api.access import Rules, is_local, keys_of

KEY = "a-key-of-some-length"
HASH = sha256(KEY.encode()).digest()
BEARER = {"authorization": f"Bearer {KEY}"}


@pytest.fixture(scope="module")
def kept(folders):
    from .conftest import Api

    made = Api({"lm": folders["lm"]}, rules=Rules("0.0.0.0", (b"\0" * 32, HASH)))
    yield made
    made.service.engine.close()


WRONG = [
    {},
    {"authorization": "Bearer "},
    {"authorization": f"Bearer {KEY[:-1]}"},
    {"authorization": f"Bearer {KEY.upper()}"},
    {"authorization": f"Bearer {KEY} {KEY}"},
    {"authorization": f"Basic {KEY}"},
    {"authorization": KEY},
    {"authorization": f"Bearer {HASH.hex()}"},
    {"x-api-key": KEY},
    {"cookie": f"authorization=Bearer {KEY}"},
]


def test_every_route_but_two_needs_a_key(kept):
    paths = [
        (method.upper(), path.replace("{id}", "lm"))
        for path, operations in kept.app.openapi()["paths"].items()
        for method in operations
    ]
    paths += [("GET", path) for path in ("/docs", "/openapi.json", "/static-offline-docs/a.js")]
    for method, path in paths:
        free = path in ("/livez", "/readyz")
        for headers in WRONG:
            reply = kept.ask(method, path, headers=headers)
            assert reply.status_code == (200 if free else 401), (path, headers)
            if not free:
                assert reply.json()["error"]["code"] == "invalid_api_key"
                assert reply.headers["www-authenticate"] == "Bearer"
        assert kept.ask(method, path, headers=BEARER).status_code != 401


@pytest.mark.parametrize("path", ["/", "/nothing", "/livez/", "//livez", "/LIVEZ", "/v1/models/"])
def test_what_is_no_route_needs_one_too(kept, path):
    assert kept.ask("GET", path).status_code == 401
    assert kept.ask("GET", path, headers=BEARER).status_code == 404


def test_of_two_keys_none_is_known(kept):
    twice = [("authorization", f"Bearer {KEY}"), ("authorization", "Bearer other")]
    assert kept.ask("GET", "/v1/models", headers=twice).status_code == 401


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("localhost:8000", 200),
        ("127.0.0.1:1", 200),
        ("[::1]:8000", 200),
        ("proxy.example", 200),
        ("evil.example", 400),
        ("localhost.evil.example", 400),
        ("127.0.0.1.evil.example", 400),
        ("", 400),
        ("[", 400),
    ],
)
def test_without_a_key_only_this_machine_s_names_are_answered(api_of, host, status):
    api = api_of("lm", rules=Rules(hosts=("proxy.example",)))
    assert api.ask("GET", "/v1/models", headers={"host": host}).status_code == status


def test_only_pages_of_named_origins_read_a_reply(api_of):
    api = api_of("lm", rules=Rules(origins=("https://page.example",)))
    preflight = {"access-control-request-method": "POST"}
    preflight["access-control-request-headers"] = "authorization"
    for origin in ("null", "https://other.example", "http://page.example", "http://localhost"):
        headers = {"origin": origin}
        reply = api.ask("GET", "/v1/models", headers=headers)
        assert "access-control-allow-origin" not in reply.headers
        asked = api.ask("OPTIONS", "/v1/completions", headers=headers | preflight)
        assert asked.status_code == 400
    own = {"origin": "https://page.example"}
    reply = api.ask("GET", "/v1/models", headers=own)
    assert reply.headers["access-control-allow-origin"] == own["origin"]
    assert reply.headers["vary"] == "Origin"
    asked = api.ask("OPTIONS", "/v1/completions", headers=own | preflight)
    assert asked.status_code == 200
    assert "authorization" in asked.headers["access-control-allow-headers"].lower()
    assert "access-control-allow-credentials" not in asked.headers


def test_a_request_has_a_name_that_cannot_forge_a_line(api):
    for given in ("mine-1", "a\tb", "a" * 65, "é"):
        headers = {"x-request-id": given.encode("latin-1")}
        own = api.ask("GET", "/livez", headers=headers).headers["x-request-id"]
        assert (own == given) == (given == "mine-1")


def test_keys_are_kept_as_hashes(tmp_path):
    file = tmp_path / "keys"
    file.write_text(f"# of one user\n{KEY}\n\nsha256:{HASH.hex()}\n", encoding="utf-8")
    assert keys_of(file, None) == (HASH, HASH)
    assert keys_of(None, KEY) == (HASH,)
    assert keys_of(None, None) == ()
    for text in ("short", "sha256:00", "sha256:" + "g" * 64, "# none"):
        file.write_text(text, encoding="utf-8")
        with pytest.raises(ConfigError):
            keys_of(file, None)
    with pytest.raises(ConfigError, match="cannot be read"):
        keys_of(tmp_path / "none", None)


def test_this_machine_is_told_from_others():
    assert all(map(is_local, ("127.0.0.1", "127.8.8.8", "localhost", "::1")))
    assert not any(map(is_local, ("0.0.0.0", "::", "10.0.0.1", "example.org", "")))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--host", "0.0.0.0"), "there is no API key"),
        (("--name", "a", "--name", "b"), "give one for each run"),
        (("--cache", "1KB"), "this model needs at least"),
        (("--cache", "2 bytes"), "is no size"),
        (("--quantize", "int3"), "int3"),
        (("--host", "203.0.113.1", "--insecure"), "cannot listen"),
    ],
)
def test_a_server_that_cannot_be_says_why(refused, folders, tmp_path, arguments, said):
    given = (folders["lm"], *arguments)
    assert said in refused("serve", *given, "--port", 0, code=2, keep=tmp_path)
