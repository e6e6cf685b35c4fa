"""A headless Chromium driven by Selenium (Debian: python3-selenium, chromium-driver)."""
import base64
import os
import shutil
import tempfile

try:
    from selenium import webdriver
    from selenium.common.exceptions import TimeoutException
    from selenium.webdriver.chrome.service import Service
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.actions.action_builder import ActionBuilder
    from selenium.webdriver.common.actions.wheel_input import ScrollOrigin
    from selenium.webdriver.common.by import By
    from selenium.webdriver.support.ui import WebDriverWait
except ImportError:
    webdriver = None


def missing():
    """What is not installed, as a sentence; None if everything is there."""
    absent = [name for name, found in (("python3-selenium", webdriver), ("chromium-driver", shutil.which("chromedriver") and shutil.which("chromium"))) if not found]
    return f"skipped: {' and '.join(absent)} not installed (apt-get install {' '.join(absent)})" if absent else None


class Browser:
    """A browser with one window. Use it in a with statement, which ends it."""

    def __init__(self, width=1500, height=1000, dark=False):
        self.folder = tempfile.mkdtemp(prefix="millrace_browser_")
        os.environ["no_proxy"] = "localhost,127.0.0.1"  # Selenium would ask a proxy for the driver on this host
        options = webdriver.ChromeOptions()
        options.binary_location = shutil.which("chromium")
        for argument in ("--headless=new", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars", f"--window-size={width},{height}",
                         f"--user-data-dir={self.folder}/profile", "--no-first-run", "--disable-background-networking"):
            options.add_argument(argument)
        if os.geteuid() == 0:
            options.add_argument("--no-sandbox")
        if dark:
            options.add_argument("--force-dark-mode")
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        # The path is given, so that Selenium does not look for a driver to download.
        service = Service(shutil.which("chromedriver"), log_path=os.path.join(self.folder, "driver.log"), env={**os.environ, "HOME": self.folder})
        try:
            self.driver = webdriver.Chrome(service=service, options=options)
        except BaseException:
            shutil.rmtree(self.folder, ignore_errors=True)
            raise
        self.driver.set_script_timeout(120)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.driver.quit()
        shutil.rmtree(self.folder, ignore_errors=True)

    def open(self, address):
        self.driver.get(address)

    def resize(self, width, height=900):
        """Shows the page as in a window of this size, without a scroll bar; None: as in its own window. Returns after two frames."""
        if width is None:
            self.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        else:
            self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False})
        self.frames()

    def prefer(self, scheme):
        """Sets the colour scheme that the system prefers: light, dark, or None for its own."""
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme or ""}]})
        self.frames()

    def frames(self):
        """Waits for two frames, after which a change is drawn."""
        self.driver.execute_async_script("requestAnimationFrame(() => requestAnimationFrame(arguments[0]))")

    def run(self, script, *arguments):
        """Returns the value of the script, which sees arguments[0] and so on."""
        return self.driver.execute_script(script, *arguments)

    def click(self, selector):
        self.driver.find_element(By.CSS_SELECTOR, selector).click()

    def press(self, key):
        """Types a key into the element that has the focus."""
        ActionChains(self.driver).send_keys(key).perform()

    def log(self):
        """Lines of the console since the last call: dictionaries with level, source and message."""
        return self.driver.get_log("browser")

    def hover(self, x, y):
        """Moves the pointer to this place of the window, in pixels."""
        actions = ActionBuilder(self.driver, duration=50)
        actions.pointer_action.move_to_location(round(x), round(y))
        actions.perform()

    def drag(self, start, end):
        actions = ActionBuilder(self.driver, duration=50)
        middle = ((start[0] + end[0]) / 2, (start[1] + end[1]) / 2)
        actions.pointer_action.move_to_location(*map(round, start)).pointer_down()
        actions.pointer_action.move_to_location(*map(round, middle)).move_to_location(*map(round, end)).pointer_up()
        actions.perform()

    def wheel(self, x, y, down):
        """Turns the wheel at this place by `down` pixels; a negative number scrolls up."""
        ActionChains(self.driver, duration=0).scroll_from_origin(ScrollOrigin.from_viewport(round(x), round(y)), 0, down).perform()

    def wait(self, script, *arguments, seconds=10, what=""):
        """Waits until the script returns something true, and returns it."""
        try:
            return WebDriverWait(self.driver, seconds, poll_frequency=0.05).until(lambda _: self.run(script, *arguments))
        except TimeoutException:
            raise AssertionError(f"waited {seconds} s in vain for {what or script}") from None

    def screenshot(self, path, whole_page=False):
        settings = {"captureBeyondViewport": whole_page}
        if whole_page:
            settings["clip"] = {"x": 0, "y": 0, "width": self.run("return innerWidth"),
                                "height": self.run("return document.documentElement.scrollHeight"), "scale": 1}
        answer = self.driver.execute_cdp_cmd("Page.captureScreenshot", settings)
        with open(path, "wb") as file:
            file.write(base64.b64decode(answer["data"]))
