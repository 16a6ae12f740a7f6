"""Rows with pictures: what transformers' Qwen2.5-VL processor makes of them, in files that datasets and pyarrow wrote.

usage: image_rows.py TEMPLATES   (the folder that text_chat.py takes, with qwen2.5-vl.jinja; needs images.txt and
       pyarrow, datasets, tokenizers)

Writes next to itself
  image_rows.parquet        the rows, images by the image feature of datasets
  image_rows_plain.parquet  the same, images as list<struct<bytes, path>> of pyarrow alone
  image_rows.jsonl          the same, bytes in base64
  geo3k_{train,test}.parquet  three problems in the columns of hiyouga/geometry3k
  image_rows.json           tokenizer (that of sft_mask.json and the tokens of pictures), hash of the template, and for
                            each row its text, its tokens with one place for each picture, and as the model reads them
  ... and supervised conversations with the tokens that the assistant wrote, those of pictures left out
Contents are cut at <image> as verl's data set does; of `stripped`, as OpenRLHF's does.
"""
import base64
import hashlib
import io
import json
import pathlib
import re
import sys

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image, ImageDraw
from transformers import PreTrainedTokenizerFast
from transformers.models.qwen2_5_vl.processing_qwen2_5_vl import Qwen2_5_VLProcessor
from transformers.models.qwen2_vl.image_processing_qwen2_vl import Qwen2VLImageProcessor
from transformers.models.qwen2_vl.video_processing_qwen2_vl import Qwen2VLVideoProcessor
from tokenizers import Tokenizer

HERE = pathlib.Path(__file__).resolve().parent
TOKENS = ["<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>"]


def picture(width, height, format="PNG", mode="RGB"):
    drawn = Image.new(mode, (width, height), {"RGB": (250, 250, 245), "L": 240, "RGBA": (9, 99, 200, 128)}[mode])
    ImageDraw.Draw(drawn).polygon([(2, height - 3), (width - 3, height - 3), (width // 3, 2)], outline=0, width=2)
    out = io.BytesIO()
    drawn.save(out, format)
    return out.getvalue()


def user(text):
    return {"role": "user", "content": text}


ROWS = [
    ("one", [user("<image>Find x.")], [("a.png", picture(120, 90))]),
    ("two", [{"role": "system", "content": "Be brief."}, user("<image> and <image>\nWhich is larger?")],
     [("b.png", picture(300, 200, mode="RGBA")), ("c.jpg", picture(64, 190, "JPEG"))]),
    ("none", [user("What is 2+2?")], []),
    ("turns", [user("<image><image>"), {"role": "assistant", "content": "A line."}, user("And \u6c34 here? <image>")],
     [("d.png", picture(28, 28)), ("e.png", picture(57, 430, mode="L")), (None, picture(99, 101, "JPEG", "L"))]),
    ("small", [user("Tiny:  <image>  ?")], [("f.png", picture(9, 11))]),
]


def cut(content, strip=False):
    if "<image>" not in content:
        return content
    parts = []
    for piece in re.split("(<image>)", content):
        text = piece.strip() if strip else piece
        if piece == "<image>":
            parts.append({"type": "image"})
        elif text:
            parts.append({"type": "text", "text": text})
    return parts


SUPERVISED = [
    ([user("<image>Find x."), {"role": "assistant", "content": "x is 3."}], [picture(120, 90)]),
    ([{"role": "system", "content": "Draw."}, user("A house, like <image>"), {"role": "assistant", "content": "Here: <image> and <image>."},
      user("Smaller"), {"role": "assistant", "content": "No."}], [picture(60, 60), picture(33, 140), picture(90, 70, "JPEG")]),
    ([user("What is 2+2?"), {"role": "assistant", "content": "4"}], []),
]


def written(ids, tokenizer, pad):
    """1 for what follows an opened turn of the assistant, up to its end mark, but for pictures."""
    start, end = (tokenizer.convert_tokens_to_ids(t) for t in ("<|im_start|>", "<|im_end|>"))
    header, marks, inside = tokenizer("assistant\n")["input_ids"], [0] * len(ids), False
    for i, token in enumerate(ids):
        inside = inside or (i > len(header) and ids[i - len(header):i] == header and ids[i - len(header) - 1] == start)
        marks[i] = int(inside and token != pad)
        inside = inside and token != end
    return marks


def main():
    template = (pathlib.Path(sys.argv[1]) / "qwen2.5-vl.jinja").read_text()
    backend = Tokenizer.from_str(json.dumps(json.loads((HERE / "sft_mask.json").read_text())["tokenizer"]))
    backend.add_special_tokens(TOKENS)
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="<|im_end|>", pad_token="<|endoftext|>")
    for name, token in (("image", "<|image_pad|>"), ("video", "<|video_pad|>")):
        setattr(tokenizer, name + "_token", token)
        setattr(tokenizer, name + "_token_id", tokenizer.convert_tokens_to_ids(token))
    images = Qwen2VLImageProcessor(size={"shortest_edge": 3136, "longest_edge": 40000})
    processor = Qwen2_5_VLProcessor(images, tokenizer, Qwen2VLVideoProcessor(), chat_template=template)

    def rendered(messages, files, strip):
        parted = [{**m, "content": cut(m["content"], strip)} for m in messages]
        text = processor.apply_chat_template(parted, add_generation_prompt=True, tokenize=False)
        pictures = [Image.open(io.BytesIO(data)).convert("RGB") for _, data in files]
        read = processor(text=[text], images=pictures or None)
        grids = read["image_grid_thw"].tolist() if files else []
        return {"text": text, "ids": tokenizer(text)["input_ids"], "read": list(map(int, read["input_ids"][0])), "grids": grids}

    def supervised(messages, files):
        parted = [{**m, "content": cut(m["content"])} for m in messages]
        text = processor.apply_chat_template(parted, tokenize=False)
        read = processor(text=[text], images=[Image.open(io.BytesIO(d)).convert("RGB") for d in files] or None)
        ids = list(map(int, read["input_ids"][0]))
        return {"messages": messages, "images": [{"bytes": base64.b64encode(d).decode()} for d in files], "ids": ids,
                "written": written(ids, tokenizer, tokenizer.image_token_id)}

    rows, golden = [], []
    for i, (name, messages, files) in enumerate(ROWS):
        rows.append({"data_source": "hiyouga/geometry3k", "prompt": messages,
                     "images": [{"bytes": data, "path": path} for path, data in files], "ability": "math",
                     "reward_model": {"style": "rule", "ground_truth": str(i)}, "extra_info": {"index": i}})
        golden.append({"name": name, "sizes": [list(Image.open(io.BytesIO(d)).size[::-1]) for _, d in files],
                       **rendered(messages, files, False), "stripped": rendered(messages, files, True)["ids"]})
    message = {"role": datasets.Value("string"), "content": datasets.Value("string")}
    features = datasets.Features({
        "data_source": datasets.Value("string"), "prompt": [message], "images": datasets.Sequence(datasets.Image()),
        "ability": datasets.Value("string"),
        "reward_model": {"style": datasets.Value("string"), "ground_truth": datasets.Value("string")},
        "extra_info": {"index": datasets.Value("int64")}})
    datasets.Dataset.from_list(rows, features=features).to_parquet(HERE / "image_rows.parquet")
    pq.write_table(pa.Table.from_pylist(rows), HERE / "image_rows_plain.parquet")
    hub = datasets.Features({"images": datasets.Sequence(datasets.Image()), "problem": datasets.Value("string"),
                             "answer": datasets.Value("string")})
    problems = [("<image>Find x.", "3"), ("<image>Find the area.\nRound.", "2 \\sqrt { 221 }"), ("<image>Find y.", "60")]
    for split, chosen in (("train", (0, 1)), ("test", (2,))):
        table = [{"images": [{"bytes": picture(40 + 9 * i, 50), "path": None}], "problem": problems[i][0],
                  "answer": problems[i][1]} for i in chosen]
        datasets.Dataset.from_list(table, features=hub).to_parquet(HERE / f"geo3k_{split}.parquet")
    lines = [json.dumps({**r, "images": [{**i, "bytes": base64.b64encode(i["bytes"]).decode()} for i in r["images"]]},
                        ensure_ascii=False, separators=(",", ":")) for r in rows]
    (HERE / "image_rows.jsonl").write_text("\n".join(lines) + "\n")
    (HERE / "image_rows.json").write_text(json.dumps(
        {"sha256": hashlib.sha256(template.encode()).hexdigest(), "tokenizer": json.loads(backend.to_str()),
         "max_pixels": 40000, "rows": golden, "supervised": [supervised(*s) for s in SUPERVISED]}, ensure_ascii=False) + "\n")


main()
