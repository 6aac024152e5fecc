"""The hosts on which the other tests run: separate, reachable, slowed, cut off, gone."""

import subprocess
import time
import unittest

from hosts import Host, Network

LISTEN = """
import socket
server = socket.create_server(("", 5000))
print("listening", flush=True)
connection, _ = server.accept()
received = 0
while part := connection.recv(1 << 20):
    received += len(part)
print(received)
"""
SEND = "import socket; socket.create_connection(('host1', 5000), 2).sendall(bytes(12_500_000))"


class NetworkTest(unittest.TestCase):
    def setUp(self):
        self.network = Network(2)
        self.addCleanup(self.network.close)

    def send(self):
        first, second = self.network.hosts
        with second.start(["python3", "-c", LISTEN], stdout=subprocess.PIPE, text=True) as server:
            server.stdout.readline()
            begin, before = time.monotonic(), first.sent_bytes()
            status, _, error = first.run(["python3", "-c", SEND])
            if status != 0:
                server.kill()
                return error, 0, 0
            received = server.communicate()[0].strip()
        return received, time.monotonic() - begin, first.sent_bytes() - before

    def test_rate_and_counted_bytes(self):
        self.network.limit(self.network.hosts[0], "200mbit")
        received, seconds, counted = self.send()
        self.assertEqual(received, "12500000")
        self.assertGreater(seconds, 0.45)  # 0.5 s, minus tbf's initial burst
        # Headers take 66 bytes of each 1 448, counted once for packets that travel together, and what tbf drops is sent again.
        self.assertTrue(12_500_000 <= counted < 13_750_000, counted)

    def test_cut_and_mended(self):
        self.network.cut(self.network.hosts[1])
        self.assertIn("timed out", self.send()[0])
        self.network.mend(self.network.hosts[1])
        # The kernel remembers the address that did not answer: "No route to host" for up to 3 s.
        self.network.hosts[0].call("ip", "neigh", "flush", "all")
        self.assertEqual(self.send()[0], "12500000")

    def test_vanished_and_replaced(self):
        self.network.vanish(self.network.hosts[1])
        self.network.add(Host(1))
        self.network.name_hosts({"host0": "10.77.0.1", "host1": "10.77.0.2"})
        self.assertEqual(self.send()[0], "12500000")
