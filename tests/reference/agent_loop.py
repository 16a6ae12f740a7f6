"""Rows that OpenRLHF's multi-turn executor makes of an agent and forced turns: writes agent_loop.json.

usage: agent_loop.py CHECKOUT
CHECKOUT: of OpenRLHF 0.11.0 (3c3be6234e0c). Of it only openrlhf/utils/agent.py and logging_utils.py are imported, unchanged;
needs torch, transformers and aiohttp, but neither vLLM nor ray. The engine that returns forced turns is this program's, the
tokenizer is tool_loop_tokenizer/.

What vLLM makes of a turn: it draws at most max_tokens, and `text` is decoded as samples_generator.py asks, with special
tokens. That file left include_stop_str_in_output at False when it came (2026-01, 62987083); experience_maker.py before it
said True. False means that an end token, which is in the ids, is not in the text: "include_stop" names the case.

"scripts": {"kind", "prompt" (text), "prompt_ids" (of that text, before reset and any cut), "label", "agent",
           "max_new_tokens" (null: what is left), "max_length", "include_stop", "turns" (ids of each forced turn, before
           any cut), and what comes out: "max_tokens" (that the executor asked for), "drawn" (tokens of each turn), "texts"
           (of the turns as drawn), "steps" ([observation_text, action_text] that each step() got), "tokens"
           (observation_tokens), "actions" (action_ranges), "reward", "scores", "extra_logs"}
"agent":   {"observation": what reset() makes of the prompt ("{prompt}" and "{label}" are replaced; absent: the prompt),
           "replies": what step() returns, one after the other, and the last one ever after: {"feedback" ("{label}" is
           replaced by the label, "{action}" by the action_text), "reward", "score" (absent: none is returned), "done"},
           "stop_at_label": true: it is done, with reward 1 in place of its own, as soon as the action_text has the label}
           Rewards are float32; their sum is Python's. Without scores, "scores" is the sum up to and with the last step.

The trainer cuts "tokens" to the first max_length afterwards; the executor does not. Feedback may go beyond that; then
nothing more is drawn. The prompt loses tokens at its left side to leave max_new_tokens (null: one token); in a
max_length of max_new_tokens it keeps all, and nothing is drawn.
"""
import asyncio
import collections
import importlib
import pathlib
import random
import sys
import types

import torch

from tool_loop_common import DONE, END, LONG, MIXED, OTHER_END, said, spelled, tokens, write

ENDS = [tokens().convert_tokens_to_ids(t) for t in (END, OTHER_END)]
scripts = []


def real_module(checkout):
    """openrlhf.utils.agent without the packages' own __init__.py, which import all of the trainer."""
    for name in ("openrlhf", "openrlhf.utils"):
        package = types.ModuleType(name)
        package.__path__ = [str(pathlib.Path(checkout, *name.split(".")))]
        sys.modules[name] = package
    return importlib.import_module("openrlhf.utils.agent")


openrlhf = real_module(sys.argv[1])


class Agent(openrlhf.AgentInstanceBase):
    """Played from data; `heard` is what it was told."""

    def __init__(self, data, heard):
        self.data, self.heard = data, heard

    async def reset(self, states, **kwargs):
        self.label = states["label"]
        if "observation" not in self.data:
            return states
        return {"observation": self.data["observation"].replace("{prompt}", states["observation"]).replace("{label}", self.label)}

    async def step(self, states, **kwargs):
        reply = self.data["replies"][min(len(self.heard), len(self.data["replies"]) - 1)]
        self.heard.append([states["observation_text"], states["action_text"]])
        assert states["label"] == self.label
        found = bool(self.data.get("stop_at_label")) and self.label in states["action_text"]
        feedback = reply["feedback"].replace("{label}", self.label).replace("{action}", states["action_text"])
        out = {"rewards": torch.tensor(1.0 if found else float(reply["reward"])), "environment_feedback": feedback, "done": found or reply["done"],
               "extra_logs": {"steps": len(self.heard)}}
        return {**out, "scores": reply["score"]} if "score" in reply else out


class Engine:
    """Returns the forced turns as vLLM would."""

    def __init__(self, turns, include_stop):
        self.turns, self.include_stop, self.asked, self.drawn, self.texts = turns, include_stop, [], [], []

    async def generate(self, prompt_ids, sampling_params, multi_modal_data=None):
        assert multi_modal_data is None and all(isinstance(t, int) for t in prompt_ids)
        ids = self.turns[len(self.asked)][: sampling_params.max_tokens]
        self.asked.append(sampling_params.max_tokens)
        self.drawn.append(len(ids))
        shown = ids[:-1] if ids[-1] in ENDS and not self.include_stop else ids
        self.texts.append(tokens().decode(shown, skip_special_tokens=False))
        logprobs = [{t: types.SimpleNamespace(logprob=-0.125)} for t in ids]
        return types.SimpleNamespace(outputs=[types.SimpleNamespace(token_ids=list(ids), text=self.texts[-1], logprobs=logprobs)])


def run(kind, prompt, replies, turns, label="42", max_new_tokens=None, max_length=4000, include_stop=False, **agent):
    ids = [said(t) if isinstance(t, str) else t for t in turns]
    data, heard, engine = {**agent, "replies": replies}, [], Engine(ids, include_stop)
    executor = openrlhf.MultiTurnAgentExecutor(type("Played", (Agent,), {"__init__": lambda self: Agent.__init__(self, data, heard)}))
    sampling = types.SimpleNamespace(max_tokens=max_new_tokens, logprobs=1)
    out = asyncio.run(executor.execute(prompt, label, sampling, max_length, tokens(), engine))
    row, ranges = out["observation_tokens"], out["action_ranges"]
    assert len(out["rollout_log_probs"]) == len(row) and out["prompt"] == prompt and out["label"] == label
    assert all((p != 0) == any(a <= i < b for a, b in ranges) for i, p in enumerate(out["rollout_log_probs"]))
    scripts.append({"kind": kind, "prompt": prompt, "prompt_ids": said(prompt, None), "label": label, "agent": data, "max_new_tokens": max_new_tokens,
                    "max_length": max_length, "include_stop": include_stop, "turns": ids[: len(engine.asked)], "max_tokens": engine.asked, "drawn": engine.drawn, "texts": engine.texts, "steps": heard, "tokens": row,
                    "actions": ranges, "reward": out["reward"], "scores": out["scores"], "extra_logs": out["extra_logs"]})
    return scripts[-1]


def reply(feedback, reward=0.0, done=False, **score):
    return {"feedback": feedback, "reward": reward, **score, "done": done}


def user(text, end=END):
    """A turn of the user behind one of the assistant; the end mark is that of the assistant unless it is in the action."""
    return f"{end}\n<|im_start|>user\n{text}<|im_end|>\n<|im_start|>assistant\n"


PROMPT = "<|im_start|>user\nWhat is the answer?<|im_end|>\n<|im_start|>assistant\n"
GUESSES = ["41", "Is it 43?", "The answer is 42.", "never"]


def ends():
    """One step, several, with and without the end mark in the text."""
    for include_stop in (False, True):
        mark = "" if include_stop else END
        run("done at once", PROMPT, [reply("", 1.0, True)], [DONE], include_stop=include_stop)
        run("done with a word", PROMPT, [reply("\nGood." + END, 1.0, True)], [DONE], include_stop=include_stop)
        run("two steps", PROMPT, [reply(user("No.", mark)), reply("", 1.0, True)], GUESSES, include_stop=include_stop)
        run("two steps without a mark between", PROMPT, [reply(user("No.", "")), reply("", 1.0, True)], GUESSES, include_stop=include_stop)
        run("until the label", PROMPT, [reply(user("It is not {action}", mark), -0.25)], GUESSES, include_stop=include_stop, stop_at_label=True)
        run("until the label, in the end", PROMPT, [reply(user("No, see {label}.", mark), -0.25), reply("over", 0.5, True)], GUESSES, include_stop=include_stop, stop_at_label=True)
        run("other ends", PROMPT, [reply(user("Go on.")), reply("\nGo on.\n"), reply("", 1.0, True)], [said("a", OTHER_END), said("b", None), said("c")], include_stop=include_stop)
        run("the end mark alone", PROMPT, [reply(user("Well?", mark)), reply("", 0.0, True)], [said(""), DONE], include_stop=include_stop)
        run("spelled end marks", PROMPT, [reply(" and "), reply("", 0.0, True)], [spelled("a" + END + "\nb" + OTHER_END), said("<|im_start|>")], include_stop=include_stop)


def feedbacks():
    texts = {"plain": " And then? ", "empty": "", "unicode": MIXED + "\u200d❤\ufe0f", "line ends": "\n\n\r\n \n", "spaces": "   ", "one token": END, "tags": "<tool_response>\n1\n</tool_response>",
             "calls": "<tool_call>{}</tool_call>", "broken marks": "<|im_end|<|im_start|>|>", "three marks": END + END + OTHER_END, "quotes": "\"'\\n\\", "long": LONG * 3}
    for name, text in texts.items():
        run(f"feedback: {name}", PROMPT, [reply(text, 0.5), reply(text, 0.25, True)], ["one", "two"])
    run("feedback: joins of tokens", PROMPT, [reply("Let"), reply(" me see"), reply("er", 1.0, True)], [said("the", None), said("Let me s", None), said("answ", None)])
    run("feedback: bytes of a character", PROMPT, [reply(MIXED), reply("", 1.0, True)], [spelled("水é", None), spelled(MIXED)])
    run("feedback: the action again", PROMPT, [reply("{action}{action}"), reply("<{action}>", 1.0, True)], [spelled("a" + END + "b"), MIXED])


def rewards():
    run("rewards: sum", PROMPT, [reply("a", 0.5), reply("b", -2.0), reply("c", 0.1, True)], ["1", "2", "3"])
    run("rewards: float32", PROMPT, [reply("a", 0.1), reply("b", 0.2), reply("c", 1 / 3, True)], ["1", "2", "3"])
    run("rewards: scores", PROMPT, [reply("a", 0.5, score=0.25), reply("b", 0.5, True, score=1.0)], ["1", "2"])
    run("rewards: scores at first", PROMPT, [reply("a", 0.5, score=0.25), reply("b", 0.5, True)], ["1", "2"])
    run("rewards: a score at the end", PROMPT, [reply("a", 0.5), reply("b", 0.5, True, score=0.0)], ["1", "2"])
    run("rewards: none", PROMPT, [reply("a"), reply("b", 0.0, True)], ["1", "2"])
    run("rewards: the last reply ever after", PROMPT, [reply("a", 0.5), reply("b", 0.25)], ["1", "2", "3", "4", "5" * 9], max_length=len(said(PROMPT, None)) + 14)


def observations():
    run("reset: around the prompt", "What is it?", [reply(user("No.")), reply("", 1.0, True)], GUESSES,
        observation="<|im_start|>system\nGuess.<|im_end|>\n<|im_start|>user\n{prompt}<|im_end|>\n<|im_start|>assistant\n")
    run("reset: with the label", PROMPT, [reply("", 1.0, True)], GUESSES, label="é 7", observation="{prompt}Not {label}: ")
    run("reset: another text", PROMPT, [reply("", 1.0, True)], GUESSES, observation=MIXED)
    run("labels", PROMPT, [reply(user("It was {label}."), 0.0)], ["0", "the 水 is", DONE], label="水", stop_at_label=True)
    run("plain prompts", "Question: 6 * 7?\nAnswer:", [reply("\nNo.\nAnswer:", -1.0), reply("\nYes.", 1.0, True)], [said(" 41", None), said(" 42", None)])


def lengths():
    """The room for turns: exact limits, one below, one above."""
    start, first, between, second = len(said(PROMPT, None)), len(said("one")), len(said(user("No."), None)), len(said("two two"))
    replies, turns = [reply(user("No."), 0.5), reply(" over", 1.0, True)], ["one", "two two"]
    for name, at in (("within the first turn", start + 1), ("the first turn", start + first), ("the feedback", start + first + between), ("the second turn", start + first + between + second)):
        for max_length in (at - 1, at, at + 1):
            if max_length > start:
                run(f"length: {name}", PROMPT, replies, turns, max_length=max_length)
    run("length: within the feedback", PROMPT, replies, turns, max_length=start + first + 5)
    run("length: max_new_tokens holds for no turn", PROMPT, replies, [said("x" * 40), "two"], max_new_tokens=3, max_length=4000)
    for max_new_tokens in (1, 5, 20):
        for max_length in (start + max_new_tokens, start + max_new_tokens - 1, start + max_new_tokens - 4):
            run("length: the prompt is cut", PROMPT, replies, turns, max_new_tokens=max_new_tokens, max_length=max_length)
    run("length: no room at all", PROMPT, replies, turns, max_new_tokens=9, max_length=9)
    run("length: the prompt is cut within a character", MIXED, [reply("", 1.0, True)], [DONE], max_new_tokens=4, max_length=4 + len(said(MIXED, None)) - 5)


def varied():
    draw = random.Random(33)
    pieces = ["42", " the", "\n", MIXED, "é", "水", END, "<|im_start|>user\n", "<tool_call>", "'", "  ", "answer"]

    def text(most, of=pieces):
        return "".join(draw.choice(of) for _ in range(draw.randrange(most)))

    for _ in range(12):
        replies = [reply(draw.choice([text(5), user(text(3))]), draw.randrange(-8, 9) / 8, **({"score": draw.randrange(9) / 8} if draw.random() < 0.3 else {}))
                   for _ in range(draw.randrange(1, 4))] + [reply(text(3), 1.0, True)]
        turns = [said(text(5, [p for p in pieces if p != END]), draw.choice([END, END, END, OTHER_END])) for _ in replies]
        run("varied", draw.choice([PROMPT, text(4) + "Hi"]), replies, turns, max_length=draw.choice([4000, 4000, 60, 90]), include_stop=draw.random() < 0.25, label=draw.choice(["42", "é"]),
            **draw.choice([{}, {"stop_at_label": True}, {"observation": "{prompt}\n{label}? "}]))


def main():
    for part in (ends, feedbacks, rewards, observations, lengths, varied):
        part()
    size = write("agent_loop.json", scripts=scripts)
    print(len(scripts), "scripts,", size, "bytes", collections.Counter(s["kind"].split(":")[0] for s in scripts), collections.Counter(len(s["drawn"]) for s in scripts))


if __name__ == "__main__":
    main()
