"""A browser: a headless Chromium that shows a page, driven by its DevTools protocol over two pipes.

The protocol needs no library where it comes by pipe (`--remote-debugging-pipe`): messages are JSON, each ended by a NUL, on the
descriptors 3 and 4 of the browser.
"""

import base64
import fcntl
import itertools
import json
import os
import shutil
import subprocess
import tempfile
import threading

from .folders import place
from .waiting import PATIENCE, until

OPTIONS = [
    "--headless=new", "--remote-debugging-pipe", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-extensions",
    "--disable-background-networking", "--disable-component-update", "--hide-scrollbars", "--force-device-scale-factor=1",
]


def program():
    """The browser's, or None where there is none."""
    return shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


class Browser:
    """One browser with one page."""

    def __init__(self, width=1280, height=900, dark=False):
        assert program(), "chromium is missing: .ci/install test installs it"
        self.folder = tempfile.mkdtemp(prefix="onramp-browser-", dir=place())
        self.numbers, self.answers, self.events = itertools.count(1), {}, []
        self.said = threading.Condition()
        # As root the browser's own sandbox is not to be had; it is shown our own pages only.
        alone = ["--no-sandbox"] if os.geteuid() == 0 else []
        here, theirs = os.pipe(), os.pipe()
        # Above those that they become, so that none is overwritten before it is moved.
        reads, writes = (fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (here[0], theirs[1]))
        # bash moves them to where the browser looks for them.
        command = ["bash", "-c", f'exec "$@" 3<&{reads} 4>&{writes} {reads}<&- {writes}>&-', "browser", program(), *OPTIONS, *alone,
                   f"--user-data-dir={self.folder}", f"--window-size={width},{height}", "about:blank"]
        self.process = subprocess.Popen(command, pass_fds=(reads, writes), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL, start_new_session=True)
        for end in (here[0], theirs[1], reads, writes):
            os.close(end)
        self.to, self.back = os.fdopen(here[1], "wb", buffering=0), os.fdopen(theirs[0], "rb")
        threading.Thread(target=self._listen, daemon=True).start()
        try:
            self._open_page(width, height, dark)
        except BaseException:
            self.close()
            raise

    def _open_page(self, width, height, dark):
        target = until(lambda: [one for one in self.call("Target.getTargets")["targetInfos"] if one["type"] == "page"], "it has no page")[0]
        self.session = self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.resize(width, height)
        if dark:
            self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark"}])

    session = None

    def _listen(self):
        rest = b""
        while piece := self.back.read1(1 << 16):
            *whole, rest = (rest + piece).split(b"\0")
            with self.said:
                for message in map(json.loads, whole):
                    if "id" in message:
                        self.answers[message["id"]] = message
                    else:
                        self.events.append(message)
                self.said.notify_all()

    def call(self, method, **parameters):
        """What a command of the protocol answers."""
        number = next(self.numbers)
        message = {"id": number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        self.to.write(json.dumps(message).encode() + b"\0")
        with self.said:
            assert self.said.wait_for(lambda: number in self.answers, PATIENCE), f"no answer to {method}"
            answer = self.answers.pop(number)
        assert "error" not in answer, f"{method}: {answer['error']}"
        return answer["result"]

    def password(self, password):
        """Sent with every request from now on, as a person would have typed it once; with None, none is any more."""
        basic = base64.b64encode(f":{password}".encode()).decode()
        self.call("Network.setExtraHTTPHeaders", headers={} if password is None else {"Authorization": f"Basic {basic}"})

    def resize(self, width, height):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def go(self, address):
        self.call("Page.navigate", url=address)

    def run(self, script):
        """What an expression of JavaScript gives; promises are waited for."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def text(self, selector="body"):
        """What a person reads there."""
        return self.run(f"document.querySelector({json.dumps(selector)})?.innerText ?? ''")

    def shows(self, *texts, within="body"):
        """Waits until all texts are there; returns what is."""
        def found():
            text = self.text(within)
            return text if all(one in text for one in texts) else None

        return until(found, lambda: f"not shown: {texts}\n{self.text(within)}", pause=0.1)

    def key(self, key, text=None):
        """Presses and releases a key, by its name in DOM."""
        also = {"text": text} if text else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, code=key, **also)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key, code=key)

    def troubles(self):
        """What the page has done wrong: exceptions, and what its policy forbids. That a request was not answered is none."""
        def is_trouble(event):
            entry = event.get("params", {}).get("entry", {})
            return event["method"] == "Runtime.exceptionThrown" or entry.get("level") == "error" and entry.get("source") != "network"

        return [event for event in self.events if is_trouble(event)]

    def addresses(self):
        """All that has been asked for."""
        sent = [event["params"]["request"]["url"] for event in self.events if event["method"] == "Network.requestWillBeSent"]
        return {address for address in sent if not address.startswith("data:")}

    def screenshot(self, path):
        """The whole window."""
        shot = self.call("Page.captureScreenshot", format="png")
        with open(path, "wb") as file:
            file.write(base64.b64decode(shot["data"]))

    def close(self):
        if self.process.poll() is None:
            try:
                self.session = None
                self.to.write(json.dumps({"id": next(self.numbers), "method": "Browser.close"}).encode() + b"\0")
                self.process.wait(20)
            except (OSError, subprocess.TimeoutExpired):
                os.killpg(self.process.pid, 9)
                self.process.wait()
        self.to.close()
        shutil.rmtree(self.folder, ignore_errors=True)
