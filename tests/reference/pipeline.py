"""Orders of passes and divisions of layers of Megatron-LM (megatron-core 0.12.1), for tests/parallel/pipeline.

    pip install torch==2.7.1 && pip install --no-deps megatron-core==0.12.1 && python pipeline.py

Its getters of ranks are replaced by constants, so no process group and no GPU is needed. An order is the text
"1 1 2 -2 ..." of chunks, counted from 1, backwards negative; a division is "offset+count" of the virtual stages in
their order. The file has the 64-bit FNV-1a hash of each text.
"""

import json
import os
import random
from types import SimpleNamespace

from megatron.core import parallel_state
from megatron.core.pipeline_parallel.schedules import (convert_schedule_table_to_order, get_pp_rank_microbatches,
                                                       get_schedule_table)
from megatron.core.transformer.transformer_block import get_num_layers_to_build
from megatron.core.transformer.transformer_layer import get_transformer_layer_offset


def place(stages, stage, chunks, chunk=0):
    first, last = stage == 0, stage == stages - 1

    def is_end(of_stage, of_chunk):
        return lambda ignore_virtual=False: of_stage and (ignore_virtual or chunks is None or of_chunk)

    constants = {
        "get_pipeline_model_parallel_world_size": stages, "get_pipeline_model_parallel_rank": stage,
        "get_virtual_pipeline_model_parallel_world_size": chunks,
        "get_virtual_pipeline_model_parallel_rank": None if chunks is None else chunk,
        "is_inside_encoder": False, "get_pipeline_model_parallel_decoder_start": None,
    }
    for name, value in constants.items():
        setattr(parallel_state, name, lambda *_, value=value, **__: value)
    parallel_state.is_pipeline_first_stage = is_end(first, chunk == 0)
    parallel_state.is_pipeline_last_stage = is_end(last, chunks is None or chunk == chunks - 1)


def hash_of(text):
    h = 0xcbf29ce484222325
    for byte in text.encode():
        h = (h ^ byte) * 0x100000001b3 % 2**64
    return f"{h:016x}"


def orders():
    cases = []
    for stages in range(2, 9):
        for chunks in range(1, 5):
            for passes in range(1, 21):
                for group in sorted({stages, stages + 1, 2 * stages} if chunks > 1 else {stages}):
                    if chunks > 1 and passes % group != 0:
                        continue  # Megatron ends with a smaller group, rlcore with empty passes
                    texts = []
                    for stage in range(stages):
                        place(stages, stage, chunks if chunks > 1 else None)
                        warm_up = get_pp_rank_microbatches(passes, chunks, group)[2]
                        table = get_schedule_table(passes, chunks, group)
                        texts.append(" ".join(map(str, convert_schedule_table_to_order(warm_up, chunks, table))))
                    cases.append([stages, chunks, passes, group, hash_of("; ".join(texts))])
    return cases


def division(layers, stages, chunks, first, last, embedding, loss):
    config = SimpleNamespace(num_layers=layers, pipeline_model_parallel_size=stages,
                             num_layers_in_first_pipeline_stage=first, num_layers_in_last_pipeline_stage=last,
                             account_for_embedding_in_pipeline_split=embedding,
                             account_for_loss_in_pipeline_split=loss)
    parts = []
    for chunk in range(chunks):
        for stage in range(stages):
            place(stages, stage, chunks if chunks > 1 else None, chunk)
            count = get_num_layers_to_build(config)
            parts.append(f"{get_transformer_layer_offset(config)}+{count}")
    return " ".join(parts)


def divisions():
    draw = random.Random(5)
    cases = []
    while len(cases) < 1500:
        stages, chunks = draw.randint(2, 8), draw.choice([1, 1, 2, 3])
        each = chunks * draw.randint(1, 4)
        first = chunks * draw.randint(1, 5) if draw.random() < 0.4 else None
        last = chunks * draw.randint(1, 5) if draw.random() < 0.4 else None
        uneven = first is not None or last is not None
        embedding, loss = (not uneven and draw.random() < 0.4), (not uneven and draw.random() < 0.4)
        layers = (first or each) + (last or each) + (stages - 2) * each - embedding - loss
        if draw.random() < 0.1:
            layers += draw.choice([-1, 1])
        try:
            text = division(layers, stages, chunks, first, last, embedding, loss)
        except (AssertionError, ZeroDivisionError):
            text = None
        cases.append([layers, stages, chunks, first, last, int(embedding), int(loss), text and hash_of(text)])
    return cases


if __name__ == "__main__":
    here = os.path.dirname(os.path.abspath(__file__))
    with open(os.path.join(here, "pipeline.json"), "w") as file:
        lines = {"orders": orders(), "divisions": divisions()}
        file.write("{" + ",\n".join(f'"{k}": [\n' + ",\n".join(json.dumps(c) for c in v) + "]" for k, v in lines.items()))
        file.write("}\n")
