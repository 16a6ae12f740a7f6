"""The images of speed_bench's item images by Pillow and torchvision.

    build/bin/speed_bench folder images build/speed/images
    python bench/peers/torch_images.py images --folder build/speed/images [--tuned] [--quick] [--only TEXT]

"torch default": Pillow decodes, and the image processor of transformers, which runs torchvision, makes the patches.
"torch tuned": Pillow decodes, torchvision resizes, and one expression normalises and cuts, without what the processor does
besides.
"""

import io
import math
import os

import numpy as np
import torch
from PIL import Image
from torchvision.transforms.v2 import InterpolationMode
from torchvision.transforms.v2 import functional as F
from transformers import Qwen2VLImageProcessor
from transformers.models.qwen2_vl.image_processing_qwen2_vl import smart_resize

from common import arguments, best_seconds, line, wants

options = arguments(["images"], folder={"required": True})
torch.set_num_threads(options.threads)
processor = Qwen2VLImageProcessor()
mean = torch.tensor(processor.image_mean).reshape(3, 1, 1) * 255
deviation = torch.tensor(processor.image_std).reshape(3, 1, 1) * 255


def decoded(content):
    return Image.open(io.BytesIO(content)).convert("RGB")


def by_transformers(content):
    return processor(images=[decoded(content)], return_tensors="pt")["pixel_values"]


def by_hand(content):
    image = torch.from_numpy(np.array(decoded(content))).permute(2, 0, 1)
    height, width = smart_resize(image.shape[1], image.shape[2], 28, 3136, 1003520)
    resized = F.resize(image, [height, width], InterpolationMode.BICUBIC, antialias=True)
    values = (resized.float() - mean) / deviation
    h, w = height // 14, width // 14
    cut = values.reshape(3, h // 2, 2, 14, w // 2, 2, 14).permute(1, 4, 2, 5, 0, 3, 6)
    return cut.unsqueeze(5).expand(-1, -1, -1, -1, -1, 2, -1, -1).reshape(h * w, 1176)


for name in sorted(os.listdir(options.folder)):
    if not wants(options, name):
        continue
    with open(os.path.join(options.folder, name), "rb") as f:
        content = f.read()
    own, theirs = by_hand(content), by_transformers(content)
    assert own.shape == theirs.shape and math.isclose(float((own - theirs).abs().max()), 0, abs_tol=1e-6)
    work = (lambda: by_hand(content)) if options.tuned else (lambda: by_transformers(content))
    line(options, "torch tuned" if options.tuned else "torch default", name, best_seconds(work, 2 * options.budget), 1, "image")
