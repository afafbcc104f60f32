"""A mistyped key in a file or a request body is named, with the nearest key that exists."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from godwit.model.topology_file import _File
from godwit.server import bodies
from godwit.validation import worded

BODIES = sorted(bodies.RequestBody.__subclasses__(), key=lambda kind: kind.__name__)


def faults(model: type, content: object) -> list[str]:
    with pytest.raises(ValidationError) as caught:
        model.model_validate(content)  # type: ignore[attr-defined]
    return worded(caught.value.errors(), model)


@pytest.mark.parametrize("body", BODIES, ids=lambda body: body.__name__)
def test_every_request_body_names_the_mistyped_key_first(body: type[bodies.RequestBody]) -> None:
    for key in body.model_fields:
        assert faults(body, {f"{key}z": 1})[0] == f"{key}z: there is no such key; did you mean '{key}'?"


def test_keys_are_those_of_the_place_where_the_fault_is() -> None:
    found = faults(_File, {"sites": [{"id": "a", "regoin": "r"}], "links": [{"from": "a", "two": "b"}]})
    assert found == [
        "sites[0].regoin: there is no such key; did you mean 'region'?",
        "links[0].two: there is no such key; did you mean 'to'?",
        "links[0].to: is missing; add it",
    ]


def test_a_key_like_no_other_lists_those_that_exist() -> None:
    assert faults(bodies.NewColumns, {"add": "x int", "zzz": 1}) == ["zzz: there is no such key; there are add"]


def test_a_long_value_is_shortened() -> None:
    (found,) = faults(bodies.NewColumns, {"add": ["x" * 1000]})
    assert found.startswith("add: Input should be a valid string (it is ['xxx")
    assert len(found) < 140


def test_text_that_is_not_json() -> None:
    error = {"type": "json_invalid", "loc": ("body", 1), "msg": "JSON decode error", "input": {}}
    assert worded([{**error, "ctx": {"error": "Expecting value"}}], None) == ["body[1]: not JSON: Expecting value"]


def test_a_value_where_keys_or_a_list_belong() -> None:
    assert faults(_File, {"sites": 3}) == ["sites: is not a list: write - items, or [..] (it is 3)"]
    assert faults(_File, {"sites": ["west"]}) == ["sites[0]: has no keys: write key: value, or {..} (it is 'west')"]
