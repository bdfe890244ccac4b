# SPDX-License-Identifier: Apache-2.0
"""The dashboard: a web page whose files all come from this server."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fastapi import APIRouter, Request
from fastapi.responses import Response
from starlette.exceptions import HTTPException

from ltp_switcher import palette

FOLDER: Final = Path(__file__).parents[1] / "dashboard"
_TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
HEADERS: Final = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    # A new version shows at once. The entity tag saves the transfer of an unchanged file.
    "cache-control": "no-cache",
}

# No route here waits for anything, so none needs a thread. The page loads while other requests wait for the
# daemon.
router = APIRouter(include_in_schema=False)


@dataclass(frozen=True, slots=True)
class _File:
    content: bytes
    media_type: str
    etag: str


def _load() -> dict[str, _File]:
    """The files by their path below the folder. Only these can be asked for, whatever the path."""
    contents = {
        path.relative_to(FOLDER).as_posix(): path.read_bytes()
        for path in sorted(FOLDER.rglob("*"))
        if path.suffix in _TYPES
    }
    contents["palette.css"] = palette.style_sheet().encode()
    return {
        name: _File(content, _TYPES[Path(name).suffix], f'"{hashlib.sha256(content).hexdigest()[:32]}"')
        for name, content in contents.items()
    }


_FILES: Final = _load()


@router.get("/")
async def get_dashboard(request: Request) -> Response:
    """The dashboard's page."""
    return _answer(request, _FILES["index.html"])


@router.get("/dashboard/{name:path}")
async def get_dashboard_file(request: Request, name: str) -> Response:
    """A file that the dashboard's page loads."""
    if name not in _FILES:
        raise HTTPException(404)
    return _answer(request, _FILES[name])


def _answer(request: Request, file: _File) -> Response:
    headers = {**HEADERS, "etag": file.etag, "content-type": file.media_type}
    if request.headers.get("if-none-match") == file.etag:
        return Response(status_code=304, headers=headers)
    return Response(file.content, headers=headers)
