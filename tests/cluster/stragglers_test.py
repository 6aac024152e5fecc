"""Stragglers are named during the run: a rank, its host and what is slow, or a slow link."""

import signal
import threading
import time
import unittest

from hosts import Network
from launched import TOKEN, WEFT, HostsTest, Started
from training import Training


def slow_down(program, done):
    """Lets a program run 5 ms of every 20."""
    while not done.is_set() and program.poll() is None:
        program.send_signal(signal.SIGSTOP)
        time.sleep(0.015)
        program.send_signal(signal.SIGCONT)
        time.sleep(0.005)


class StragglersTest(unittest.TestCase):
    def test_a_slowed_rank_is_named(self):
        training = Training()
        self.addCleanup(training.close)
        network = Network(2)
        self.addCleanup(network.close)
        keys = ["run.steps=120", "run.evaluate_every=120", "model.width=64"]
        programs = training.start(network, 1, keys)
        done = threading.Event()
        self.addCleanup(done.set)
        slowing = threading.Thread(target=slow_down, args=(programs[1], done), daemon=True)
        slowing.start()
        outputs = [program.communicate(timeout=120) for program in programs]
        done.set()
        slowing.join()
        self.assertEqual([program.returncode for program in programs], [0, 0], outputs)
        self.assertRegex("".join(outputs[0]), r"rank 1 on host host1 is behind: its steps take [\d.]+x the others' median .*, in compute")


class SlowLinkTest(HostsTest):
    FAST, SLOW = "1gbit", "10mbit"  # 1 % of it

    def setUp(self):
        super().setUp()
        for host in self.hosts:
            self.network.limit(host, self.FAST)

    def train(self, width=16, **recipe):
        name = self.recipe("slow", steps=100000, **recipe)
        words = [WEFT, "train", name, "-n", "1", "--set", f"model.width={width}", "--head", "host0:29400", "--nodes", str(self.COUNT)]
        self.started += [Started(host, [*words, "--node-rank", str(host.number)], self.folder, {"OMP_NUM_THREADS": 1, "WEFT_TOKEN": TOKEN})
                         for host in self.hosts]
        return self.started[0]

    def stop(self):
        self.started[0].program.send_signal(signal.SIGINT)
        self.assertEqual([started.wait(30) for started in self.started], [75] * self.COUNT, self.started[0].text())


class TwoHosts(SlowLinkTest):
    def test_a_link_that_becomes_slow_is_reported(self):
        head = self.train()
        head.says("saved .*/step-")
        time.sleep(2.5)  # by now the usual rate of this run's links is known
        self.network.limit(self.hosts[1], self.SLOW)
        head.says(r"the link between hosts host0 and host1 is slow: [\d.]+ \wi?B/s, while links of this run usually carry .*netcheck")
        self.stop()

    def test_a_call_that_times_out_on_it_is_reported(self):
        self.network.limit(self.hosts[1], "1mbit")
        head = self.train(width=64, timeout_s=1.5)
        self.assertEqual([started.wait(30) for started in self.started], [1, 1], head.text())
        self.assertRegex(head.text(), r"weft: .*rank.*within 1.5 s.*host1.*(all_reduce|reduce_scatter|broadcast) |"
                                      r"weft: .*ranks .*host1.* have reached (all_reduce|reduce_scatter) .*within 1.5 s")

    def test_netcheck_reports_the_rate_of_a_link(self):
        for host, rate in zip(self.hosts, (None, "100mbit")):  # 1 % of what these hosts carry without a limit
            self.network.limit(host, rate)
        words = [WEFT, "run", "-n", "1", "--head", "host0:29400", "--nodes", "2", "--node-rank"]
        self.started += [Started(host, [*words, str(host.number), "--", WEFT, "netcheck", "--largest-mb", "1"], self.folder,
                                 {"WEFT_TOKEN": TOKEN})
                         for host in self.hosts]
        self.assertEqual([started.wait() for started in self.started], [0, 0], self.started[0].text())
        self.assertRegex(self.started[0].text(), r"0 +1 +host0 host1 +\S+ \S+ +[\d.]{2,4} MiB/s +[\d.]{2,4} MiB/s")


class FourHosts(SlowLinkTest):
    COUNT = 4

    def test_a_host_behind_a_slow_link_is_named(self):
        self.network.limit(self.hosts[1], self.SLOW)
        self.train().says(r"host host1 has slow links: .*/s, while links of this run usually carry .*netcheck")
        self.stop()
