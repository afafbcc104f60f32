"""Every role against every documented route: who lacks the role is refused before anything else is looked at."""

from __future__ import annotations

import re
from collections.abc import Callable

from godwit.server.access import ALLOWS, Role
from tests.server.conftest import ROLES, Running
from tests.server.test_api import declare

Serve = Callable[..., Running]
OPEN = {("GET", "/v1/health"), ("GET", "/v1/ready")}
FEED = {
    ("POST", "/v1/streams/{stream}/rows"),
    ("POST", "/v1/streams/{stream}/clocks"),
    ("PUT", "/v1/devices/{device}"),
    ("POST", "/v1/devices/{device}/detach"),
    ("POST", "/v1/devices/{device}/position"),
    ("POST", "/v1/devices/{device}/close"),
    ("POST", "/v1/devices/{device}/reset-clock"),
    ("POST", "/v1/tables/{table}/rows"),
    ("PUT", "/v1/tables/{table}/rows"),
    ("POST", "/v1/tables/{table}/delete"),
}
OPERATE = {
    ("DELETE", "/v1/devices/{device}"),
    ("POST", "/v1/devices/{device}/handover"),
    ("POST", "/v1/topology"),
    ("POST", "/v1/changes"),
    ("POST", "/v1/placement"),
    ("POST", "/v1/queries"),
    ("PATCH", "/v1/queries/{name}"),
    ("DELETE", "/v1/queries/{name}"),
    ("POST", "/v1/queries/{name}/migrate"),
    ("POST", "/v1/queries/{name}/replan"),
    ("POST", "/v1/queries/{name}/replace"),
    ("POST", "/v1/queries/{name}/verdict"),
    ("POST", "/v1/sources/close"),
    ("POST", "/v1/drain"),
}
ADMIN = {("POST", "/v1/streams"), ("PATCH", "/v1/streams/{stream}"), ("POST", "/v1/tables")}
#: answers that never end
LIVE = {"/v1/queries/{name}/live", "/v1/events"}


def needed(method: str, path: str) -> Role:
    for role, routes in ((Role.FEED, FEED), (Role.OPERATE, OPERATE), (Role.ADMIN, ADMIN)):
        if (method, path) in routes:
            return role
    assert method == "GET" or path == "/v1/explain", f"{method} {path} changes something: say here what it needs"
    return Role.READ


def test_every_role_against_every_route(serve: Serve) -> None:
    server = serve()
    with server.client("admin") as admin:
        declare(admin)
        document = admin.get("/v1/openapi.json").json()
    asked = {(method.upper(), path) for path, told in document["paths"].items() for method in told}
    assert asked >= OPEN | FEED | OPERATE | ADMIN, "a route of these lists is gone"
    tokens = {role: role for role in ROLES} | {"device": "t1", "nobody": None}
    for name, token in tokens.items():
        with server.client(token) as client:
            for method, path in sorted(asked - OPEN):
                need = needed(method, path)
                role = None if token is None else Role.FEED if name == "device" else Role(name)
                may = role is not None and need in ALLOWS[role]
                if may and (path in LIVE or method in ("DELETE", "POST", "PUT")):
                    continue  # (that it works is shown elsewhere; here it would change the fleet)
                place = re.sub(r"\{[^}]*\}", "none-such", path)
                status = client.request(method, place).status_code
                refused = 401 if role is None else 403
                assert (status == refused) == (not may), (name, method, path, status)
                assert status < 500, (name, method, path, status)


def test_a_device_token_does_nothing_for_other_devices(serve: Serve) -> None:
    server = serve()
    with server.client("admin") as admin:
        declare(admin)
        admin.put("/v1/devices/t2", json={"site": "west", "streams": ["passengers"]})
        admin.post("/v1/tables", json={"name": "lines", "columns": "id string", "key": ["id"]})
    with server.client("t1") as device:
        calls = [
            ("PUT", "/v1/devices/t2", {"site": "east"}),
            ("POST", "/v1/devices/t2/detach", None),
            ("POST", "/v1/devices/t2/close", None),
            ("POST", "/v1/devices/t2/reset-clock", None),
            ("POST", "/v1/devices/t2/position", {"lat": 1, "lon": 1}),
            ("POST", "/v1/streams/passengers/clocks", {"clocks": {"t2": 1}}),
            ("POST", "/v1/streams/passengers/rows?device=t2", []),
            ("POST", "/v1/tables/lines/rows", []),
            ("PUT", "/v1/tables/lines/rows", []),
            ("POST", "/v1/tables/lines/delete", {"keys": ["a"]}),
        ]
        for method, path, body in calls:
            assert device.request(method, path, json=body).status_code == 403, (method, path)
        assert device.post("/v1/devices/t1/detach").status_code == 200
