"""A headless Chromium, spoken to by the WebDriver protocol through Debian's chromium-driver. Standard library only."""
import json
import os
import shutil
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

ELEMENT = "element-6066-11e4-a52e-4f735466cecf"  # the key of an element's reference, fixed by the protocol


def missing():
    """What is not installed, as a sentence; nothing where all is there."""
    if not shutil.which("chromedriver") or not shutil.which("chromium"):
        return "skipped: chromedriver and chromium are not installed (apt-get install chromium-driver)"
    return None


class Browser:
    """A browser with one window. Use it in a with statement, which ends it."""

    def __init__(self, width=1500, height=1000, dark=False):
        self.folder = tempfile.mkdtemp(prefix="millrace_browser_")
        self.driver = None
        try:
            self._start(width, height, dark)
        except BaseException:
            self.close()
            raise

    def _start(self, width, height, dark):
        log = os.path.join(self.folder, "driver.log")
        with open(log, "wb") as output:
            self.driver = subprocess.Popen(["chromedriver", "--port=0"], stdout=output, stderr=subprocess.STDOUT,
                                           env={**os.environ, "HOME": self.folder})
        self.base = "http://127.0.0.1:%d" % self._port(log)
        arguments = ["--headless=new", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars", f"--window-size={width},{height}",
                     f"--user-data-dir={self.folder}/profile", "--no-first-run", "--disable-background-networking"]
        if os.geteuid() == 0:
            arguments.append("--no-sandbox")
        if dark:
            arguments.append("--force-dark-mode")
        answer = self._call("POST", "/session", {"capabilities": {"alwaysMatch": {
            "browserName": "chrome", "goog:chromeOptions": {"args": arguments}, "goog:loggingPrefs": {"browser": "ALL"}}}})
        self.base += "/session/" + answer["sessionId"]

    def _port(self, log):
        """The port that the driver chose and wrote down."""
        for _ in range(300):
            for line in open(log, errors="replace"):
                if "started successfully on port" in line:
                    return int(line.rsplit(" ", 1)[1].strip(" .\n"))
            if self.driver.poll() is not None:
                break
            time.sleep(0.1)
        raise RuntimeError("chromedriver did not start: " + open(log, errors="replace").read()[-2000:])

    def _call(self, method, path, body=None):
        data = None if method in ("GET", "DELETE") else json.dumps(body or {}).encode()
        request = urllib.request.Request(self.base + path, data=data, method=method, headers={"Content-Type": "application/json"})
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(request, timeout=120) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            value = json.load(error)["value"]
            raise RuntimeError(f"{method} {path}: {value['error']}: {value['message']}") from None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        if self.driver and self.driver.poll() is None:
            try:
                if "/session/" in getattr(self, "base", ""):
                    self._call("DELETE", "")
            except (RuntimeError, OSError):
                pass
            self.driver.terminate()
            try:
                self.driver.wait(10)
            except subprocess.TimeoutExpired:
                self.driver.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    # What a test does with it.

    def open(self, address):
        self._call("POST", "/url", {"url": address})

    def run(self, script, *arguments):
        """The value that the script returns; it sees arguments[0] and so on."""
        return self._call("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def find(self, selector):
        return self._call("POST", "/element", {"using": "css selector", "value": selector})

    def click(self, selector):
        self._call("POST", f"/element/{self.find(selector)[ELEMENT]}/click")

    def log(self):
        """Lines of the console since the last call: dictionaries with level, source and message."""
        return self._call("POST", "/se/log", {"type": "browser"})

    def actions(self, *devices):
        self._call("POST", "/actions", {"actions": list(devices)})

    def pointer(self, *steps):
        self.actions({"type": "pointer", "id": "mouse", "parameters": {"pointerType": "mouse"}, "actions": list(steps)})

    def hover(self, x, y):
        """Moves the pointer to this place of the window, in pixels."""
        self.pointer({"type": "pointerMove", "duration": 50, "x": round(x), "y": round(y)})

    def drag(self, start, end):
        move = lambda place: {"type": "pointerMove", "duration": 50, "x": round(place[0]), "y": round(place[1])}
        middle = ((start[0] + end[0]) / 2, (start[1] + end[1]) / 2)
        self.pointer(move(start), {"type": "pointerDown", "button": 0}, move(middle), move(end), {"type": "pointerUp", "button": 0})

    def wheel(self, x, y, down):
        """Turns the wheel at this place; negative is away from the hand."""
        self.actions({"type": "wheel", "id": "wheel", "actions": [
            {"type": "scroll", "x": round(x), "y": round(y), "deltaX": 0, "deltaY": down, "duration": 0}]})

    def wait(self, script, *arguments, seconds=10, what=""):
        """Until the script returns something true, which is the result."""
        end = time.monotonic() + seconds
        while True:
            value = self.run(script, *arguments)
            if value:
                return value
            if time.monotonic() > end:
                raise AssertionError(f"waited {seconds} s in vain for {what or script}")
            time.sleep(0.05)

    def screenshot(self, path, whole_page=False):
        import base64
        answer = self._call("POST", "/goog/cdp/execute", {"cmd": "Page.captureScreenshot", "params": {"captureBeyondViewport": whole_page, **(
            {"clip": {"x": 0, "y": 0, "width": self.run("return innerWidth"), "height": self.run("return document.documentElement.scrollHeight"), "scale": 1}} if whole_page else {})}})
        with open(path, "wb") as file:
            file.write(base64.b64decode(answer["data"]))
