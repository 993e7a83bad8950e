#!/usr/bin/env python3
"""What starts the server over many hosts: the Slurm script and the MPI operator's job. SKEIN is the binary. The script is judged by shellcheck
where that is installed, the job by the operator's rules as far as they are written down here (the names of v2beta1) where PyYAML is."""

import importlib.util
import os
import re
import shutil
import subprocess
import unittest
from pathlib import Path

SKEIN = os.environ.get("SKEIN", "build/ci/skein")
DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
SBATCH_OPTIONS = {"job-name", "nodes", "ntasks-per-node", "exclusive", "requeue", "signal", "output"}
# kubeflow.org/v2beta1, MPIJobSpec and what it holds: name: (type, names below it or None).
REPLICA = {"replicas": int, "restartPolicy": str, "template": dict}
SPEC = {"slotsPerWorker": int, "sshAuthMountPath": str, "launcherCreationPolicy": str, "mpiImplementation": str, "runPolicy": dict,
        "mpiReplicaSpecs": dict, "runLauncherAsWorker": bool}
RUN_POLICY = {"cleanPodPolicy", "ttlSecondsAfterFinished", "activeDeadlineSeconds", "backoffLimit", "schedulingPolicy", "suspend", "managedBy"}


def serve_flags():
    text = subprocess.run([SKEIN, "serve", "--help"], capture_output=True, text=True, check=True).stdout
    return set(re.findall(r"--[a-z][a-z-]+", text))


class Slurm(unittest.TestCase):
    script = DEPLOY / "slurm" / "skein.sbatch"

    def test_options_and_flags_exist(self):
        # A job with a flag of another version fails after hours in the queue.
        text = self.script.read_text()
        self.assertLessEqual(set(re.findall(r"^#SBATCH --([a-z-]+)", text, re.M)), SBATCH_OPTIONS)
        command = next(line for line in text.splitlines() if '" serve ' in line)
        self.assertLessEqual(set(re.findall(r"--[a-z][a-z-]+", command)), serve_flags())

    @unittest.skipUnless(shutil.which("shellcheck"), "shellcheck is not installed")
    def test_shellcheck(self):
        outcome = subprocess.run(["shellcheck", "--shell=bash", str(self.script)], capture_output=True, text=True, check=False)
        self.assertEqual(outcome.returncode, 0, outcome.stdout)

    def test_a_missing_model_is_said(self):
        outcome = subprocess.run(["bash", str(self.script)], capture_output=True, text=True, check=False,
                                 env={name: value for name, value in os.environ.items() if name != "SKEIN_MODEL"})
        self.assertNotEqual(outcome.returncode, 0)
        self.assertIn("names the model", outcome.stderr)


@unittest.skipUnless(importlib.util.find_spec("yaml"), "PyYAML is not installed")
class MpiOperator(unittest.TestCase):
    def setUp(self):
        import yaml

        self.job = yaml.safe_load((DEPLOY / "kubernetes" / "mpijob.yaml").read_text())

    def test_the_operator_takes_it(self):
        # A field of another version is silently dropped.
        self.assertEqual((self.job["apiVersion"], self.job["kind"]), ("kubeflow.org/v2beta1", "MPIJob"))
        for name, value in self.job["spec"].items():
            self.assertIsInstance(value, SPEC[name], name)
        self.assertLessEqual(set(self.job["spec"]["runPolicy"]), RUN_POLICY)
        self.assertIn(self.job["spec"]["launcherCreationPolicy"], ("AtStartup", "WaitForWorkersReady"))
        self.assertEqual(set(self.job["spec"]["mpiReplicaSpecs"]), {"Launcher", "Worker"})
        for replica in self.job["spec"]["mpiReplicaSpecs"].values():
            for name, value in replica.items():
                self.assertIsInstance(value, REPLICA[name], name)
            for container in replica["template"]["spec"]["containers"]:
                self.assertLessEqual({"name", "image"}, set(container))
                self.assertTrue(all(isinstance(word, str) for word in container["command"]), container["command"])
                self.assertIn("memory", container["resources"]["limits"])

    def test_the_command_fits_the_job(self):
        # Ranks without a pod, or a flag of another version, and the launcher would restart for ever.
        replicas = self.job["spec"]["mpiReplicaSpecs"]
        launcher = replicas["Launcher"]["template"]["spec"]
        command = launcher["containers"][0]["command"]
        self.assertLessEqual({word for word in command if word.startswith("--")}, serve_flags())
        value = {command[i]: command[i + 1] for i in range(len(command) - 1)}
        hosts = value["--hosts"].split(",")
        self.assertEqual(len(hosts), replicas["Worker"]["replicas"])
        self.assertEqual(hosts, [f"{self.job['metadata']['name']}-worker-{i}.{self.job['metadata']['name']}" for i in range(len(hosts))])
        self.assertEqual(int(value["--tensor"]), len(hosts) * self.job["spec"]["slotsPerWorker"])
        mounts = {mount["name"] for mount in launcher["containers"][0]["volumeMounts"]}
        self.assertEqual(mounts, {volume["name"] for volume in launcher["volumes"]})
        self.assertNotIn("volumes", replicas["Worker"]["template"]["spec"], "workers need no model")


if __name__ == "__main__":
    unittest.main()
