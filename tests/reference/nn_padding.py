"""What nn_parity.py says of tiny models whose pad_token_id occurs inside their sequences, by `transformers`.

Writes nn_padding.json. transformers makes pad_token_id the padding_idx of the embedding: as input it adds nothing to
the embedding's gradient; where the embedding is also the head, the gradient of the head stays.

    pip install -r requirements.txt && python nn_padding.py
"""

import copy

import nn_families
import nn_parity

SIZES = nn_families.SIZES | dict(head_dim=None)
# Both tokens are fed in several places.
MODELS = {
    "tied": dict(family="qwen2", **SIZES, tie_word_embeddings=True, pad_token_id=18),
    "untied": dict(family="llama", **SIZES, tie_word_embeddings=False, pad_token_id=6),
}


def model_of(spec):
    spec = {key: value for key, value in copy.deepcopy(spec).items() if value is not None}
    config, model = nn_families.FAMILIES[spec.pop("family")]
    made = model(config(**(nn_families.COMMON | dict(rope_theta=10000.0) | spec)))
    assert made.model.embed_tokens.padding_idx == spec["pad_token_id"]
    assert any(spec["pad_token_id"] in ids for ids in nn_parity.tokens(spec["vocab_size"]))
    return made


if __name__ == "__main__":
    nn_parity.write("nn_padding.json", model_of, MODELS)
