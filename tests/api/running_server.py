"""A running `skein serve` for tests, and the few ways to talk to it. Standard library only."""

import http.client
import json
import os
import re
import signal
import socket
import struct
import subprocess
import threading
import time
from pathlib import Path

SKEIN = os.environ.get("SKEIN", "build/ci/skein")
READY = re.compile(r"skein: serving (\S+) at http://127\.0\.0\.1:(\d+) \(pid \d+\)")
TEMPLATE = "{% for message in messages %}{{ message.role }}: {{ message.content }}\n{% endfor %}assistant: "


def with_chat_template(source, target, template=TEMPLATE):
    """Copies a GGUF file and adds a chat template. The entry is padded to whole alignments (32), so that no tensor moves."""
    data = Path(source).read_bytes()
    key = b"tokenizer.chat_template"
    head = struct.pack("<Q", len(key)) + key + struct.pack("<I", 8)  # 8: a string
    text = template.encode()
    text += b"{# " + b" " * (-(len(head) + 8 + len(text) + 6) % 32) + b" #}"
    entry = head + struct.pack("<Q", len(text)) + text
    count = struct.unpack_from("<Q", data, 16)[0]
    with open(target, "wb") as file:
        file.write(data[:16] + struct.pack("<Q", count + 1) + entry + data[24:])
    return target


def is_alive(pid):
    """Whether a process is there and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


class Answer:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    def json(self):
        return json.loads(self.body)


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


class RunningServer:
    """`with RunningServer(model, ...) as server`. A free port; the log lines are in `log`, or in the file `log_to`."""

    def __init__(self, model, *arguments, env=None, log_to=None):
        clean = {name: value for name, value in os.environ.items() if not name.startswith("SKEIN_")}
        self.log, self.model, self.reader = [], None, None
        self.port = free_port() if log_to else None
        command = [SKEIN, "serve", str(model), "--port", str(self.port or 0), "--context", "4096", "--kv-memory", "32MiB", *map(str, arguments)]
        options = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "text": True, "env": {**clean, **(env or {})}}
        if log_to:
            with open(log_to, "w", encoding="utf-8") as log:
                self.process = subprocess.Popen(command, stderr=log, **options)
            self._wait_until_ready()
            return
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, **options)
        found = threading.Event()
        self.reader = threading.Thread(target=self._read_log, args=(found,), daemon=True)
        self.reader.start()
        if not found.wait(60) or self.port is None:
            self.process.kill()
            raise AssertionError(f"no ready line: {self.log}")

    def _wait_until_ready(self, seconds=60):
        """Of a server whose log is not read here."""
        deadline = time.monotonic() + seconds
        while self.model is None:
            try:
                self.model = self.get("/v1/models").json()["data"][0]["id"]
            except OSError:
                if time.monotonic() > deadline or self.process.poll() is not None:
                    self.process.kill()
                    raise
                time.sleep(0.05)

    def _read_log(self, found):
        for line in self.process.stderr:
            self.log.append(line.rstrip("\n"))
            match = READY.search(line)
            if match:
                self.model, self.port = match.group(1), int(match.group(2))
                found.set()
        found.set()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.process.kill()
        self.process.wait()
        if self.reader:
            self.reader.join(10)
            self.process.stderr.close()

    def request(self, method, path, body=None, headers=None, timeout=60):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            connection.request(method, path, json.dumps(body).encode() if body is not None else None, headers or {})
            answer = connection.getresponse()
            return Answer(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read())
        finally:
            connection.close()

    def get(self, path, **options):
        return self.request("GET", path, **options)

    def complete(self, prompt, headers=None, **fields):
        fields = {"model": self.model, "prompt": prompt, "temperature": 0, "max_tokens": 8, **fields}
        return self.request("POST", "/v1/completions", fields, headers)

    def chat(self, text, **fields):
        body = {"model": self.model, "messages": [{"role": "user", "content": text}], "temperature": 0, "max_tokens": 8}
        return self.request("POST", "/v1/chat/completions", {**body, **fields})

    def events(self, path, body):
        """The data lines of a whole stream, as text."""
        answer = self.request("POST", path, {"model": self.model, "temperature": 0, "max_tokens": 8, "stream": True, **body})
        assert answer.status == 200, answer.body
        assert answer.headers["content-type"].startswith("text/event-stream"), answer.headers
        lines = [line for line in answer.body.decode().split("\n\n") if line and not line.startswith(":")]
        assert all(line.startswith("data: ") for line in lines), lines
        return [line[6:] for line in lines]

    def open_stream(self, prompt, buffer_bytes=None, **fields):
        """A socket with a streamed request sent, and nothing read."""
        body = json.dumps({"model": self.model, "prompt": prompt, "temperature": 0, "stream": True, **fields}).encode()
        connection = socket.socket()
        if buffer_bytes:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer_bytes)
        connection.settimeout(60)
        connection.connect(("127.0.0.1", self.port))
        connection.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                           b"Content-Length: %d\r\n\r\n" % len(body) + body)
        return connection

    def metric(self, name):
        """The sum of a metric's series."""
        values = [float(line.rsplit(" ", 1)[1]) for line in self.get("/metrics").body.decode().splitlines()
                  if line.startswith((name + " ", name + "{"))]
        assert values, f"no metric {name}"
        return sum(values)

    def wait_metric(self, name, wanted, seconds=30):
        """Waits until a metric has the value; returns the last seen. The deadline only tells a hang."""
        return self._wait(name, lambda value: value == wanted, seconds)

    def wait_at_least(self, name, wanted, seconds=30):
        return self._wait(name, lambda value: value >= wanted, seconds)

    def _wait(self, name, holds, seconds):
        deadline = time.monotonic() + seconds
        value = self.metric(name)
        while not holds(value) and time.monotonic() < deadline:
            time.sleep(0.02)
            value = self.metric(name)
        return value

    def forget_memory_peak(self):
        """The memory peak counts from now on; returns what it begins with."""
        Path(f"/proc/{self.process.pid}/clear_refs").write_text("5")
        return self.memory_peak()

    def memory_peak(self):
        """Bytes that the process had resident at most."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return 1024 * int(re.search(r"^VmHWM:\s+(\d+) kB$", status, re.M).group(1))
