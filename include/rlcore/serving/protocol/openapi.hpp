// OpenAPI description of the endpoints.
#pragma once

#include <string_view>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
namespace serving {

/// The description that GET /openapi.json gives, in OpenAPI 3.1: the common endpoints, the types and ranges of their
/// fields, and the members of responses. Ranges that depend on the model are those of docs/serving.md.
inline constexpr std::string_view openapi_description = R"json({
"openapi": "3.1.0",
"info": {"title": "openai_server of rlcore", "version": "1",
  "description": "OpenAI's API and vLLM's additions. A field that is null counts as absent, and unknown ones are ignored."},
"paths": {
  "/v1/models": {"get": {"operationId": "models", "summary": "The names that requests may use", "responses": {
    "200": {"description": "A list", "content": {"application/json": {"schema": {"$ref": "#/components/schemas/models"}}}}}}},
  "/v1/completions": {"post": {"operationId": "completions", "summary": "Prompts continued",
    "requestBody": {"required": true, "content": {"application/json": {"schema": {"$ref": "#/components/schemas/completion_request"}}}},
    "responses": {
      "200": {"description": "Texts; server-sent events with stream", "content": {
        "application/json": {"schema": {"$ref": "#/components/schemas/completion"}}, "text/event-stream": {"schema": {"type": "string"}}}},
      "400": {"$ref": "#/components/responses/refused"}, "404": {"$ref": "#/components/responses/refused"}}}},
  "/v1/chat/completions": {"post": {"operationId": "chat", "summary": "Conversations continued",
    "requestBody": {"required": true, "content": {"application/json": {"schema": {"$ref": "#/components/schemas/chat_request"}}}},
    "responses": {
      "200": {"description": "Messages; server-sent events with stream", "content": {
        "application/json": {"schema": {"$ref": "#/components/schemas/chat"}}, "text/event-stream": {"schema": {"type": "string"}}}},
      "400": {"$ref": "#/components/responses/refused"}, "404": {"$ref": "#/components/responses/refused"}}}},
  "/tokenize": {"post": {"operationId": "tokenize", "summary": "A prompt or a conversation as tokens",
    "requestBody": {"required": true, "content": {"application/json": {"schema": {"$ref": "#/components/schemas/tokenize_request"}}}},
    "responses": {
      "200": {"description": "Tokens", "content": {"application/json": {"schema": {"type": "object",
        "required": ["count", "max_model_len", "tokens", "token_strs"],
        "properties": {"count": {"type": "integer"}, "max_model_len": {"type": "integer"},
          "tokens": {"type": "array", "items": {"type": "integer"}},
          "token_strs": {"type": ["array", "null"], "items": {"type": "string"}}}}}}},
      "400": {"$ref": "#/components/responses/refused"}, "404": {"$ref": "#/components/responses/refused"}}}},
  "/detokenize": {"post": {"operationId": "detokenize", "summary": "Tokens as text",
    "requestBody": {"required": true, "content": {"application/json": {"schema": {"type": "object", "required": ["tokens"],
      "properties": {"model": {"$ref": "#/components/schemas/text"}, "tokens": {"$ref": "#/components/schemas/ids"}}}}}},
    "responses": {
      "200": {"description": "The text", "content": {"application/json": {"schema": {"type": "object", "required": ["prompt"],
        "properties": {"prompt": {"type": "string"}}}}}},
      "400": {"$ref": "#/components/responses/refused"}, "404": {"$ref": "#/components/responses/refused"}}}},
  "/health": {"get": {"operationId": "health", "responses": {"200": {"description": "The engine works"},
    "503": {"description": "It does not"}}}},
  "/ping": {"get": {"operationId": "ping", "responses": {"200": {"description": "The engine works"},
    "503": {"description": "It does not"}}}},
  "/version": {"get": {"operationId": "version", "responses": {"200": {"description": "The version",
    "content": {"application/json": {"schema": {"type": "object", "required": ["version"],
      "properties": {"version": {"type": "string"}}}}}}}}},
  "/load": {"get": {"operationId": "load", "responses": {"200": {"description": "Requests that are being answered",
    "content": {"application/json": {"schema": {"type": "object", "required": ["server_load"],
      "properties": {"server_load": {"type": "integer"}}}}}}}}},
  "/metrics": {"get": {"operationId": "metrics", "responses": {"200": {"description": "Prometheus' text format",
    "content": {"text/plain": {"schema": {"type": "string"}}}}}}}
},
"components": {
"responses": {"refused": {"description": "What is wrong with the request", "content": {"application/json": {"schema": {
  "type": "object", "required": ["error"], "properties": {"error": {"type": "object",
    "required": ["message", "type", "param", "code"], "properties": {"message": {"type": "string"},
      "type": {"type": "string"}, "param": {"type": "null"}, "code": {"type": "integer"}}}}}}}}},
"schemas": {
  "text": {"type": ["string", "null"]},
  "switch": {"type": ["boolean", "null"]},
  "id": {"type": "integer", "minimum": 0, "maximum": 2147483647},
  "ids": {"type": "array", "items": {"$ref": "#/components/schemas/id"}},
  "prompt": {"oneOf": [
    {"type": "string", "minLength": 1},
    {"type": "array", "minItems": 1, "maxItems": 1024, "items": {"type": "string", "minLength": 1}},
    {"type": "array", "minItems": 1, "items": {"$ref": "#/components/schemas/id"}},
    {"type": "array", "minItems": 1, "maxItems": 1024, "items": {"type": "array", "minItems": 1, "items": {"$ref": "#/components/schemas/id"}}}]},
  "sampling": {"type": "object", "properties": {
    "model": {"$ref": "#/components/schemas/text"},
    "temperature": {"type": ["number", "null"], "minimum": 0, "maximum": 1e38},
    "top_p": {"type": ["number", "null"], "minimum": 1e-30, "maximum": 1},
    "top_k": {"type": ["integer", "null"], "minimum": -1, "maximum": 9223372036854775807},
    "min_p": {"type": ["number", "null"], "minimum": 0, "maximum": 1},
    "repetition_penalty": {"type": ["number", "null"], "minimum": 1e-30, "maximum": 1e38},
    "presence_penalty": {"type": ["number", "null"], "minimum": -2, "maximum": 2},
    "frequency_penalty": {"type": ["number", "null"], "minimum": -2, "maximum": 2},
    "logit_bias": {"type": ["object", "null"], "additionalProperties": {"type": "number"}, "propertyNames": {"pattern": "^[0-9]{1,9}$"}, "maxProperties": 1024},
    "allowed_token_ids": {"type": ["array", "null"], "minItems": 1, "items": {"$ref": "#/components/schemas/id"}},
    "bad_words": {"type": ["array", "null"], "maxItems": 1024, "items": {"type": "string", "minLength": 1}},
    "stop": {"type": ["string", "array", "null"], "minLength": 1, "maxItems": 1024, "items": {"type": "string", "minLength": 1}},
    "stop_token_ids": {"type": ["array", "null"], "maxItems": 1024, "items": {"$ref": "#/components/schemas/id"}},
    "include_stop_str_in_output": {"$ref": "#/components/schemas/switch"},
    "ignore_eos": {"$ref": "#/components/schemas/switch"},
    "min_tokens": {"type": ["integer", "null"], "minimum": 0, "maximum": 9223372036854775807},
    "seed": {"type": ["integer", "null"], "minimum": -9223372036854775808, "maximum": 9223372036854775807},
    "n": {"type": ["integer", "null"], "minimum": 1, "maximum": 1024},
    "stream": {"$ref": "#/components/schemas/switch"},
    "stream_options": {"type": ["object", "null"], "properties": {
      "include_usage": {"$ref": "#/components/schemas/switch"}, "continuous_usage_stats": {"$ref": "#/components/schemas/switch"}}},
    "prompt_logprobs": {"type": ["integer", "null"], "minimum": 0, "description": "At most --max-logprobs; 0 with stream"},
    "skip_special_tokens": {"$ref": "#/components/schemas/switch"},
    "add_special_tokens": {"$ref": "#/components/schemas/switch"},
    "return_token_ids": {"$ref": "#/components/schemas/switch"},
    "return_tokens_as_token_ids": {"$ref": "#/components/schemas/switch"},
    "truncate_prompt_tokens": {"type": ["integer", "null"], "minimum": -1, "not": {"const": 0}},
    "request_id": {"$ref": "#/components/schemas/text"},
    "cache_salt": {"$ref": "#/components/schemas/text"}}},
  "completion_request": {"allOf": [{"$ref": "#/components/schemas/sampling"}, {"type": "object", "required": ["prompt"], "properties": {
    "prompt": {"$ref": "#/components/schemas/prompt"},
    "max_tokens": {"type": ["integer", "null"], "minimum": 0, "maximum": 9223372036854775807, "description": "0 only with echo"},
    "echo": {"$ref": "#/components/schemas/switch"},
    "logprobs": {"type": ["integer", "null"], "minimum": 0, "description": "At most --max-logprobs"}}}]},
  "message": {"type": "object", "required": ["role"], "properties": {
    "role": {"enum": ["system", "developer", "user", "assistant", "tool"]},
    "content": {"oneOf": [{"$ref": "#/components/schemas/text"}, {"type": "array", "items": {"$ref": "#/components/schemas/part"}}]}}},
  "part": {"oneOf": [
    {"type": "object", "required": ["type", "text"], "properties": {
      "type": {"enum": ["text", "input_text", "output_text"]}, "text": {"type": "string"}}},
    {"type": "object", "required": ["type", "image_url"], "properties": {"type": {"const": "image_url"},
      "image_url": {"oneOf": [{"type": "string"}, {"type": "object", "required": ["url"], "properties": {"url": {"type": "string"}}}]}}}]},
  "tool": {"type": "object", "required": ["function"], "properties": {"function": {"type": "object", "required": ["name"],
    "properties": {"name": {"type": "string"}}}}},
  "chat_request": {"allOf": [{"$ref": "#/components/schemas/sampling"}, {"type": "object", "required": ["messages"], "properties": {
    "messages": {"type": "array", "minItems": 1, "items": {"$ref": "#/components/schemas/message"}},
    "max_tokens": {"type": ["integer", "null"], "minimum": -9223372036854775808, "maximum": 9223372036854775807, "description": "At least 1 where it counts: max_completion_tokens goes before it"},
    "max_completion_tokens": {"type": ["integer", "null"], "minimum": 1, "maximum": 9223372036854775807},
    "logprobs": {"$ref": "#/components/schemas/switch"},
    "top_logprobs": {"type": ["integer", "null"], "minimum": 0, "description": "At most --max-logprobs, with logprobs"},
    "tools": {"type": ["array", "null"], "items": {"$ref": "#/components/schemas/tool"}},
    "tool_choice": {"enum": ["none", "auto", null]},
    "add_generation_prompt": {"$ref": "#/components/schemas/switch"},
    "continue_final_message": {"$ref": "#/components/schemas/switch"},
    "chat_template_kwargs": {"type": ["object", "null"], "additionalProperties": false, "properties": {
      "enable_thinking": {"$ref": "#/components/schemas/switch"}, "add_vision_id": {"$ref": "#/components/schemas/switch"}}},
    "include_reasoning": {"$ref": "#/components/schemas/switch"}}}]},
  "tokenize_request": {"type": "object", "properties": {
    "model": {"$ref": "#/components/schemas/text"},
    "prompt": {"$ref": "#/components/schemas/text"},
    "messages": {"type": ["array", "null"], "minItems": 1, "items": {"$ref": "#/components/schemas/message"}},
    "add_special_tokens": {"$ref": "#/components/schemas/switch"},
    "add_generation_prompt": {"$ref": "#/components/schemas/switch"},
    "return_token_strs": {"$ref": "#/components/schemas/switch"}},
    "description": "Either prompt or messages"},
  "models": {"type": "object", "required": ["object", "data"], "properties": {"object": {"const": "list"},
    "data": {"type": "array", "items": {"type": "object",
      "required": ["id", "object", "created", "owned_by", "root", "parent", "max_model_len", "permission"],
      "properties": {"id": {"type": "string"}, "object": {"const": "model"}, "created": {"type": "integer"},
        "owned_by": {"const": "rlcore"}, "root": {"type": "string"}, "parent": {"$ref": "#/components/schemas/text"},
        "max_model_len": {"type": "integer"}, "permission": {"type": "array"}}}}}},
  "usage": {"type": "object", "required": ["prompt_tokens", "total_tokens", "completion_tokens"], "properties": {
    "prompt_tokens": {"type": "integer"}, "total_tokens": {"type": "integer"}, "completion_tokens": {"type": "integer"}}},
  "end": {"enum": ["stop", "length", "tool_calls", "abort"]},
  "answer": {"type": "object", "required": ["id", "object", "created", "model", "choices", "usage", "system_fingerprint"], "properties": {
    "id": {"type": "string"}, "created": {"type": "integer"}, "model": {"type": "string"},
    "system_fingerprint": {"$ref": "#/components/schemas/text"}, "usage": {"$ref": "#/components/schemas/usage"}}},
  "completion": {"allOf": [{"$ref": "#/components/schemas/answer"}, {"type": "object", "properties": {
    "object": {"const": "text_completion"}, "choices": {"type": "array", "items": {"type": "object",
      "required": ["index", "text", "logprobs", "finish_reason", "stop_reason", "prompt_logprobs", "token_ids"],
      "properties": {"index": {"type": "integer"}, "text": {"type": "string"}, "logprobs": {"type": ["object", "null"]},
        "finish_reason": {"$ref": "#/components/schemas/end"}, "stop_reason": {"type": ["string", "integer", "null"]}}}}}}]},
  "chat": {"allOf": [{"$ref": "#/components/schemas/answer"}, {"type": "object", "properties": {
    "object": {"const": "chat.completion"}, "choices": {"type": "array", "items": {"type": "object",
      "required": ["index", "message", "logprobs", "finish_reason", "stop_reason"],
      "properties": {"index": {"type": "integer"}, "message": {"type": "object", "required": ["role", "content", "tool_calls"],
          "properties": {"role": {"type": "string"}, "content": {"$ref": "#/components/schemas/text"}, "tool_calls": {"type": "array"}}},
        "logprobs": {"type": ["object", "null"]}, "finish_reason": {"$ref": "#/components/schemas/end"},
        "stop_reason": {"type": ["string", "integer", "null"]}}}}}}]}
}}
})json";

}  // namespace serving
RLCORE_END
