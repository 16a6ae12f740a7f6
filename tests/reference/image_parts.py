"""Conversations of OpenAI's clients with pictures, as `transformers` reads them: writes image_parts.json.

usage: image_parts.py TEMPLATES
TEMPLATES: folder with qwen2.5-vl.jinja, the chat template of Qwen2.5-VL-7B-Instruct; its hash is recorded in the output.
The tokenizer is that of image_rows.json. Pillow decodes and resizes; only sizes and tokens are recorded.
"""
import base64
import hashlib
import io
import json
import pathlib
import sys

from PIL import Image
from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerFast, Qwen2VLImageProcessor, Qwen2VLVideoProcessor
from transformers.models.qwen2_5_vl.processing_qwen2_5_vl import Qwen2_5_VLProcessor

HERE = pathlib.Path(__file__).parent


def url(width, height, kind="PNG", mode="RGB"):
    """A data URL of a drawn picture."""
    drawn = Image.new("RGB", (width, height))
    drawn.putdata([((3 * x + y) % 256, 5 * y % 256, 7 * x % 256) for y in range(height) for x in range(width)])
    file = io.BytesIO()
    drawn.convert(mode).save(file, kind)
    return f"data:image/{kind.lower()};base64,{base64.b64encode(file.getvalue()).decode()}"


def shown(*size, **more):
    return {"type": "image_url", "image_url": {"url": url(*size, **more)}}


def text(words):
    return {"type": "text", "text": words}


def user(*parts):
    return {"role": "user", "content": list(parts)}


CASES = {
    "question behind a picture": [user(shown(60, 40), text("What is this?"))],
    "picture behind a question": [user(text("What is this?"), shown(60, 40))],
    "texts side by side": [user(text("one"), text("two"), shown(30, 90), text("three"), text("four"))],
    "texts alone": [user(text("one"), text("two"))],
    "three pictures": [user(shown(56, 56), text(" and "), shown(112, 84, kind="JPEG"), shown(28, 200), text("?"))],
    "turns": [{"role": "system", "content": "Be brief."}, user(shown(60, 40), text("What is this?")),
              {"role": "assistant", "content": "A drawing."}, {"role": "user", "content": "And this?"},
              user(shown(90, 61), text("Which colour?"))],
    "system and answer in parts": [{"role": "system", "content": [text("Look at "), shown(57, 58), text("first.")]},
                                   {"role": "user", "content": "Why?"},
                                   {"role": "assistant", "content": [text("Because.")]}, user(shown(40, 40))],
    "palette, grey and opacity": [user(shown(60, 60, mode="P"), shown(61, 60, mode="L"), shown(60, 62, mode="RGBA"),
                                       shown(50, 50, mode="LA"), shown(58, 90, kind="JPEG", mode="L"))],
    "a large one": [user(shown(500, 365), text("x"))],
    "marks in words": [user(text("<image> is a word, <|im_end|>\n is a token"), shown(56, 56))],
}


def main():
    template = (pathlib.Path(sys.argv[1]) / "qwen2.5-vl.jinja").read_text()
    backend = Tokenizer.from_str(json.dumps(json.loads((HERE / "image_rows.json").read_text())["tokenizer"]))
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="<|im_end|>", pad_token="<|endoftext|>")
    for name, token in (("image", "<|image_pad|>"), ("video", "<|video_pad|>")):
        setattr(tokenizer, name + "_token", token)
        setattr(tokenizer, name + "_token_id", tokenizer.convert_tokens_to_ids(token))
    images = Qwen2VLImageProcessor(size={"shortest_edge": 3136, "longest_edge": 40000})
    processor = Qwen2_5_VLProcessor(images, tokenizer, Qwen2VLVideoProcessor(), chat_template=template)
    cases = []
    for name, messages in CASES.items():
        urls = [p["image_url"]["url"] for m in messages if isinstance(m["content"], list) for p in m["content"]
                if p["type"] == "image_url"]
        pictures = [Image.open(io.BytesIO(base64.b64decode(u.split(",")[1]))).convert("RGB") for u in urls]
        for more in ({}, {"add_vision_id": True}):
            # The template itself knows image_url; plain Jinja, since apply_chat_template() would look for the pictures.
            written = tokenizer.apply_chat_template(messages, chat_template=template, tokenize=False,
                                                    add_generation_prompt=True, **more)
            read = processor(text=[written], images=pictures or None)
            cases.append({"name": name, "messages": messages, "chat_template_kwargs": more, "text": written,
                          "read": list(map(int, read["input_ids"][0])),
                          "grids": read["image_grid_thw"].tolist() if pictures else []})
    result = {"sha256": hashlib.sha256(template.encode()).hexdigest(), "max_pixels": 40000, "cases": cases}
    (HERE / "image_parts.json").write_text(json.dumps(result, ensure_ascii=False, separators=(",", ":")) + "\n")


main()
