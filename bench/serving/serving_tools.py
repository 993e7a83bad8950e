"""What the tools of this folder share: starting servers, `skein bench serve`, the machine, and files of results. Standard library only."""

import json
import os
import re
import signal
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
READY = re.compile(r"skein: serving (.+) at (http://\S+) \(pid (\d+)\)")


def machine():
    """(type, processor): the type is what decides speed."""
    text = Path("/proc/cpuinfo").read_text()
    flags = set(re.search(r"^flags\s*: (.*)$", text, re.M).group(1).split())
    kind = "amx" if "amx_bf16" in flags else "avx512vnni" if "avx512_vnni" in flags else "avx2"
    return kind, re.search(r"^model name\s*: (.*)$", text, re.M).group(1)


def write_result(kind, name, entries, key):
    """Puts `entries` into bench/results/<kind>/<name>; earlier ones are kept, but for those that `key` calls the same."""
    file = ROOT / "bench" / "results" / kind / name
    file.parent.mkdir(parents=True, exist_ok=True)
    earlier = json.loads(file.read_text()) if file.exists() else []
    new = [key(entry) for entry in entries]
    file.write_text(json.dumps([entry for entry in earlier if key(entry) not in new] + entries, indent=1, ensure_ascii=False) + "\n")
    return file


def bench(skein, url, *arguments, timeout=1200):
    """The figures of `skein bench serve` as a dictionary."""
    command = [str(skein), "bench", "serve", "--base-url", url, "--json", "--quiet", *map(str, arguments)]
    outcome = subprocess.run(command, capture_output=True, text=True, timeout=timeout)
    if outcome.returncode not in (0, 5) or not outcome.stdout.startswith('{"backend"'):
        raise RuntimeError(f"{' '.join(command)}: {outcome.stderr.strip()}")
    return json.loads(outcome.stdout)


class Server:
    """A server process in a `with` block; SIGTERM at the end."""

    def __init__(self, command):
        self.command = [str(word) for word in command]
        self.url = None

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def get(self, path, timeout=5):
        """(status, text)."""
        try:
            with urllib.request.urlopen(self.url + path, timeout=timeout) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def rss_bytes(self):
        return int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class SkeinServer(Server):
    def __init__(self, skein, model, *arguments):
        super().__init__([skein, "serve", model, "--port", 0, *arguments])

    def __enter__(self):
        self.process = subprocess.Popen(self.command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace")
        log = []
        for line in self.process.stderr:
            log.append(line)
            if found := READY.search(line):
                self.url = found.group(2)
                # Somebody has to read the log, or the server waits for room in the pipe.
                threading.Thread(target=lambda: [None for _ in self.process.stderr], daemon=True).start()
                return self
        raise RuntimeError(f"{' '.join(self.command)} did not start: {''.join(log[-3:])}")


class LlamaServer(Server):
    """llama-server with its best flags for `clients` sequences of `tokens`."""

    def __init__(self, program, model, threads, clients, tokens):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            self.port = listener.getsockname()[1]
        super().__init__([program, "-m", model, "--port", self.port, "-t", threads, "-tb", threads, "-np", clients, "-c", clients * tokens,
                          "-fa", "on", "--no-webui"])

    def __enter__(self):
        self.url = f"http://127.0.0.1:{self.port}"
        self.process = subprocess.Popen(self.command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline and self.process.poll() is None:
            try:
                if self.get("/health")[0] == 200:
                    return self
            except OSError:
                pass
            time.sleep(0.2)
        self.__exit__()
        raise RuntimeError(f"{' '.join(self.command)} did not start")
