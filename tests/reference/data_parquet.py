"""Golden Parquet files of tests/data, made by pyarrow (requirements.txt beside this file).

Writes next to itself data_nested_{snappy,zstd}.parquet and data_nested.json, the same rows as JSON; data_types.parquet has a
column of each type that JSON lacks.
"""
import datetime
import decimal
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

here = Path(__file__).resolve().parent
rows = []
for i in range(300):
    rows.append({
        "data_source": "openai/gsm8k",  # one value: a dictionary page
        "prompt": [{"content": f"What is {i} + {i}? \u00e9\u6c34", "role": "user"}] if i % 7 else
                  [{"content": "Be brief.", "role": "system"}, {"content": f"{i}?", "role": "user"}],
        "ability": None if i % 11 == 0 else "math",
        "reward_model": {"ground_truth": str(2 * i), "style": "rule"},
        "extra_info": {"answer": f"{i}+{i}\n#### {2 * i}", "index": i, "split": "train"},
        "weight": None if i % 5 == 0 else i / 8,
        "flag": i % 2 == 0,
        "tags": None if i % 13 == 0 else ["x"] * (i % 3),
        "nothing": None,
    })
schema = pa.schema([
    ("data_source", pa.string()),
    ("prompt", pa.list_(pa.struct([("content", pa.string()), ("role", pa.string())]))),
    ("ability", pa.large_string()),
    ("reward_model", pa.struct([("ground_truth", pa.string()), ("style", pa.string())])),
    ("extra_info", pa.struct([("answer", pa.string()), ("index", pa.int64()), ("split", pa.string())])),
    ("weight", pa.float32()),
    ("flag", pa.bool_()),
    ("tags", pa.list_(pa.dictionary(pa.int32(), pa.string()))),
    ("nothing", pa.null()),
])
table = pa.Table.from_pylist(rows, schema=schema)
pq.write_table(table, here / "data_nested_snappy.parquet", row_group_size=100)
pq.write_table(table, here / "data_nested_zstd.parquet", compression="zstd", data_page_size=2048, data_page_version="2.0")
(here / "data_nested.json").write_text(json.dumps(rows, ensure_ascii=False) + "\n")
day = datetime.date(2026, 1, 2)
pq.write_table(pa.table({
    "when": pa.array([datetime.datetime(2026, 1, 2, 3, 4, 5)]),
    "day": pa.array([day]),
    "price": pa.array([decimal.Decimal("1.50")]),
    "half": pa.array([1.5], pa.float16()),
    "map": pa.array([[("a", 1), ("b", None)]], pa.map_(pa.string(), pa.int64())),
    "pairs": pa.array([[(1, "x")]], pa.map_(pa.int64(), pa.string())),
    "nested": pa.array([[{"at": day}]]),
    "json": pa.ExtensionArray.from_storage(pa.json_(), pa.array(['{"a": [1]}'])),
}), here / "data_types.parquet")
