"""Errors of the API: an HTTP status, and a body in the shape that clients of OpenAI's API know.

{"error": {"message": "...", "type": "invalid_request_error", "param": "top_p", "code": null}}
"""

import json
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse

from glassformer.core.errors import GlassformerError

KINDS = {401: "authentication_error", 429: "rate_limit_error"}
"""Types by status; of the others invalid_request_error below 500, and server_error."""
ENCODER = json.JSONEncoder(allow_nan=False, separators=(",", ":"))
NO_JSON = "The request is no JSON object in UTF-8; send one as Content-Type: application/json."
MOST_SHOWN = 400
"""Characters of a message."""


class ApiError(GlassformerError):
    """A request that is answered with a status of 400 or above."""

    def __init__(
        self,
        status: int,
        message: str,
        param: str | None = None,
        code: str | None = None,
        headers: Mapping[str, str] | None = None,
    ):
        super().__init__(message)
        self.status, self.param, self.code = status, param, code
        self.headers = dict(headers or {})

    @property
    def body(self) -> dict[str, Any]:
        """The body of the reply."""
        said = str(self)
        message = said if len(said) <= MOST_SHOWN else f"{said[:MOST_SHOWN]}..."
        other = "server_error" if self.status >= 500 else "invalid_request_error"
        kind = KINDS.get(self.status, other)
        return {"error": {"message": message, "type": kind, "param": self.param, "code": self.code}}

    def response(self) -> JSONResponse:
        """The reply; half of a character pair is escaped."""
        return AsciiResponse(self.body, self.status, headers=self.headers)


class AsciiResponse(JSONResponse):
    """Strict JSON in ASCII, since a text of a model may hold half of a character pair."""

    def render(self, content: Any) -> bytes:
        """See `JSONResponse`."""
        return to_json(content)


def to_json(value: Any) -> bytes:
    """A value as strict JSON in ASCII."""
    return ENCODER.encode(value).encode()


class ClientGone(Exception):
    """The client has closed the connection; nobody reads an answer."""


def problem(error: BaseException) -> ApiError:
    """An error as one of the API: of the user (400), or of the server (500, not to be retried)."""
    match error:
        case ApiError():
            return error
        case GlassformerError():
            return ApiError(HTTPStatus.BAD_REQUEST, str(error))
        case RequestValidationError():
            return _refusal(error.errors())
        case HTTPException(status_code=404 | 405 as status):
            said = f"There is no such route ({error.detail}); /openapi.json has all of them."
            return ApiError(status, said, headers=error.headers)
        case HTTPException(status_code=400):  # FastAPI could not read the body
            return ApiError(400, NO_JSON)
        case HTTPException():
            return ApiError(error.status_code, error.detail, headers=error.headers)
        case MemoryError():
            sentence = "The server is out of memory; send a shorter request."
        case _:
            sentence = "The server failed at this request; its log has the error by x-request-id."
    return ApiError(500, sentence, headers={"x-should-retry": "false"})


def _refusal(errors: Sequence[Any]) -> ApiError:
    """The error of the form that comes closest to the value, where a field has several: not its
    type if that of another is right, and the innermost one."""
    if errors[0]["type"] == "json_invalid":
        return ApiError(HTTPStatus.BAD_REQUEST, NO_JSON)
    first = max(errors, key=lambda one: (not one["type"].endswith("_type"), len(one["loc"])))
    inside = map(str, first["loc"][1:])  # all are of the body
    place = [part for part in inside if part.isalnum() or part.isidentifier()]
    param, name = place[0][:64] if place else None, ".".join(place)[:100]
    match first["type"]:
        case "extra_forbidden":
            said = f"There is no field {name!r}; /openapi.json has those that there are."
        case "model_attributes_type" | "missing" if not place:
            said = NO_JSON
        case _:
            reason = first["msg"].removeprefix("Value error, ")
            said = f"{name or 'The request'}: {reason[:1].lower()}{reason[1:]}."
    return ApiError(HTTPStatus.BAD_REQUEST, said, param)
