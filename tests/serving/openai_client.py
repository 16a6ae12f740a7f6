"""What openai-python gets from a server: openai_client.py URL LOCKED_URL KEY

URL serves the names "auto" and "other" with tools parsed; LOCKED_URL wants KEY. The tokenizer has the tokens of CALL.
"""
import asyncio
import json
import sys
import time
import unittest
import urllib.request

import openai

CALL = ["Let me look. ", '<tool_call>{"name": "weather"', ', "arguments": {"city": "Köln"}', "}</tool_call>", "<over>"]
URL, LOCKED_URL, KEY = sys.argv[1:4]
client = openai.OpenAI(base_url=URL + "/v1", api_key="anything")

# Texts that are long enough to be cut anywhere; a seed makes them repeat themselves.
COMMON = {"model": "auto", "seed": 7, "temperature": 1.1}
LONG = {"ignore_eos": True, "return_token_ids": True}
CHAT = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "How many are left?"}]
WEATHER = {"type": "function", "function": {"name": "weather", "parameters": {
    "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}


def tokens(text):
    request = urllib.request.Request(URL + "/tokenize", json.dumps({"prompt": text}).encode(),
                                     {"Content-Type": "application/json"})
    return json.load(urllib.request.urlopen(request))["tokens"]


def completion(prompt="Ann has 6 apples", extra=None, **options):
    return client.completions.create(**{**COMMON, "prompt": prompt, "max_tokens": 40,
                                        "extra_body": {**LONG, **(extra or {})}, **options})


def chat(messages=CHAT, extra=None, **options):
    return client.chat.completions.create(**{**COMMON, "messages": messages, "max_tokens": 40,
                                             "extra_body": {**LONG, **(extra or {})}, **options})


def joined_completion(stream):
    """The choices of a stream by index, and its usage."""
    choices, usage = {}, None
    for event in stream:
        usage = event.usage or usage
        for c in event.choices:
            all = choices.setdefault(c.index, {"text": "", "logprobs": None, "ids": [], "end": None, "reason": None})
            all["text"] += c.text
            all["ids"] += c.token_ids
            if c.logprobs:
                before = all["logprobs"] or {}
                all["logprobs"] = {k: before.get(k, []) + v for k, v in c.logprobs.model_dump().items()}
            if c.finish_reason:
                assert all["end"] is None, "two ends"
                all["end"], all["reason"] = c.finish_reason, c.stop_reason
    return choices, usage


def whole_completion(body):
    return {c.index: {"text": c.text, "logprobs": c.logprobs and c.logprobs.model_dump(), "ids": c.token_ids,
                      "end": c.finish_reason, "reason": c.stop_reason} for c in body.choices}, body.usage


def joined_chat(stream):
    choices, usage = {}, None
    for event in stream:
        usage = event.usage or usage
        for c in event.choices:
            all = choices.setdefault(c.index, {"text": "", "calls": [], "logprobs": None, "ids": [], "end": None,
                                               "reason": None})
            if not all["text"] and all["end"] is None and c.delta.role:
                assert c.delta.role == "assistant"
            all["text"] += c.delta.content or ""
            all["calls"] += [(t.function.name, t.function.arguments) for t in c.delta.tool_calls or []]
            all["ids"] += getattr(c, "token_ids", None) or []
            if c.logprobs:
                all["logprobs"] = (all["logprobs"] or []) + c.logprobs.model_dump()["content"]
            if c.finish_reason:
                assert all["end"] is None, "two ends"
                all["end"], all["reason"] = c.finish_reason, c.stop_reason
    return choices, usage


def whole_chat(body):
    return {c.index: {"text": c.message.content or "",
                      "calls": [(t.function.name, t.function.arguments) for t in c.message.tool_calls or []],
                      "logprobs": c.logprobs and c.logprobs.model_dump()["content"], "ids": c.token_ids,
                      "end": c.finish_reason, "reason": c.stop_reason} for c in body.choices}, body.usage


STREAM = {"stream": True, "stream_options": {"include_usage": True}}


class Completions(unittest.TestCase):
    def streamed_and_not(self, **options):
        body = completion(**options)
        whole, usage = whole_completion(body)
        joined, streamed_usage = joined_completion(completion(**options, **STREAM))
        self.assertEqual(joined, whole)
        self.assertEqual(streamed_usage, usage)
        self.assertEqual(usage.total_tokens, usage.prompt_tokens + usage.completion_tokens)
        self.assertEqual(body.object, "text_completion")
        self.assertEqual(body.model, "auto")
        return body

    def test_plain(self):
        body = self.streamed_and_not()
        self.assertEqual(body.usage.prompt_tokens, len(tokens("Ann has 6 apples")))
        self.assertEqual(body.usage.completion_tokens, 40)
        self.assertEqual(len(body.choices[0].token_ids), 40)
        self.assertEqual(body.choices[0].finish_reason, "length")
        self.assertTrue(body.id.startswith("cmpl-"))

    def test_end_of_text(self):
        body = self.streamed_and_not(extra={"ignore_eos": False}, max_tokens=1000, seed=3)
        self.assertEqual((body.choices[0].finish_reason, body.choices[0].stop_reason), ("stop", None))
        self.assertLess(body.usage.completion_tokens, 1000)

    def test_n(self):
        three = self.streamed_and_not(n=3)
        self.assertEqual([c.index for c in three.choices], [0, 1, 2])
        self.assertEqual(len({c.text for c in three.choices}), 3)
        self.assertEqual(three.choices[0].text, completion().choices[0].text)
        self.assertEqual(three.usage.completion_tokens, 120)
        self.assertEqual(three.usage.prompt_tokens, completion().usage.prompt_tokens)

    def test_many_prompts(self):
        both = self.streamed_and_not(prompt=["Ann has 6 apples", tokens("Ann has 6 apples"), "a"][0::2], n=2)
        self.assertEqual([c.index for c in both.choices], [0, 1, 2, 3])
        self.assertEqual(both.choices[2].text, completion("a").choices[0].text)

    def test_token_ids(self):
        ids = tokens("Ann has 6 apples")
        self.assertEqual(completion(ids).choices[0].text, completion().choices[0].text)
        self.assertEqual(completion([ids, ids]).choices[1].prompt_token_ids, ids)

    def test_stop(self):
        text = completion().choices[0].text
        word = text[12:15]
        self.assertEqual(text.find(word), 12, "the text of this seed repeats itself too early")
        for stop in (word, ["never there", word]):
            body = self.streamed_and_not(stop=stop)
            self.assertEqual((body.choices[0].text, body.choices[0].finish_reason, body.choices[0].stop_reason),
                             (text[:12], "stop", word))
        kept = self.streamed_and_not(stop=word, extra={"include_stop_str_in_output": True})
        self.assertEqual(kept.choices[0].text, text[:15])
        last = completion().choices[0].token_ids[9]
        first = completion().choices[0].token_ids.index(last)
        ended = self.streamed_and_not(extra={"stop_token_ids": [last]})
        self.assertEqual(ended.choices[0].stop_reason, last)
        self.assertEqual(ended.choices[0].token_ids, completion().choices[0].token_ids[:first + 1])

    def test_logprobs(self):
        for k in (0, 1, 5):
            body = self.streamed_and_not(logprobs=k)
            found = body.choices[0].logprobs
            self.assertEqual(len(found.tokens), 40)
            self.assertTrue(all(p <= 0 for p in found.token_logprobs))
            for token, p, likely in zip(found.tokens, found.token_logprobs, found.top_logprobs):
                self.assertIn(len(likely), (k, k + 1) if k else (1,))
                self.assertEqual(likely[token], p)
        greedy = completion(temperature=0, logprobs=2).choices[0].logprobs
        for p, likely in zip(greedy.token_logprobs, greedy.top_logprobs):
            self.assertEqual(p, max(likely.values()))
        as_ids = completion(logprobs=1, extra={"return_tokens_as_token_ids": True}).choices[0]
        self.assertEqual(as_ids.logprobs.tokens, [f"token_id:{i}" for i in as_ids.token_ids])

    def test_echo(self):
        plain = completion(logprobs=1).choices[0]
        echoed = self.streamed_and_not(echo=True, logprobs=1).choices[0]
        self.assertEqual(echoed.text, "Ann has 6 apples" + plain.text)
        self.assertIsNone(echoed.logprobs.token_logprobs[0])
        self.assertEqual(echoed.logprobs.token_logprobs[-40:], plain.logprobs.token_logprobs)
        self.assertEqual(len(echoed.logprobs.tokens), 40 + len(tokens("Ann has 6 apples")))
        # A score of a text, as lm-evaluation-harness asks for it.
        ids = tokens("Ann has 6 apples") + plain.token_ids
        scored = completion(ids, echo=True, logprobs=1, max_tokens=0)
        self.assertEqual(scored.choices[0].logprobs.token_logprobs[-40:], plain.logprobs.token_logprobs)
        self.assertEqual(scored.usage.completion_tokens, 0)

    def test_seed(self):
        self.assertEqual(completion().choices[0].text, completion().choices[0].text)
        self.assertNotEqual(completion(seed=8).choices[0].text, completion().choices[0].text)
        self.assertNotEqual(completion(seed=None).choices[0].text, completion(seed=None).choices[0].text)

    def test_sampling(self):
        greedy = completion(temperature=0).choices[0].text
        for narrow in ({"top_k": 1}, {"min_p": 1.0}):
            self.assertEqual(self.streamed_and_not(extra=narrow).choices[0].text, greedy)
        self.assertEqual(completion(top_p=1e-6).choices[0].text, greedy)
        self.assertEqual(completion(extra={"top_k": -1, "min_p": 0.0, "repetition_penalty": 1.0}).choices[0].text,
                         completion().choices[0].text)
        once = completion(temperature=0, extra={"repetition_penalty": 1000.0}).choices[0].token_ids
        self.assertEqual(len(set(once)), 40)
        wanted = tokens("apples")[0]
        self.assertEqual(completion(logit_bias={str(wanted): 100}).choices[0].token_ids, [wanted] * 40)
        self.assertNotIn(wanted, completion(logit_bias={str(wanted): -100}).choices[0].token_ids)
        for penalty in ("presence_penalty", "frequency_penalty"):
            changed = self.streamed_and_not(**{penalty: 2})
            self.assertNotEqual(changed.choices[0].text, completion().choices[0].text)

    def test_raw_response(self):
        raw = client.completions.with_raw_response.create(model="auto", prompt="a", max_tokens=3)
        self.assertEqual((raw.status_code, raw.http_response.reason_phrase), (200, "OK"))
        self.assertEqual(raw.headers["content-type"], "application/json")
        self.assertEqual(raw.parse().object, "text_completion")
        with client.completions.with_streaming_response.create(model="auto", prompt="a", stream=True) as raw:
            self.assertEqual(raw.headers["content-type"], "text/event-stream; charset=utf-8")
            events = [line for line in raw.iter_lines() if line]
        self.assertEqual(events[-1], "data: [DONE]")
        self.assertTrue(all(e.startswith("data: {") for e in events[:-1]))

    def test_continuous_usage(self):
        counted = [e.usage.completion_tokens for e in completion(
            stream=True, stream_options={"include_usage": True, "continuous_usage_stats": True})]
        self.assertEqual(counted, sorted(counted))
        self.assertEqual(counted[-1], 40)


class Chat(unittest.TestCase):
    def streamed_and_not(self, **options):
        body = chat(**options)
        whole, usage = whole_chat(body)
        joined, streamed_usage = joined_chat(chat(**options, **STREAM))
        self.assertEqual(joined, whole)
        self.assertEqual(streamed_usage, usage)
        self.assertEqual(body.object, "chat.completion")
        self.assertTrue(body.id.startswith("chatcmpl-"))
        self.assertTrue(all(c.message.role == "assistant" for c in body.choices))
        return body

    def test_plain(self):
        body = self.streamed_and_not()
        self.assertEqual(body.usage.completion_tokens, 40)
        rendered = ("<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHow many are left?<|im_end|>\n"
                    "<|im_start|>assistant\n")
        self.assertEqual(body.prompt_token_ids, tokens(rendered))
        self.assertEqual(completion(rendered).choices[0].text, body.choices[0].message.content)
        self.assertEqual(chat(max_completion_tokens=5).usage.completion_tokens, 5)

    def test_parts(self):
        parts = [CHAT[0], {"role": "user", "content": [{"type": "text", "text": "How many are left?"}]}]
        self.assertEqual(chat(parts).choices[0].message.content, chat().choices[0].message.content)

    def test_options(self):
        text = chat().choices[0].message.content
        self.assertEqual(len({c.message.content for c in self.streamed_and_not(n=3).choices}), 3)
        word = text[10:13]
        self.assertEqual(self.streamed_and_not(stop=[word]).choices[0].message.content, text[:text.index(word)])
        self.streamed_and_not(extra={"top_k": 10, "min_p": 0.01, "repetition_penalty": 1.03}, top_p=0.95)
        self.streamed_and_not(presence_penalty=1, frequency_penalty=0.5)
        self.streamed_and_not(logit_bias={str(tokens("apples")[0]): 5})
        self.assertEqual(chat(temperature=0, seed=1).choices[0].message.content,
                         chat(extra={"top_k": 1}).choices[0].message.content)

    def test_logprobs(self):
        body = self.streamed_and_not(logprobs=True, top_logprobs=3)
        content = body.choices[0].logprobs.content
        self.assertEqual(len(content), 40)
        self.assertEqual(bytes(b for t in content for b in t.bytes).decode(errors="replace"),
                         body.choices[0].message.content)
        for t in content:
            self.assertIn((t.token, t.logprob), [(o.token, o.logprob) for o in t.top_logprobs])
        self.assertTrue(all(t.top_logprobs == [] for t in chat(logprobs=True).choices[0].logprobs.content))

    def test_tools(self):
        ids = [tokens(piece) for piece in CALL]
        self.assertTrue(all(len(i) == 1 for i in ids), ids)
        ids = [i[0] for i in ids]
        # Penalised once drawn, each piece makes way for the next.
        forced = {"allowed_token_ids": ids, "repetition_penalty": 1000.0, "stop_token_ids": ids[-1:]}
        bias = {str(i): 100 - 20 * place for place, i in enumerate(ids)}
        options = dict(tools=[WEATHER], logit_bias=bias, temperature=0, extra=forced)
        body = self.streamed_and_not(**options)
        choice = body.choices[0]
        self.assertEqual(choice.finish_reason, "tool_calls")
        self.assertEqual(choice.message.content, CALL[0])
        self.assertEqual([(c.function.name, json.loads(c.function.arguments)) for c in choice.message.tool_calls],
                         [("weather", {"city": "Köln"})])
        self.assertEqual(choice.message.tool_calls[0].type, "function")
        text = chat(**options, tool_choice="none").choices[0]
        self.assertEqual((text.message.content, text.finish_reason), ("".join(CALL[:-1]), "stop"))
        # The call goes back with its answer.
        talk = CHAT + [choice.message.model_dump(exclude_none=True),
                       {"role": "tool", "tool_call_id": choice.message.tool_calls[0].id, "content": "sunny"}]
        prompt = chat(talk, tools=[WEATHER]).prompt_token_ids
        self.assertGreater(len(prompt), len(body.prompt_token_ids))

    def test_helper_of_streams(self):
        with client.chat.completions.stream(model="auto", messages=CHAT, seed=7, temperature=1.1) as stream:
            final = stream.get_final_completion()
        whole = chat(max_tokens=None, extra={"ignore_eos": False})
        self.assertEqual(whole.choices[0].finish_reason, "stop")
        self.assertEqual(final.choices[0].message.content, whole.choices[0].message.content)


class Others(unittest.TestCase):
    def test_models(self):
        self.assertEqual([m.id for m in client.models.list()], ["auto", "other"])

    def test_names(self):
        self.assertEqual(completion(model="other").model, "other")

    def test_errors(self):
        def message(kind, call):
            with self.assertRaises(kind) as caught:
                call()
            self.assertIs(type(caught.exception), kind)
            return caught.exception.body

        bad = openai.BadRequestError
        self.assertEqual(message(bad, lambda: completion(temperature=-1))["code"], 400)
        self.assertIn("temperature", message(bad, lambda: completion(temperature=-1))["message"])
        self.assertIn("maximum context length", message(bad, lambda: completion("a" * 9000))["message"])
        self.assertIn("max_tokens", message(bad, lambda: chat(max_tokens=10**6))["message"])
        self.assertIn("messages", message(bad, lambda: chat([]))["message"])
        self.assertIn("constrained", message(bad, lambda: chat(response_format={"type": "json_object"}))["message"])
        self.assertIn("best_of", message(bad, lambda: completion(best_of=3))["message"])
        self.assertIn("temperature", message(bad, lambda: list(completion(temperature=-1, stream=True)))["message"])
        missing = message(openai.NotFoundError, lambda: completion(model="gpt"))
        self.assertEqual((missing["message"], missing["type"]), ("The model `gpt` does not exist.", "NotFoundError"))
        message(openai.NotFoundError, lambda: client.embeddings.create(model="auto", input="a"))
        with_key = lambda key: openai.OpenAI(base_url=LOCKED_URL + "/v1", api_key=key)
        message(openai.AuthenticationError, lambda: with_key("wrong").models.list())
        self.assertEqual(with_key(KEY).models.list().data[0].id, "auto")

    def test_many_at_once(self):
        async def ask():
            async with openai.AsyncOpenAI(base_url=URL + "/v1", api_key="x") as many:
                return await asyncio.gather(*(many.completions.create(
                    model="auto", prompt="Ann", max_tokens=20, seed=i, extra_body=LONG) for i in range(60)))
        texts = [answer.choices[0].text for answer in asyncio.run(ask())]
        alone = [completion("Ann", max_tokens=20, seed=i, temperature=1).choices[0].text for i in range(60)]
        self.assertEqual(texts, alone)

    def test_a_stream_that_is_left(self):
        stream = completion(max_tokens=900, n=1000, stream=True)
        next(iter(stream))
        stream.close()
        for _ in range(100):
            with urllib.request.urlopen(URL + "/load") as answer:
                if json.load(answer) == {"server_load": 0}:
                    return
            time.sleep(0.02)
        self.fail("the sequences of a client that has left are still drawn")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
