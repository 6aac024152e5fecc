"""A rank that holds up the others is named while the run goes on: on which host, and in what."""

import signal
import threading
import time
import unittest

from hosts import Network
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
        self.assertRegex("".join(outputs[0]), r"rank 1 on host host1 is behind: its steps take [\d.]+ times what others' take .*, in computing")
