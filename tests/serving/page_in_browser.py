"""What a reader of the page at / sees in Chromium: page_in_browser.py CHROMIUM URL SECOND_URL [FOLDER for screenshots]

Chromium is driven by its own protocol over a pipe. The server at SECOND_URL allows requests of the page.
"""
import base64
import colorsys
import contextlib
import json
import math
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time


class Page:
    """A page of a browser without a window."""

    def __init__(self, chromium, folder):
        to_browser, self.write = os.pipe()
        self.read, from_browser = os.pipe()

        def pipes():  # what it reads is 3, what it writes is 4
            low = os.dup(to_browser), os.dup(from_browser)
            for number, end in zip((3, 4), [os.dup(e) for e in low]):
                os.dup2(end, number)

        self.process = subprocess.Popen(
            [chromium, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
             f"--user-data-dir={folder}", "--remote-debugging-pipe", "about:blank"],
            preexec_fn=pipes, close_fds=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_browser), os.close(from_browser)
        self.number, self.held, self.session, self.faults = 0, b"", None, []
        target = next(t for t in self.call("Target.getTargets")["targetInfos"] if t["type"] == "page")
        self.session = self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        text = json.dumps(message | ({"sessionId": self.session} if self.session else {}))
        os.write(self.write, text.encode() + b"\0")
        while True:
            while b"\0" not in self.held:
                part = os.read(self.read, 1 << 16)
                if not part:
                    sys.exit("Chromium has ended")
                self.held += part
            text, self.held = self.held.split(b"\0", 1)
            answer = json.loads(text)
            if answer.get("method") == "Runtime.exceptionThrown":
                self.faults.append(answer["params"]["exceptionDetails"])
            if answer.get("id") == self.number:
                if "error" in answer:
                    sys.exit(f"{method}: {answer['error']}")
                return answer["result"]

    def value(self, expression):
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            sys.exit(f"{expression}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def wait(self, expression, seconds=30):
        end = time.monotonic() + seconds
        while not self.value(expression):
            if time.monotonic() > end:
                sys.exit(f"never true: {expression}\n{self.value('document.body.innerText')}")
            time.sleep(0.02)

    def size(self, width, height):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1,
                  mobile=width < 500)

    def picture(self, file):
        data = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True)["data"]
        pathlib.Path(file).write_bytes(base64.b64decode(data))


def ask(page, text):
    page.value(f"""at("message").value = {json.dumps(text)}; at("ask").requestSubmit()""")
    page.wait("""!at("send").disabled""")


def expect(found, wanted, what):
    if found != wanted:
        sys.exit(f"{what}: expected {wanted!r}, found {found!r}")


def names(url):
    from urllib.request import urlopen
    return [m["id"] for m in json.load(urlopen(url + "/v1/models"))["data"]]


ANSWERS = """[...document.querySelectorAll(".turn:last-child .answer")].map(a => ({
    title: a.querySelector("h2").textContent, error: a.querySelector(".error")?.textContent ?? null,
    text: [...a.querySelectorAll("span:not(.end)")].map(s => s.textContent).join("")}))"""
SPANS = """[...document.querySelectorAll(".answer span")].map(s => ({
    title: s.title, colour: getComputedStyle(s).backgroundColor}))"""


def api(url, messages, **options):
    """What the server answers to somebody who is not the page."""
    from urllib.request import Request, urlopen
    body = {"messages": messages, "temperature": 0.3, "top_p": 1, "max_tokens": 30, "seed": 4} | options
    request = Request(url + "/v1/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})
    return json.load(urlopen(request))["choices"][0]["message"]["content"]


def look(page, url, second, pictures):
    page.size(1280, 800)
    page.call("Page.navigate", url=url + "/")
    page.wait("""document.readyState === "complete" && document.getElementById("ask") !== null""")
    page.wait("""at("model").textContent !== "rlcore" """)
    expect(page.value("""at("model").textContent"""), ", ".join(names(url)), "model before the first answer")
    page.value("""at("max_tokens").value = 30; at("seed").value = 4; at("temperature").value = 0.3""")
    questions = ["How many are <b>left</b>?", "And then?"]
    talk = []
    for question in questions:
        ask(page, question)
        talk.append({"role": "user", "content": question})
        shown = page.value(ANSWERS)
        expect(len(shown), 1, "answers")
        expect(shown[0]["error"], None, "error")
        expect(shown[0]["text"], wanted := api(url, talk), "text")
        talk.append({"role": "assistant", "content": wanted})
    expect(page.value("""[...document.querySelectorAll(".user")].map(u => u.textContent)"""), questions, "questions")
    spans = page.value(SPANS)
    if not all(s["title"].count("\n") >= 5 for s in spans):
        sys.exit(f"tokens without log-probs: {spans}")
    hues = [120 * math.exp(float(s["title"].split("\n")[0])) for s in spans]
    if max(hues) - min(hues) < 5:
        sys.exit(f"tokens of equal certainty prove nothing: {hues}")
    for span, hue in zip(spans, hues):  # red at probability 0, green at 1
        wanted = [255 * x for x in colorsys.hls_to_rgb(hue / 360, 0.8, 0.8)]
        shown = [int(x) for x in re.findall(r"\d+", span["colour"])]
        if max(abs(a - b) for a, b in zip(shown, wanted)) > 2:
            sys.exit(f"{span}: expected {wanted}")
    page.value("""at("colours").click()""")
    expect({s["colour"] for s in page.value(SPANS)}, {"rgba(0, 0, 0, 0)"}, "tokens without colours")
    page.value("""at("colours").click()""")

    page.value("""at("reset").click(); at("system").value = "Be brief." """)
    ask(page, "How many?")
    talk = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "How many?"}]
    expect(page.value(ANSWERS)[0]["text"], api(url, talk), "text with a system prompt")
    page.value("""at("system").value = "" """)

    page.value(f"""at("reset").click(); at("second").value = {json.dumps(second + "/v1/")}""")
    expect(page.value("""at("log").children.length"""), 0, "turns of a new conversation")
    ask(page, "How many?")
    both = page.value(ANSWERS)
    first = [{"role": "user", "content": "How many?"}]
    expect([a["text"] for a in both], [api(url, first), api(second, first)], "texts of two servers")
    expect([a["title"].split(" at ")[1] for a in both], [url, second], "addresses")
    if both[0]["text"] == both[1]["text"]:
        sys.exit("two models with one text prove nothing")
    for width in (1280, 390):
        page.size(width, 800)
        expect(page.value("document.documentElement.scrollWidth <= innerWidth"), True, f"fits {width} pixels")
        boxes = page.value("""[...document.querySelectorAll(".answer")].map(a => a.getBoundingClientRect().width)""")
        if min(boxes) < 150:
            sys.exit(f"answers of {boxes} pixels at {width}")
        if pictures:
            page.picture(f"{pictures}/page_{width}.png")
    page.value("""at("second").value = "http://127.0.0.1:1" """)
    ask(page, "How many?")
    hint = f"no answer: is it started with --allowed-origins {url}?"
    expect(page.value(ANSWERS)[1]["error"], hint, "no second server")
    page.value("""at("second").value = ""; at("top_p").value = 7""")
    ask(page, "How many?")
    if "top_p" not in page.value(ANSWERS)[0]["error"]:
        sys.exit("a refusal is not shown")
    page.value("""at("top_p").value = 1; at("max_tokens").value = 900; at("message").value = "Go on";
                  at("ask").requestSubmit(); at("stop").click()""")
    page.wait("""!at("send").disabled""")
    expect(page.value(ANSWERS)[0]["error"], None, "error of what was stopped")
    expect(page.faults, [], "exceptions")


with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
    page = Page(sys.argv[1], folder)
    try:
        look(page, *sys.argv[2:4], sys.argv[4] if len(sys.argv) > 4 else None)
    finally:
        page.process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            page.process.wait(10)
