"""Pictures as Pillow, torchvision and transformers read, resize and cut them (images.txt beside this file).

Writes next to itself image.json:
  resize   pictures drawn by draw() below in other sizes: CRC-32 of the bytes, by torchvision and by Pillow
  patches  the same through Qwen2VLImageProcessor and its Pillow twin: grid and CRC-32 of pixel_values (float32)
  sizes    smart_resize of transformers and of qwen-vl-utils ([height, width], null for an error)
  files    PNG, JPEG and WebP files of every kind (base64) with size and CRC-32 of Pillow's convert("RGB"), and what
           qwen-vl-utils makes of them
"""
import base64
import io
import json
import math
import random
import zlib
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from qwen_vl_utils.vision_process import smart_resize as utils_smart_resize, to_rgb
from torchvision.transforms.v2 import InterpolationMode, functional as F
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil
from transformers.models.qwen2_vl.image_processing_qwen2_vl import Qwen2VLImageProcessor, smart_resize

here = Path(__file__).resolve().parent
rng = random.Random(20261123)


def draw(kind, seed, height, width):
    """A picture that tests/image/drawn.hpp draws too: uint8 [height, width, 3]."""
    y, x, c = np.meshgrid(np.arange(height, dtype=np.uint64), np.arange(width, dtype=np.uint64),
                          np.arange(3, dtype=np.uint64), indexing="ij")
    if kind == 1:  # smooth
        return ((y * 3 + x * 2 + c * 40 + seed) // 2 % 256).astype(np.uint8)
    mixed = (((y * width + x) * 3 + c) * np.uint64(2654435761) + np.uint64(seed * 40503)) & np.uint64(0xFFFFFFFF)
    mixed = ((mixed ^ (mixed >> np.uint64(15))) * np.uint64(2246822519)) & np.uint64(0xFFFFFFFF)
    noise = mixed >> np.uint64(24)
    return (noise if kind == 0 else noise // 128 * 255).astype(np.uint8)  # noise, or two levels


def crc(array):
    return zlib.crc32(np.ascontiguousarray(array).tobytes())


def resized():
    cases = [(365, 500, 364, 504), (4, 4, 3, 6), (8, 8, 3, 3), (900, 50, 112, 28), (1, 1, 28, 28), (2, 300, 28, 28)]
    while len(cases) < 90:
        cases.append(tuple(int(math.exp(rng.uniform(0, math.log(400)))) for _ in range(4)))
    for i, (h, w, to_h, to_w) in enumerate(cases):
        picture = draw(i % 3, i, h, w)
        tensor = torch.from_numpy(picture).permute(2, 0, 1)
        vision = F.resize(tensor, [to_h, to_w], InterpolationMode.BICUBIC, antialias=True).permute(1, 2, 0).numpy()
        pillow = np.asarray(Image.fromarray(picture).resize((to_w, to_h), Image.Resampling.BICUBIC))
        yield [i % 3, i, h, w, to_h, to_w, crc(vision), crc(pillow)]


def processed():
    limits = {"size": {"shortest_edge": 3136, "longest_edge": 78400}}
    vision, pillow = Qwen2VLImageProcessor(**limits), Qwen2VLImageProcessorPil(**limits)
    for i in range(500):
        h, w = (int(math.exp(rng.uniform(math.log(8), math.log(700)))) for _ in range(2))
        picture = Image.fromarray(draw(i % 3, i, h, w))
        got = [p(images=[picture], return_tensors="np") for p in (vision, pillow)]
        grid = got[0]["image_grid_thw"][0].tolist()
        assert grid == got[1]["image_grid_thw"][0].tolist()
        yield [i % 3, i, h, w, grid, *(crc(np.asarray(g["pixel_values"], np.float32)) for g in got)]


def one_size(function, h, w, low, high):
    try:
        return list(function(h, w, 28, low, high))
    except ValueError:
        return None


def sizes():
    cases = [(28, 28), (14, 14), (10, 10), (55, 57), (42, 70), (70, 42), (98, 126), (13, 200), (14, 2800), (1, 200),
             (7, 1400), (84, 1), (365, 500), (1080, 1920), (3000, 4000), (1, 201)]
    while len(cases) < 2000:
        cases.append(tuple(int(math.exp(rng.uniform(0, math.log(6000)))) for _ in range(2)))
    for i, (h, w) in enumerate(cases):
        low, high = [(3136, 1003520), (3136, 12845056), (784, 78400)][i % 3 if i >= 16 else 0]
        yield [h, w, low, high, one_size(smart_resize, h, w, low, high), one_size(utils_smart_resize, h, w, low, high)]


def files():
    def saved(image, form, **options):
        out = io.BytesIO()
        image.save(out, form, **options)
        return out.getvalue()

    colours = Image.fromarray(draw(0, 1, 13, 17))
    smooth = Image.fromarray(draw(1, 2, 40, 37))
    busy = Image.fromarray(draw(0, 7, 21, 30))
    opacity = Image.fromarray(draw(0, 3, 13, 17)[..., 0])
    with_alpha = colours.copy()
    with_alpha.putalpha(opacity)
    palette = smooth.convert("P", palette=Image.Palette.ADAPTIVE, colors=40)
    yield "rgb.png", saved(colours, "PNG")
    yield "rgba.png", saved(with_alpha, "PNG")
    yield "grey.png", saved(smooth.convert("L"), "PNG")
    yield "grey_alpha.png", saved(with_alpha.convert("LA"), "PNG")
    yield "one_bit.png", saved(colours.convert("1"), "PNG")
    for bits in (1, 2, 4, 8):
        few = smooth.convert("P", palette=Image.Palette.ADAPTIVE, colors=2**bits if bits < 8 else 200)
        yield f"palette_{bits}.png", saved(few, "PNG", bits=bits)
    yield "palette_transparent.png", saved(palette, "PNG", transparency=3)
    yield "palette_transparencies.png", saved(palette, "PNG", transparency=bytes(range(0, 200, 5)))
    yield "grey_transparent.png", saved(smooth.convert("L"), "PNG", transparency=77)
    yield "rgb_transparent.png", saved(colours, "PNG", transparency=(1, 2, 3))
    yield "dpi_and_text.png", saved(colours, "PNG", dpi=(300, 300))
    yield "one_pixel.png", saved(Image.new("RGB", (1, 1), (9, 8, 7)), "PNG")
    gamma = saved(colours, "PNG")
    chunk = b"gAMA" + (30000).to_bytes(4, "big")
    chunk = (4).to_bytes(4, "big") + chunk + zlib.crc32(chunk).to_bytes(4, "big")
    yield "gamma.png", gamma[:33] + chunk + gamma[33:]
    yield "interlaced.png", interlaced(draw(0, 5, 11, 19))
    for name, options in {"444": {"subsampling": 0}, "422": {"subsampling": 1}, "420": {"subsampling": 2},
                          "progressive": {"progressive": True}, "optimised": {"optimize": True, "quality": 30},
                          "restart": {"restart_marker_rows": 1}}.items():
        yield f"{name}.jpeg", saved(busy, "JPEG", **options)
    yield "noise.jpeg", saved(colours, "JPEG", quality=95)
    yield "grey.jpeg", saved(smooth.convert("L"), "JPEG")
    turned = Image.Exif()
    turned[0x0112] = 6
    yield "turned.jpeg", saved(smooth, "JPEG", exif=turned)
    yield "extraneous.jpeg", saved(smooth, "JPEG") + b"behind the end"
    yield "picture.webp", saved(colours, "WEBP")
    yield "lossless.webp", saved(busy, "WEBP", lossless=True)
    yield "rgba.webp", saved(with_alpha, "WEBP")
    yield "lossless_rgba.webp", saved(with_alpha, "WEBP", lossless=True, exact=True)
    yield "smooth.webp", saved(smooth, "WEBP", quality=40)
    yield "turned.webp", saved(smooth, "WEBP", exif=turned)
    # What is refused.
    yield "cmyk.jpeg", saved(smooth.convert("CMYK"), "JPEG")
    yield "deep_grey.png", saved(Image.fromarray((draw(0, 6, 5, 6)[..., 0].astype(np.uint16) * 257)), "PNG")
    yield "animated.png", saved(colours, "PNG", save_all=True, append_images=[with_alpha.convert("RGB").rotate(90)])
    yield "picture.gif", saved(palette, "GIF")
    yield "picture.bmp", saved(colours, "BMP")
    yield "picture.tiff", saved(colours, "TIFF")
    yield "animated.webp", saved(colours, "WEBP", save_all=True, append_images=[with_alpha.convert("RGB").rotate(90)])
    yield "cut.webp", saved(busy, "WEBP", lossless=True)[:-60]
    yield "cut.png", saved(colours, "PNG")[:-60]
    yield "cut.jpeg", saved(smooth, "JPEG")[:-200]


def interlaced(picture):
    """An Adam7 PNG, which Pillow reads but does not write."""
    height, width, _ = picture.shape
    data = b""
    for y0, x0, dy, dx in [(0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2), (1, 0, 2, 1)]:
        part = picture[y0::dy, x0::dx]
        if part.size:
            data += b"".join(b"\0" + row.tobytes() for row in part)

    def chunk(name, body):
        return len(body).to_bytes(4, "big") + name + body + zlib.crc32(name + body).to_bytes(4, "big")

    head = width.to_bytes(4, "big") + height.to_bytes(4, "big") + bytes([8, 2, 0, 0, 1])
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(data)) + chunk(b"IEND", b"")


def read(content):
    """Pillow's size and CRC-32, and the CRC-32 of what qwen-vl-utils makes of it; null where Pillow refuses."""
    try:
        image = Image.open(io.BytesIO(content))
        rgb = np.asarray(image.convert("RGB"))
    except OSError:
        return None
    return [rgb.shape[0], rgb.shape[1], crc(rgb), crc(np.asarray(to_rgb(Image.open(io.BytesIO(content)))))]


def rows(values):
    return "[\n" + ",\n".join(json.dumps(v) for v in values) + "\n]"


parts = {"resize": list(resized()), "patches": list(processed()), "sizes": list(sizes()),
         "files": [[name, base64.b64encode(content).decode(), read(content)] for name, content in files()]}
(here / "image.json").write_text("{\n" + ",\n".join(f"{json.dumps(k)}: {rows(v)}" for k, v in parts.items()) + "\n}\n")
