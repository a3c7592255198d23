"""Application of the dashboard: its routes.  All of them answer GET, and change nothing.

/                              the page
/api/version                   versions and the session, as Ray's
/api/v0/KIND                   lists in Ray's envelope, with Ray's filters
/api/v0/tasks/summarize ...    counts, as zray.util.state has them
/z/VIEW                        what a view of the page shows, once
/z/stream?view=VIEW            the same, and what changes of it, as server-sent events
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

import zray
from zray.exceptions import ZrayError

from . import all_views
from .page import Page
from .session import Session
from .streams import Looks, Streams, encoded
from .views import Asked, View

# A stream begins after this time at the latest, with or without an answer of the session.
FIRST_S = 2.0
FILTERS = ("filter_keys", "filter_predicates", "filter_values")
WORDS_MAX, WORD_CHARACTERS_MAX = 40, 1_000


class Dashboard:
    """The routes, with what they need."""

    def __init__(self, session: Session, page: Page) -> None:
        self.page = page
        self.looks = Looks(session)
        self.streams = Streams(self.looks)

    def application(self) -> Starlette:
        """Return the application of ASGI, without the checks of requests."""
        routes = [
            Route("/", self.html),
            Route("/api/version", self.version),
            *(Route(f"/api/v0/{kind}", self._list(kind)) for kind in all_views.LISTS),
            *(Route(f"/api/v0/{kind}/summarize", self._summary(kind)) for kind in all_views.SUMMARIES),
            Route("/z/stream", self.stream),
            *(Route(f"/z/{name}", self._once(name)) for name in all_views.VIEWS),
        ]
        return Starlette(routes=routes, exception_handlers={HTTPException: _said})

    async def html(self, request: Request) -> Response:
        """The page."""
        if "gzip" in request.headers.get("accept-encoding", ""):
            headers = {"Content-Encoding": "gzip"}
            return Response(self.page.compressed, headers=headers, media_type="text/html")
        return Response(self.page.html, media_type="text/html")

    async def version(self, request: Request) -> Response:
        """Versions, and the session."""
        name = self.looks.session.facts.get("session_name", "")
        facts = {"version": zray.__version__, "ray_version": zray.__ray_version__, "session_name": name}
        return _json(facts)

    async def stream(self, request: Request) -> Response:
        """A view, and what changes of it."""
        name = request.query_params.get("view", "")
        if name not in all_views.VIEWS:
            raise HTTPException(404, f"There is no view {name[:40]!r}; there are {', '.join(all_views.VIEWS)}.")
        asked, view = asked_of(request), all_views.VIEWS[name]
        try:
            await asyncio.wait_for(self.looks.look(name, view, asked), FIRST_S)
        except ValueError as error:
            raise HTTPException(400, str(error)) from None
        except (ZrayError, OSError, asyncio.TimeoutError):
            pass  # the stream says so, and goes on
        events = self.streams.events(name, view, asked)
        return StreamingResponse(events, media_type="text/event-stream")

    def _once(self, name: str) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            seen = await self._look(name, all_views.VIEWS[name], request)
            shown = {each: table._asdict() for each, table in seen["seen"].tables.items()}
            return _json({"facts": {**seen["seen"].facts, "notes": seen["notes"]}, "tables": shown})

        return answer

    def _list(self, kind: str) -> Callable[[Request], Awaitable[Response]]:
        view: View = all_views.LISTS[kind]

        async def answer(request: Request) -> Response:
            found = await self._look(f"list {kind}", view, request)
            table = found["seen"].tables[kind]
            warning = "  ".join(found["notes"])
            result = {
                "total": found["seen"].facts["total"],
                "num_after_truncation": len(table.rows),
                "num_filtered": table.total,
                "result": table.rows,
                "partial_failure_warning": warning,
                "warnings": None,
            }
            return _json({"result": True, "msg": "", "data": {"result": result}})

        return answer

    def _summary(self, kind: str) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            found = await self._look(f"summary {kind}", all_views.SUMMARIES[kind], request)
            result = {"result": {"node_id_to_summary": found["seen"].facts}, "partial_failure_warning": ""}
            return _json({"result": True, "msg": "", "data": {"result": result}})

        return answer

    async def _look(self, name: str, view: View, request: Request) -> dict[str, Any]:
        try:
            answer = await self.looks.look(name, view, asked_of(request))
        except ValueError as error:
            raise HTTPException(400, str(error)) from None
        except (ZrayError, OSError) as error:
            raise HTTPException(503, str(error)) from None
        return {"seen": answer.seen, "notes": answer.notes}


def asked_of(request: Request) -> Asked:
    """Return what a request asks of a view.

    Raises:
        HTTPException: filters are not whole, or there are too many words.
    """
    words = request.query_params
    if len(words.multi_items()) > WORDS_MAX or any(len(value) > WORD_CHARACTERS_MAX for value in words.values()):
        raise HTTPException(400, f"A request has {WORDS_MAX} words of {WORD_CHARACTERS_MAX} characters at most.")
    keys, signs, values = (words.getlist(name) for name in FILTERS)
    if not len(keys) == len(signs) == len(values):
        raise HTTPException(400, f"{', '.join(FILTERS)} belong together: each filter has one of each.")
    others = {name: value for name, value in words.items() if name not in FILTERS and name != "view"}
    return Asked(others, tuple(zip(keys, signs, values, strict=True)))


def _json(value: Any) -> Response:
    return Response(encoded(value), media_type="application/json")


async def _said(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    body = encoded({"result": False, "msg": error.detail, "data": None})
    return Response(body, error.status_code, media_type="application/json")
