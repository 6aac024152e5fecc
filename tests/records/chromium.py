"""A headless Chromium (Debian's), driven through the DevTools protocol over pipes: no port, no library."""
import json
import os
import shutil
import subprocess
import tempfile
import time


class Chromium:
    def __init__(self, deadline_s=60):
        self.profile = tempfile.mkdtemp(prefix="weft_chromium_")
        read_by_it, self.to = os.pipe()
        self.answers, written_by_it = os.pipe()
        moved = [os.dup2(read_by_it, 103, inheritable=True), os.dup2(written_by_it, 104, inheritable=True)]
        command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-dev-shm-usage",
                   "--disable-background-networking", "--disable-component-update", f"--user-data-dir={self.profile}",
                   "--remote-debugging-pipe", "about:blank"]
        # The browser reads descriptor 3 and writes 4.
        self.process = subprocess.Popen(["bash", "-c", 'exec "$@" 3<&103 4>&104 103<&- 104>&-', "chromium", *command], pass_fds=moved,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        for descriptor in (read_by_it, written_by_it, *moved):
            os.close(descriptor)
        self.deadline, self.number, self.rest, self.events = time.monotonic() + deadline_s, 0, b"", []
        target = [one for one in self.call("Target.getTargets")["targetInfos"] if one["type"] == "page"][0]["targetId"]
        self.session = None
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.call("Emulation.setScrollbarsHidden", hidden=True)  # a screenshot has none: the page stays as it was laid out

    def close(self):
        self.process.kill()
        self.process.wait()
        os.close(self.to)
        os.close(self.answers)
        shutil.rmtree(self.profile, ignore_errors=True)

    def message(self):
        while b"\0" not in self.rest:
            if time.monotonic() > self.deadline:
                raise TimeoutError("Chromium does not answer")
            piece = os.read(self.answers, 1 << 16)
            if not piece:
                raise RuntimeError("Chromium has ended")
            self.rest += piece
        line, self.rest = self.rest.split(b"\0", 1)
        return json.loads(line)

    def call(self, method, **parameters):
        self.number += 1
        request = {"id": self.number, "method": method, "params": parameters}
        if getattr(self, "session", None):
            request["sessionId"] = self.session
        os.write(self.to, json.dumps(request).encode() + b"\0")
        while True:
            answer = self.message()
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            self.events.append(answer)

    def open(self, path, width=1200, height=900, dark=False):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        self.events.clear()
        self.call("Page.navigate", url=f"file://{path}")
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self.message())
        while not self.run("document.querySelectorAll('polyline').length > 0"):
            if time.monotonic() > self.deadline:
                raise TimeoutError(f"the page draws nothing: {self.complaints()}")
            time.sleep(0.05)

    def run(self, expression):
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(result["exceptionDetails"])
        return result["result"].get("value")

    def mouse(self, kind, x, y, buttons=0):
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left" if kind != "mouseMoved" or buttons else "none",
                  buttons=buttons, clickCount=1)

    def key(self, key):
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, text=key if len(key) == 1 and kind == "keyDown" else "")

    def complaints(self):
        """Errors on the console, and requests for anything but files."""
        found = []
        for event in self.events:
            method, what = event.get("method"), event.get("params", {})
            if method == "Runtime.exceptionThrown" or (method == "Log.entryAdded" and what["entry"]["level"] in ("error", "warning")):
                found.append(json.dumps(what)[:400])
            if method == "Runtime.consoleAPICalled" and what["type"] in ("error", "warning", "assert"):
                found.append(json.dumps(what)[:400])
            if method == "Network.requestWillBeSent" and not what["request"]["url"].startswith(("file:", "data:")):
                found.append(f"request of {what['request']['url']}")
        return found

    def screenshot(self, path, area=None, scale=1):
        """Of the page, or of (left, top, width, height) of it."""
        import base64
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        left, top, width, height = area or (0, 0, size["width"], size["height"])
        clip = {"x": left, "y": top, "width": width, "height": height, "scale": scale}
        data = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(data))
