// Documents of the server: the page at / (chat in a browser, log-probs of tokens, two servers side by side) and the
// OpenAPI description of the endpoints.
#pragma once

#include <string_view>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
namespace serving {

/// One self-contained HTML file. Tokens have a colour between green (certain) and red (unlikely) and show
/// their log-prob and the likely others. A second address, of a server started with --allowed-origins for this page,
/// gives its answers beside those of this one.
inline constexpr std::string_view web_page = R"html(<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>rlcore</title>
<style>
:root { color-scheme: light dark; font: 15px/1.5 system-ui, sans-serif; }
body { margin: 0 auto; max-width: 1100px; padding: 1rem; }
form, fieldset { display: flex; flex-wrap: wrap; gap: .5rem; align-items: end; border: 0; padding: 0;
  margin: 0 0 .8rem; }
label { display: flex; flex-direction: column; font-size: .8rem; }
input, textarea, button { font: inherit; padding: .3rem .5rem; }
input[type=number] { width: 5.5rem; }
input[type=url] { width: 15rem; }
textarea { flex: 1 1 100%; min-height: 4.5rem; box-sizing: border-box; }
.wide { flex: 1 1 100%; }
#system { min-height: 0; }
#model { margin: 0 0 .6rem; overflow-wrap: anywhere; }
.turn { margin: .6rem 0; }
.user { white-space: pre-wrap; border-left: 3px solid #888; padding-left: .6rem; }
.answers { display: grid; margin-top: .4rem; grid-auto-flow: column; grid-auto-columns: 1fr; gap: 1rem; }
.answer { white-space: pre-wrap; overflow-wrap: anywhere; border: 1px solid #8886; border-radius: 4px; padding: .5rem; }
.answer h2 { font-size: .8rem; margin: 0 0 .3rem; font-weight: normal; opacity: .7; }
.answer span { color: #000; border-radius: 2px; }
.answer .end { opacity: .6; font-size: .8em; }
.plain span { background: none !important; color: inherit; }
.error { color: #b00; }
</style>
</head>
<body>
<p id="model">rlcore</p>
<fieldset>
<label>max_tokens <input id="max_tokens" type="number" value="256" min="1"></label>
<label>temperature <input id="temperature" type="number" value="0.7" min="0" step="0.1"></label>
<label>top_p <input id="top_p" type="number" value="1" min="0.01" max="1" step="0.05"></label>
<label>seed <input id="seed" type="number"></label>
<label>API key <input id="key" type="password" autocomplete="off"></label>
<label>compare with <input id="second" type="url" placeholder="http://127.0.0.1:8001"></label>
<label>colours <input id="colours" type="checkbox" checked></label>
<label class="wide">system prompt <textarea id="system" rows="1"></textarea></label>
</fieldset>
<main id="log"></main>
<form id="ask">
<textarea id="message" placeholder="Message (Ctrl-Enter sends)" required></textarea>
<button id="send">Send</button>
<button id="stop" type="button" disabled>Stop</button>
<button id="reset" type="button">New conversation</button>
</form>
<script>
"use strict";
const at = id => document.getElementById(id);
const histories = [[], []];
let running = null;

function make(parent, tag, name, text) {
  const e = document.createElement(tag);
  if (name) e.className = name;
  if (text !== undefined) e.textContent = text;
  parent.append(e);
  return e;
}

// From red (probability 0) over yellow to green (1).
function colour(logp) { return "hsl(" + Math.round(120 * Math.exp(logp)) + " 80% 80%)"; }

// Tokens that are parts of characters are shown together.
function show(box, tokens) {
  const decoder = new TextDecoder();
  for (const t of tokens) {
    const span = make(box, "span", "", decoder.decode(new Uint8Array(t.bytes), {stream: true}));
    span.style.background = colour(t.logprob);
    span.title = t.logprob.toFixed(3) + "\n" +
      t.top_logprobs.map(o => o.logprob.toFixed(3) + "  " + JSON.stringify(o.token)).join("\n");
  }
}

async function answer(base, history, box, signal) {
  const number = id => at(id).value === "" ? undefined : Number(at(id).value);
  const request = {
    messages: at("system").value ? [{role: "system", content: at("system").value}, ...history] : history, stream: true, logprobs: true, top_logprobs: 5, max_tokens: number("max_tokens"),
    temperature: number("temperature"), top_p: number("top_p"), seed: number("seed")};
  const headers = {"Content-Type": "application/json"};
  if (at("key").value && !base) headers.Authorization = "Bearer " + at("key").value;
  const title = make(box, "h2", "", base || location.origin);
  let text = "";
  try {
    const response = await fetch(base + "/v1/chat/completions",
      {method: "POST", headers, body: JSON.stringify(request), signal});
    if (!response.ok) {
      const said = await response.json();
      throw new Error(typeof said.error === "string" ? said.error : said.error.message);
    }
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let held = "";
    for (let part; !(part = await reader.read()).done;) {
      held += part.value;
      const events = held.split("\n\n");
      held = events.pop();
      for (const event of events) {
        if (event === "data: [DONE]") continue;
        const said = JSON.parse(event.slice(6));
        if (said.error) throw new Error(said.error.message);
        const choice = said.choices[0];
        title.textContent = said.model + " at " + (base || location.origin);
        text += choice.delta.content || "";
        if (choice.logprobs) show(box, choice.logprobs.content);
        const ended = choice.finish_reason === "stop" && choice.stop_reason === null;
        if (ended && choice.logprobs.content.length > 0) box.lastElementChild.className = "end";
      }
    }
  } catch (error) {
    const unreachable = base && error instanceof TypeError;
    const hint = "no answer: is it started with --allowed-origins " + location.origin + "?";
    if (error.name !== "AbortError") make(box, "p", "error", unreachable ? hint : error.message);
  }
  history.push({role: "assistant", content: text});
}

// The name of the model, before it has answered.
async function name_model() {
  const headers = at("key").value ? {Authorization: "Bearer " + at("key").value} : {};
  try {
    const response = await fetch("/v1/models", {headers});
    at("model").textContent = response.ok ? (await response.json()).data.map(m => m.id).join(", ") :
      response.status === 401 ? "this server needs its API key" : "rlcore";
  } catch {
    at("model").textContent = "no answer from " + location.origin;
  }
}
name_model();
at("key").addEventListener("change", name_model);

at("ask").addEventListener("submit", async event => {
  event.preventDefault();
  if (running) return;
  const message = at("message").value;
  at("message").value = "";
  const turn = make(at("log"), "div", "turn");
  make(turn, "div", "user", message);
  const answers = make(turn, "div", "answers");
  running = new AbortController();
  at("send").disabled = true, at("stop").disabled = false;
  const bases = [""];
  if (at("second").value) bases.push(at("second").value.replace(/[/]+(v1[/]*)?$/, ""));
  await Promise.all(bases.map((base, i) => {
    histories[i].push({role: "user", content: message});
    return answer(base, histories[i], make(answers, "div", "answer"), running.signal);
  }));
  running = null;
  at("send").disabled = false, at("stop").disabled = true;
});
at("message").addEventListener("keydown", event => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) at("ask").requestSubmit();
});
at("stop").addEventListener("click", () => running && running.abort());
at("reset").addEventListener("click", () => {
  if (running) running.abort();
  histories[0] = [], histories[1] = [];
  at("log").replaceChildren();
});
at("colours").addEventListener("change", () => at("log").classList.toggle("plain", !at("colours").checked));
</script>
</body>
</html>
)html";

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
    "chat_template_kwargs": {"type": ["object", "null"], "properties": {
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
