"""A headless Chromium, spoken to over WebDriver's HTTP; pages are opened with the network cut."""

import base64
import http.client
import json
import os
import pathlib
import shutil
import subprocess
import time
from typing import Any

_ARGUMENTS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars")
_PATIENCE = 60.0  # seconds


def find() -> tuple[str, str] | None:
    """The paths of chromium and its driver; None where one of them is missing."""
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    driver = shutil.which("chromedriver")
    return (chromium, driver) if chromium and driver else None


class Browser:
    """One window. `open` waits until the page says that it is ready."""

    def __init__(self, chromium: str, driver: str, home: pathlib.Path):
        # A home of its own, so that it touches nothing of the user's.
        environment = {**os.environ, "HOME": str(home)}
        self._process = subprocess.Popen(
            [driver, "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment
        )
        assert self._process.stdout
        lines = iter(self._process.stdout.readline, "")
        port = next(line.split("port ")[1].strip(" .\n") for line in lines if "successfully on port" in line)
        self._connection = http.client.HTTPConnection("127.0.0.1", int(port), timeout=2 * _PATIENCE)
        options = {"binary": chromium, "args": [*_ARGUMENTS, f"--user-data-dir={home / 'profile'}"]}
        capabilities = {
            "browserName": "chrome",
            "goog:chromeOptions": options,
            "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
        }
        self._session = ""
        session = self._send("POST", "", {"capabilities": {"alwaysMatch": capabilities}})
        self._session = f"/{session['sessionId']}"

    def _send(self, method: str, path: str, body: Any = None) -> Any:
        text = None if body is None else json.dumps(body)
        self._connection.request(method, f"/session{self._session}{path}", text, {"Content-Type": "application/json"})
        answer = json.loads(self._connection.getresponse().read())["value"]
        if isinstance(answer, dict) and "error" in answer:
            raise RuntimeError(f"{answer['error']}: {answer['message']}")
        return answer

    def close(self) -> None:
        """Ends browser and driver."""
        try:
            self._send("DELETE", "")
        finally:
            self._connection.close()
            self._process.terminate()
            self._process.communicate()

    def cdp(self, command: str, **parameters: Any) -> Any:
        """A command of the DevTools protocol."""
        return self._send("POST", "/goog/cdp/execute", {"cmd": command, "params": parameters})

    def open(self, page: pathlib.Path, width: int = 1440, scheme: str = "light", media: str = "screen") -> None:
        """Opens a file at a width, as if the network were down, and waits until its first figures are drawn."""
        self.cdp("Network.enable")
        self.cdp("Network.emulateNetworkConditions", offline=True, latency=0, downloadThroughput=0, uploadThroughput=0)
        self.cdp("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 500)
        self.dress(scheme, media)
        self.logs("browser"), self.logs("performance")
        self.open_address(page.resolve().as_uri())

    def open_address(self, address: str) -> None:
        """Opens a file with what stands behind its # and waits until its first figures are drawn."""
        self._send("POST", "/url", {"url": "about:blank"})
        self._send("POST", "/url", {"url": address})
        self.wait("return document.body.dataset.ready === 'true'")

    def draw_all(self) -> None:
        """Draws the figures that are out of view too, as printing does."""
        self.run("window.dispatchEvent(new Event('beforeprint'))")
        self.wait("return document.body.dataset.whole === 'true'")

    def keep_downloads(self, folder: pathlib.Path) -> None:
        """Saves what the page offers in a folder."""
        self.cdp("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(folder))

    def dress(self, scheme: str, media: str = "screen") -> None:
        """Light or dark, screen or print."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.cdp("Emulation.setEmulatedMedia", media=media, features=features)

    def run(self, script: str, *arguments: Any) -> Any:
        """What a script returns; it sees the arguments as arguments[0] and so on."""
        return self._send("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def wait(self, script: str, *arguments: Any) -> None:
        """Until a script returns true; a figure follows its controls a moment later."""
        end = time.monotonic() + _PATIENCE
        while not self.run(script, *arguments):
            assert time.monotonic() < end, f"{script} stays false: {self.logs('browser')}"
            time.sleep(0.02)

    def click(self, selector: str) -> None:
        """A click on the first element, as a hand would."""
        found = self._send("POST", "/element", {"using": "css selector", "value": selector})
        self._send("POST", f"/element/{next(iter(found.values()))}/click", {})

    def type(self, selector: str, text: str) -> None:
        """Replaces what a field holds."""
        found = self._send("POST", "/element", {"using": "css selector", "value": selector})
        element = f"/element/{next(iter(found.values()))}"
        self._send("POST", f"{element}/clear", {})
        self._send("POST", f"{element}/value", {"text": text})

    def logs(self, kind: str) -> list[dict[str, Any]]:
        """What was logged since the last call."""
        return self._send("POST", "/se/log", {"type": kind})

    def complaints(self) -> list[str]:
        """Errors and warnings of the console since the page was opened."""
        return [entry["message"] for entry in self.logs("browser") if entry["level"] in ("WARNING", "SEVERE")]

    def requests(self) -> list[str]:
        """Addresses that the page asked for since it was opened, itself among them."""
        messages = [json.loads(entry["message"])["message"] for entry in self.logs("performance")]
        sent = [one["params"]["request"]["url"] for one in messages if one["method"] == "Network.requestWillBeSent"]
        return [url for url in sent if not url.startswith(("about:", "data:"))]

    def overflow(self) -> int:
        """By how many pixels the page is wider than the window."""
        return self.run("return document.documentElement.scrollWidth - document.documentElement.clientWidth")

    def empty_figures(self) -> list[str]:
        """Names of the figures that show no mark."""
        return self.run(
            "return [...document.querySelectorAll('figure')].filter((one) => !one.querySelector("
            "'.drawing svg .mark-line path[d], .drawing svg .mark-symbol path[d], .drawing svg .mark-rect path[d], "
            ".drawing svg .mark-area path[d], .drawing svg .mark-rule line')).map((one) => one.id)"
        )

    def print(self, path: pathlib.Path) -> None:
        """The page as a printer gets it, as PDF."""
        path.write_bytes(base64.b64decode(self.cdp("Page.printToPDF", printBackground=True)["data"]))
