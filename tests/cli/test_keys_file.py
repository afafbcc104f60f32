"""Keys from files: every format has the same keys, and what cannot be read is refused with a remedy."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet
import pytest

from godwit.api.key_names import as_keys, in_words
from godwit.cli.keys_file import keys_of
from godwit.cli.migrate import named_keys
from godwit.errors import ConfigError

KEYS = pa.table({"car": ["007", "b", "c"], "lane": [1, 2, None]})


def test_every_format_has_the_same_keys(tmp_path: Path) -> None:
    pyarrow.parquet.write_table(KEYS, tmp_path / "k.parquet")
    pyarrow.feather.write_feather(KEYS, tmp_path / "k.arrow")
    (tmp_path / "k.csv").write_text("car,lane\n007,1\nb,2\n")
    (tmp_path / "k.txt").write_text("007/1\n\nb/2\n")
    assert (
        as_keys(keys_of(tmp_path / "k.parquet")) == as_keys(keys_of(tmp_path / "k.arrow")) == ("007/1", "b/2", "c/\\N")
    )
    assert as_keys(keys_of(tmp_path / "k.csv")) == as_keys(keys_of(tmp_path / "k.txt")) == ("007/1", "b/2")
    assert named_keys(None, tmp_path / "k.txt") == ("007/1", "b/2")


def test_a_column_and_a_list_are_the_same() -> None:
    assert as_keys(pa.array([1, 2])) == as_keys(pa.chunked_array([["1"], ["2"]])) == as_keys([1, 2]) == ("1", "2")
    assert in_words([str(n) for n in range(1000)]) == "0, 1, 2, 3, 4 and 995 more"


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("none.txt", None, "there is no file"),
        ("empty.txt", "\n", "has no keys"),
        ("bad.parquet", "x", "cannot be read"),
    ],
)
def test_what_cannot_be_read_is_refused(tmp_path: Path, name: str, text: str | None, says: str) -> None:
    if text is not None:
        (tmp_path / name).write_text(text)
    with pytest.raises(ConfigError, match=says):
        keys_of(tmp_path / name)


def test_keys_are_named_in_one_way() -> None:
    assert named_keys(["buckets/0/32"], None) == ("buckets", "0", "32")
    for keys, file in ((None, None), (["a"], Path("b.txt"))):
        with pytest.raises(ConfigError, match="say which keys"):
            named_keys(keys, file)
