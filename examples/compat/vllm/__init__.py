"""Command lines of vLLM that start openai_server: PYTHONPATH=examples/compat python -m vllm.entrypoints.openai.api_server ..."""
