"""Tokens, roles and limits: pure."""

from __future__ import annotations

from pathlib import Path

import pytest

from godwit.errors import ConfigError
from godwit.server.access import ALLOWS, Access, Caller, Role, Token, digest_of, load_tokens, new_token
from godwit.server.limits import RateLimiter


def test_a_role_may_do_what_the_table_says_and_nothing_else() -> None:
    for role in Role:
        caller = Caller("x", role)
        for need in Role:
            assert (caller.refusal(need) is None) == (need in ALLOWS[role])


def test_a_token_is_found_by_its_digest_only() -> None:
    secret = new_token()
    access = Access([Token(name="a", sha256=digest_of(secret), role=Role.READ)])
    found = access.caller(secret)
    assert found is not None
    assert (found.name, found.role) == ("a", Role.READ)
    assert access.caller(digest_of(secret)) is None
    assert access.caller(None) is None
    assert access.caller("") is None


def test_without_tokens_everybody_may_do_everything() -> None:
    assert Access().open
    assert Access().caller(None) == Caller("anybody", Role.ADMIN)


def test_a_device_token_feeds_its_device_and_its_streams_only() -> None:
    caller = Caller("t1", Role.FEED, ("passengers",), "t1")
    assert caller.feeding_refusal("passengers", "t1") is None
    assert "t2" not in (caller.feeding_refusal("passengers", "t2") or "t2")
    assert caller.feeding_refusal("passengers", None) is not None
    assert caller.feeding_refusal("doors", "t1") is not None


def test_a_feeder_attaches_its_own_device_only() -> None:
    assert Caller("t1", Role.FEED, None, "t1").attaching_refusal("t1") is None
    assert Caller("t1", Role.FEED, None, "t1").attaching_refusal("t2") is not None
    assert Caller("feeder", Role.FEED).attaching_refusal("t1") is not None
    assert Caller("operator", Role.OPERATE).attaching_refusal("t1") is None


def test_tokens_come_from_a_file_and_the_environment(tmp_path: Path) -> None:
    file = tmp_path / "tokens.yaml"
    file.write_text(f"tokens:\n  - {{name: a, role: read, sha256: {digest_of('one')}}}\n")
    access = load_tokens(file, {"GODWIT_TOKENS": "b:operate:two, c:feed:th:ree"})
    assert [getattr(access.caller(t), "name", None) for t in ("one", "two", "th:ree", "four")] == ["a", "b", "c", None]


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("tokens: [{name: a, role: king, sha256: %s}]" % ("a" * 64), r"tokens\[0\].role"),
        ("tokens: [{name: a, role: read, sha256: secret}]", r"tokens\[0\].sha256"),
        ("tokens: [{name: a, role: read, sha256: %s, admin: yes}]" % ("a" * 64), r"tokens\[0\].admin"),
        ("nothing", "top level"),
        ("a: [", "not YAML"),
    ],
)
def test_a_bad_file_of_tokens_is_refused_with_the_place(tmp_path: Path, text: str, place: str) -> None:
    file = tmp_path / "tokens.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=place) as fault:
        load_tokens(file, {})
    assert "secret" not in str(fault.value), "a token that stands where its digest should be is not shown"


def test_a_bad_environment_does_not_show_the_token() -> None:
    with pytest.raises(ConfigError, match="name:role:token") as fault:
        load_tokens(None, {"GODWIT_TOKENS": "b:king:secret"})
    assert "secret" not in str(fault.value)


def test_two_tokens_of_one_name_are_refused() -> None:
    with pytest.raises(ConfigError, match="one name"):
        load_tokens(None, {"GODWIT_TOKENS": "b:read:1,b:read:2"})


def test_a_caller_gets_its_burst_then_its_rate() -> None:
    limiter = RateLimiter(rate=10, burst=3)
    assert [limiter.wait("a", 0.0) for _ in range(3)] == [0, 0, 0]
    assert limiter.wait("a", 0.0) == pytest.approx(0.1)
    assert limiter.wait("b", 0.0) == 0
    assert limiter.wait("a", 0.1) == 0
    assert limiter.wait("a", 0.1) > 0
