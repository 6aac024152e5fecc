"""The store of ranks on several hosts: where rank 0 listens, and whom it admits."""

import os
import pathlib
import subprocess
import unittest

from hosts import Network, wait_for

ROOT = pathlib.Path(__file__).resolve().parents[2]
PORT = 29500
TRAIN = [os.environ["WEFT"], "train", ROOT / "recipes" / "gpt.toml", "--set", f"data.path={ROOT / 'docs' / 'launching.md'}"]
for setting in ("model.layers=1", "model.width=16", "model.heads=1", "model.context=16", "batch.global=4", "optimizer.warmup=1",
                "run.steps=2", "run.evaluate_every=2", "run.timeout_s=60"):
    TRAIN += ["--set", setting]
# A stranger with another protocol: counts the bytes that it receives before it is disconnected.
KNOCK = """
import socket
stranger = socket.create_connection(("host0", 29500), 5)
stranger.sendall(b"GET / HTTP/1.1\\r\\nHost: host0\\r\\n\\r\\n" + bytes(200))
heard = 0
try:
    while part := stranger.recv(4096):
        heard += len(part)
except ConnectionResetError:
    pass
print(heard)
"""


class StoreTest(unittest.TestCase):
    def setUp(self):
        self.network = Network(2)
        self.addCleanup(self.network.close)

    def variables(self, rank, token="the job's"):
        return {"RANK": rank, "WORLD_SIZE": 2, "LOCAL_RANK": 0, "LOCAL_WORLD_SIZE": 1, "MASTER_ADDR": "host0",
                "MASTER_PORT": PORT, "WEFT_TOKEN": token, "OMP_NUM_THREADS": 1}

    def start(self, rank, **options):
        return self.network.hosts[rank].start(TRAIN, self.variables(rank, **options), stdout=subprocess.PIPE,
                                              stderr=subprocess.STDOUT, text=True)

    def listening(self):
        """Addresses on host0 with a listener on the port."""
        return [address for address, port in self.network.hosts[0].listening() if port == PORT]

    def finish(self, *ranks):
        for rank in ranks:
            out = rank.communicate(timeout=120)[0]
            self.assertEqual(rank.returncode, 0, out)

    def test_strangers_are_kept_out(self):
        first = self.start(0)
        self.assertEqual(wait_for(self.listening, "store", 60), ["10.77.0.1"], "the interface that leads to the others, no other")
        status, heard, error = self.network.hosts[1].run(["python3", "-c", KNOCK])
        self.assertEqual((status, int(heard) <= 100), (0, True), heard + error)
        guest = self.start(1, token="guessed")
        out = guest.communicate(timeout=120)[0]
        self.assertNotEqual(guest.returncode, 0)
        self.assertIn("it refuses this rank's token; give all ranks the same WEFT_TOKEN", out)
        self.finish(first, self.start(1))

    def test_hosts_whose_own_name_means_loopback(self):
        """As Debian's installer writes them: a host's own name is 127.0.1.1 there, and only there."""
        self.network.name_hosts({"host0": "127.0.1.1", "host1": "10.77.0.2"}, on=self.network.hosts[0])
        self.network.name_hosts({"host0": "10.77.0.1", "host1": "127.0.1.1"}, on=self.network.hosts[1])
        first = self.start(0)
        self.assertEqual(wait_for(self.listening, "store", 60), ["::"])
        self.finish(first, self.start(1))
