// The page at /: chat with the model in a browser, see the log-probs of its tokens, and compare two servers.
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
<fieldset>
<label>max_tokens <input id="max_tokens" type="number" value="256" min="1"></label>
<label>temperature <input id="temperature" type="number" value="0.7" min="0" step="0.1"></label>
<label>top_p <input id="top_p" type="number" value="1" min="0.01" max="1" step="0.05"></label>
<label>seed <input id="seed" type="number"></label>
<label>API key <input id="key" type="password" autocomplete="off"></label>
<label>compare with <input id="second" type="url" placeholder="http://127.0.0.1:8001"></label>
<label>colours <input id="colours" type="checkbox" checked></label>
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
    messages: history, stream: true, logprobs: true, top_logprobs: 5, max_tokens: number("max_tokens"),
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

}  // namespace serving
RLCORE_END
