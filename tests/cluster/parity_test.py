"""Training over hosts: the same bits as on one host in every layout, and no more bytes across hosts than predicted."""

import os
import re
import subprocess
import unittest

from hosts import Network
from training import Training

# Name, ranks per host on two hosts, layout keys. Tensor parallelism splits sums, so it is compared with itself on one host.
LAYOUTS = [
    ("dp 2 x 1", 1, []),
    ("dp 2 x 2", 2, []),
    ("shard 2 x 1", 1, ["layout.shard_level=parameters"]),
    ("shard 2 x 2", 2, ["layout.shard_level=parameters"]),
    ("zero1 2 x 2", 2, ["layout.shard_level=optimizer"]),
    ("hybrid 2 x 2", 2, ["layout.dp=2", "layout.shard=2", "layout.shard_level=parameters"]),
    ("pp 2 x 1", 1, ["layout.pp=2"]),
    ("pp 2 x dp 2", 2, ["layout.pp=2", "layout.dp=2"]),
    ("dp 2 x tp 2", 2, ["layout.dp=2", "layout.tp=2"]),
    ("tp 2 x 1", 1, ["layout.tp=2"]),
]


class ParityTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.network = Network(4)
        cls.addClassCleanup(cls.network.close)
        cls.training = Training()
        cls.addClassCleanup(cls.training.close)

    def over(self, hosts):
        """The first hosts as a separate network."""
        part = object.__new__(Network)
        part.hosts = self.network.hosts[:hosts]
        return part

    def test_same_bits_as_on_one_host(self):
        for name, ranks, keys in LAYOUTS:
            with self.subTest(name):
                self.assertEqual(self.training.train(self.over(2), ranks, keys), self.training.alone(2 * ranks, keys))

    def test_four_hosts(self):
        for keys in [], ["layout.shard_level=parameters"], ["layout.pp=2"]:
            with self.subTest(keys=keys):
                self.assertEqual(self.training.train(self.over(4), 1, keys), self.training.alone(4, keys))

    def test_rounded_across_hosts(self):
        keys = ["layout.across_hosts=bf16"]
        self.assertNotEqual(self.training.train(self.over(2), 2, keys), self.training.alone(4))
        self.assertEqual(self.training.train(self.over(2), 2, keys, "again.safetensors"), self.training.digest("hosts.safetensors"))

    def test_bytes_across_hosts_are_as_predicted(self):
        """Uses two run lengths, so that start and end cancel out."""
        big = ["model.width=128", "model.layers=4", "run.evaluate_every=0"]
        for keys in [], ["layout.shard_level=parameters"], ["layout.pp=2"], ["layout.dp=2", "layout.tp=2"]:
            with self.subTest(keys=keys):
                sent = []
                for steps in 2, 12:
                    before = [host.sent_bytes() for host in self.over(2).hosts]
                    self.training.train(self.over(2), 2, [*big, *keys, f"run.steps={steps}"])
                    sent.append([host.sent_bytes() - start for host, start in zip(self.over(2).hosts, before)])
                step = max((long - short) / 10 for short, long in zip(*sent))
                command = [os.environ["WEFT"], "show", self.training.recipe, "-n", "4", "--ranks-per-host", "2"]
                command += [part for key in [*big, *keys] for part in ("--set", key)]
                shown = subprocess.run(command, cwd=self.training.folder, capture_output=True, text=True, check=True).stdout
                number, unit = re.search(r"a host sends the others ([\d.]+) (\w+)", shown).groups()
                predicted = float(number) * {"B": 1, "KiB": 2**10, "MiB": 2**20}[unit]
                # Headers of TCP, IP and Ethernet: 66 bytes in 1514; acknowledgements the other way.
                self.assertLess(step, predicted * 1.03 * 1514 / 1448 + 20_000, f"predicted {predicted}")
                self.assertGreater(step, predicted * 0.95)
