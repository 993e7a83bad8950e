#!/usr/bin/env python3
"""What operators install: the systemd unit, the container's recipe, the dashboard and the alert rules. The queries are run by a
real Prometheus that scraped a real server; where Prometheus or systemd is not installed, that part is skipped and says so.
SKEIN is the binary, SKEIN_TINY_MODEL the model."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import unittest
import urllib.parse
import urllib.request
from pathlib import Path

SKEIN = os.environ.get("SKEIN", "build/ci/skein")
MODEL = os.environ.get("SKEIN_TINY_MODEL", "tiny.gguf")
DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
EXPOSURE_MAX = 2.5
INTERVALS = {"$__rate_interval": "1m", "$instance": ".*"}


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def dashboard_queries():
    panels = json.loads((DEPLOY / "grafana" / "skein.json").read_text())["panels"]
    return [(panel["title"], target["expr"]) for panel in panels for target in panel.get("targets", [])]


def alert_queries():
    text = (DEPLOY / "prometheus" / "alerts.yml").read_text()
    return re.findall(r"- alert: (\w+)\n\s+expr: (.+)\n", text)


def flags_of(command):
    return set(re.findall(r"--[a-z][a-z-]+", command))


def serve_flags():
    return flags_of(subprocess.run([SKEIN, "serve", "--help"], capture_output=True, text=True, check=True).stdout)


class Unit(unittest.TestCase):
    @unittest.skipUnless(shutil.which("systemd-analyze"), "systemd-analyze is not installed")
    def test_exposure(self):
        # A server that reads what strangers send must not own the machine when it is broken into.
        outcome = subprocess.run(["systemd-analyze", "security", "--offline=true", str(DEPLOY / "skein.service")], capture_output=True, text=True,
                                 env={**os.environ, "LC_ALL": "C.UTF-8"})
        found = re.search(r"exposure level for skein\.service: ([\d.]+)", outcome.stdout)
        self.assertIsNotNone(found, outcome.stdout + outcome.stderr)
        self.assertLessEqual(float(found.group(1)), EXPOSURE_MAX)
        self.assertNotIn("Unknown key", outcome.stderr)

    def test_flags_exist(self):
        # A unit with a flag of another version never starts.
        unit = (DEPLOY / "skein.service").read_text()
        command = re.search(r"^ExecStart=(.+)$", unit, re.M).group(1)
        self.assertLessEqual(flags_of(command), serve_flags())
        container = (DEPLOY / "Containerfile").read_text()
        for line in re.findall(r"^(?:ENTRYPOINT|CMD) (.+)$", container, re.M):
            self.assertLessEqual(flags_of(line), serve_flags())
        self.assertRegex(container, r"(?m)^USER (?!root|0\b)\S+")


class Server:
    """`skein serve` of the tiny model on a free port."""

    def __enter__(self):
        self.process = subprocess.Popen([SKEIN, "serve", MODEL, "--port", "0"], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
        self.log = []
        for line in self.process.stderr:
            self.log.append(line)
            if found := re.search(r"at http://([\d.]+:\d+) \(pid", line):
                self.address = found.group(1)
                return self
        raise AssertionError("".join(self.log))

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        self.process.communicate(timeout=60)


class Prometheus:
    """A Prometheus of its own, in a folder of its own, that scrapes `address` each second."""

    def __init__(self, address, folder):
        self.url = f"http://127.0.0.1:{free_port()}"
        shutil.copy(DEPLOY / "prometheus" / "alerts.yml", folder)
        text = (DEPLOY / "prometheus" / "prometheus.yml").read_text()
        config = Path(folder, "prometheus.yml")
        config.write_text(text.replace("127.0.0.1:8000", address).replace("scrape_interval: 10s", "scrape_interval: 1s"))
        self.process = subprocess.Popen(
            ["prometheus", f"--config.file={config}", f"--storage.tsdb.path={folder}/data", f"--web.listen-address={self.url[7:]}"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(60)

    def query(self, expression):
        """The series that the query gives. Raises when it is no query."""
        url = f"{self.url}/api/v1/query?" + urllib.parse.urlencode({"query": expression})
        try:
            with urllib.request.urlopen(url, timeout=20) as answer:
                return json.load(answer)["data"]["result"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{expression}: {error.read().decode()}") from error

    def wait_for(self, expression, seconds=60):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            try:
                if self.query(expression):
                    return True
            except OSError:
                pass
            time.sleep(0.3)
        return False


@unittest.skipUnless(shutil.which("prometheus"), "prometheus is not installed: apt-get install prometheus")
class Queries(unittest.TestCase):
    def test_every_query_gives_data(self):
        # A panel or an alert on a metric that does not exist is silent when it matters.
        with tempfile.TemporaryDirectory() as folder, Server() as server, Prometheus(server.address, folder) as prometheus:
            self.assertTrue(prometheus.wait_for('up{job="skein"} == 1'), "not scraped")
            trace = Path(folder, "trace.jsonl")
            trace.write_text('{"prompt": "ab cd", "max_tokens": 8}\n' * 12)
            for _ in range(2):  # a counter that appears with its first value shows no rate before its second
                subprocess.run([SKEIN, "bench", "serve", "--base-url", f"http://{server.address}", "--dataset", f"trace:{trace}"], check=True,
                               capture_output=True, timeout=100)
                time.sleep(2.5)
            self.assertTrue(prometheus.wait_for("sum(increase(vllm:generation_tokens_total[1m])) > 0"), "no rate")
            queries = dashboard_queries()
            self.assertGreater(len(queries), 20)
            for title, expression in queries:
                with self.subTest(title=title):
                    for name, value in INTERVALS.items():
                        expression = expression.replace(name, value)
                    self.assertTrue(prometheus.query(expression), f"{expression} gives nothing")
            for name, expression in alert_queries():
                with self.subTest(alert=name):
                    prometheus.query(expression)
                    # On a healthy server alerts give nothing: the same query with comparisons as values, and with answers that succeeded.
                    values = re.sub(r" (==|>|<) (?=[\d.])", r" \1 bool ", expression).replace('status=~"5.."', 'status=~"2.."')
                    self.assertTrue(prometheus.query(values), f"{values} gives nothing")
            self.assertEqual(prometheus.query('ALERTS{alertname!="SkeinDown", alertstate="firing"}'), [])

    def test_promtool(self):
        subprocess.run(["promtool", "check", "rules", str(DEPLOY / "prometheus" / "alerts.yml")], check=True, capture_output=True)


if __name__ == "__main__":
    unittest.main()
