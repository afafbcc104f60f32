"""Which functions a query may call: a list of what is allowed (deterministic Spark built-ins), all else is refused.

User SQL is not trusted. A function missing here is refused even if Spark has it; the refused ones that people do try
are listed with the reason and a remedy.
"""

from __future__ import annotations

from dataclasses import dataclass


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


#: aggregates with an entry in `aggregates.py`, or written otherwise by `collected.py`
AGGREGATES = _words(
    """
    count sum min max avg mean std stddev stddev_samp stddev_pop variance var_samp var_pop approx_count_distinct
    median percentile count_if bool_and bool_or every any some skewness kurtosis corr covar_pop covar_samp
    collect_list collect_set array_agg listagg string_agg percentile_approx approx_percentile percentile_disc mode
    any_value
    regr_avgx regr_avgy regr_count regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy bit_and bit_or bit_xor
    """
)

#: cut time; only in GROUP BY, or compared with each other in a join
WINDOWS = frozenset(("window", "session_window"))
#: cuts rows by their number; only in GROUP BY
COUNT_WINDOW = "count_window"
#: which of several groupings a row is of; only beside ROLLUP, CUBE or GROUPING SETS
GROUPING = frozenset(("grouping", "grouping_id"))
#: make several rows of one; only in LATERAL VIEW, or alone in the SELECT list
GENERATORS = frozenset(("explode", "explode_outer", "posexplode", "posexplode_outer"))
#: only before OVER
RANKING = frozenset(("row_number", "lag", "lead"))
#: only before OVER: within a window that is final, or (row_number) for the first few rows of a key
RANKS = frozenset(("row_number", "rank", "dense_rank"))

SCALAR = _words(
    """
    abs acos acosh asin asinh atan atan2 atanh bin bround cbrt ceil ceiling conv cos cosh cot csc degrees div e exp
    expm1 factorial floor greatest hex hypot least ln log log10 log1p log2 mod negative pi pmod positive pow power
    radians rint round sec sign signum sin sinh sqrt tan tanh try_add try_divide try_mod try_multiply try_subtract
    unhex width_bucket and or not xor equal_null ilike in isnan isnotnull isnull like regexp regexp_like rlike
    between bit_count bit_get getbit shiftleft shiftright shiftrightunsigned add_months convert_timezone date_add
    date_diff date_format date_from_unix_date date_part date_sub date_trunc dateadd datediff datepart day dayname
    dayofmonth dayofweek dayofyear extract from_unixtime from_utc_timestamp hour last_day make_date make_dt_interval
    make_interval make_timestamp make_timestamp_ltz make_timestamp_ntz make_ym_interval minute month monthname
    months_between next_day quarter second timestamp_micros timestamp_millis timestamp_seconds timestampadd
    timestampdiff to_date to_timestamp to_timestamp_ltz to_timestamp_ntz to_unix_timestamp to_utc_timestamp trunc
    try_make_interval try_make_timestamp try_to_date try_to_timestamp unix_date unix_micros unix_millis unix_seconds
    unix_timestamp weekday weekofyear year aggregate array_sort exists filter forall map_filter map_zip_with reduce
    transform transform_keys transform_values zip_with array array_append array_compact array_contains
    array_distinct array_except array_insert array_intersect array_join array_max array_min array_position
    array_prepend array_remove array_repeat array_size array_union arrays_overlap flatten get sequence
    slice sort_array cardinality concat element_at reverse size try_element_at map map_concat map_contains_key
    map_entries map_from_arrays map_from_entries map_keys map_values str_to_map named_struct struct ascii base64
    bit_length btrim char char_length character_length chr concat_ws contains decode elt encode endswith find_in_set
    format_number format_string initcap instr is_valid_utf8 lcase left len length levenshtein locate lower lpad
    ltrim luhn_check make_valid_utf8 mask octet_length overlay position printf quote regexp_count regexp_extract
    regexp_extract_all regexp_instr regexp_replace regexp_substr repeat replace right rpad rtrim sentences soundex
    space split split_part startswith substr substring substring_index to_binary to_char to_number to_varchar
    translate trim try_to_binary try_to_number ucase unbase64 upper case coalesce if ifnull nanvl nullif nullifzero
    nvl nvl2 when zeroifnull bigint binary boolean cast try_cast date decimal double float int smallint string
    timestamp tinyint crc32 hash md5 sha sha1 sha2 xxhash64 from_csv schema_of_csv to_csv from_json get_json_object
    json_array_length json_object_keys schema_of_json to_json parse_url try_parse_url try_url_decode url_decode
    url_encode is_variant_null parse_json schema_of_variant try_parse_json try_variant_get variant_get typeof
    """
)

ALLOWED = SCALAR | AGGREGATES | WINDOWS | {COUNT_WINDOW}


@dataclass(frozen=True)
class Refusal:
    why: str
    remedy: str


_CHANCE = Refusal(
    "gives another answer each time, so a row that is processed again after a crash would change its result",
    "let the source write such a value into its rows, as a column",
)
_NOW = Refusal(
    "depends on when the row is processed, not on the row",
    "use the stream's own time column, window.start / .end, or _arrived: when the row entered the fleet",
)
_WHERE = Refusal("depends on where and by whom the row is processed", "remove it, or add a column to the stream")
_DANGER = Refusal("runs code or reads files on the machine", "remove it: queries work on the columns of streams only")
_KILLS = Refusal("fails the micro-batch that other queries share", "filter such rows out with WHERE")
_ORDER = Refusal("depends on the order in which rows arrive", "use min, max, or max_by(x, ts) for the latest x")
_BEST = Refusal("takes two arguments, and does not go with OVER", "write max_by(x, ts) in a GROUP BY with a window")
_FIRST = Refusal("depends on the order in which rows arrive", "use min_by(x, ts) for the first x, or min, max")
_GROUPING = Refusal("tells groupings apart, and there is one", "write GROUP BY ROLLUP(key), window(ts, '10 seconds')")
_AGGREGATE = Refusal("is an aggregate that godwit does not merge", f"use one of {', '.join(sorted(AGGREGATES))}")
_APPROXIMATE = Refusal("is approximate", "use percentile(x, 0.9), mode(x) or count(DISTINCT x): they are exact")
_GENERATOR = Refusal("makes rows whose columns nobody knows", "use LATERAL VIEW explode(column) t AS item")
_RANKING = Refusal(
    "ranks rows over an unbounded order", "use row_number, rank or dense_rank, or percentile in a window"
)
_OVER = Refusal("needs OVER", "write OVER (PARTITION BY key ORDER BY ts) after it")
_CUMULATE = Refusal("has windows of many lengths", "use a hopping window, or one tumbling window for each length")
_SESSION_TIME = Refusal("reads a window struct", "use window.end (or window.start) as the time of a nested window")
_MANY = Refusal("is not on godwit's list of checked functions", "compute it before the rows enter the stream")

_REFUSED: dict[Refusal, str] = {
    _CHANCE: """rand randn random uniform randstr uuid shuffle monotonically_increasing_id aes_encrypt""",
    _NOW: """now current_timestamp current_date curdate current_time localtime localtimestamp""",
    _WHERE: """spark_partition_id current_user user session_user current_catalog current_database current_schema
        current_timezone current_path version""",
    _DANGER: """reflect java_method try_reflect input_file_name input_file_block_start input_file_block_length
        from_protobuf to_protobuf from_avro to_avro schema_of_avro xpath xpath_boolean
        xpath_double xpath_float xpath_int xpath_long xpath_number xpath_short xpath_string from_xml schema_of_xml""",
    _KILLS: "raise_error assert_true",
    _ORDER: "last last_value nth_value",
    _FIRST: "first first_value",
    _BEST: "max_by min_by",
    _APPROXIMATE: "approx_top_k count_min_sketch hll_sketch_agg histogram_numeric",
    _GROUPING: "grouping grouping_id",
    _AGGREGATE: "try_sum try_avg percentile_cont",
    _GENERATOR: """inline inline_outer stack json_tuple
        variant_explode variant_explode_outer collations sql_keywords""",
    _RANKING: "percent_rank cume_dist ntile counter_diff",
    _OVER: "row_number lag lead rank dense_rank",
    _SESSION_TIME: "window_time",
    _CUMULATE: "cumulate",
    _MANY: "arrays_zip aes_decrypt try_aes_decrypt hmac collate collation time_bucket to_xml",
}

REFUSED: dict[str, Refusal] = {name: why for why, names in _REFUSED.items() for name in names.split()}
