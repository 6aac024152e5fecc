"""Trainings over several hosts: how agents join, what ends them, and what they resume from."""

import re
import signal
import time

from hosts import Host
from launched import TOKEN, WEFT, HostsTest, Started


class AgentsTest(HostsTest):
    def start(self, node, *words, env=None, under=()):
        environment = {"WEFT_TOKEN": TOKEN, "OMP_NUM_THREADS": 1, "WEFT_NODE_RANK": node, "WEFT_HEAD": "host0:29400"}
        environment.update(env or {})
        self.started.append(Started(self.hosts[node], [*under, WEFT, *words], self.folder, environment))
        return self.started[-1]

    def train(self, node, recipe, *words, nodes=None, ranks=1, **options):
        return self.start(node, "train", recipe, "-n", str(ranks), "--nodes", str(nodes or self.COUNT), *words, **options)

    def run_script(self, node, script, *words, ranks=1, **options):
        return self.start(node, "run", "-n", str(ranks), "--nodes", str(self.COUNT), *words, "--", "sh", "-c", script, **options)


class TwoHosts(AgentsTest):
    def test_same_bits_as_one_host(self):
        both = self.recipe("both")
        agents = [self.train(node, both, "--save", "both.safetensors", ranks=2) for node in range(2)]
        self.assertEqual([agent.wait() for agent in agents], [0, 0], agents[0].text() + agents[1].text())
        self.train_alone("one", 2)
        self.assertEqual((self.folder / "both.safetensors").read_bytes(), (self.folder / "one.safetensors").read_bytes())

    def test_hosts_may_have_different_numbers_of_ranks(self):
        both = self.recipe("uneven")
        agents = [self.train(node, both, "--save", "uneven.safetensors", ranks=1 + 2 * node) for node in range(2)]
        self.assertEqual([agent.wait() for agent in agents], [0, 0], agents[0].text() + agents[1].text())
        self.train_alone("one", 2)
        self.assertEqual((self.folder / "uneven.safetensors").read_bytes(), (self.folder / "one.safetensors").read_bytes())
        agents = [self.train(node, both, ranks=1 + node) for node in range(2)]
        self.assertEqual([agent.wait(20) for agent in agents], [1, 1])
        for agent in agents:
            self.assertRegex(agent.text(), "^weft: uneven.toml: .* 3 data-parallel ranks; .*\n$")

    def test_a_late_host_joins(self):
        recipe, words = self.recipe("late", steps=2000), ["--restarts", "5", "--join-timeout", "1", "--grow-after", "2"]
        agents = [self.train(0, recipe, *words, nodes="1:2")]
        agents[0].says("host of node rank 1 did not join: starting without")
        agents.append(self.train(1, recipe, *words, nodes="1:2"))
        agents[0].says("saved: trying 2 ranks")
        self.assertEqual([agent.wait() for agent in agents], [0, 0], agents[0].text())

    def test_ranks_are_numbered_host_by_host(self):
        script = "echo $RANK of $WORLD_SIZE, $LOCAL_RANK of $LOCAL_WORLD_SIZE, $MASTER_ADDR ${WEFT_STORE%:*} ${WEFT_NODES:-none}"
        agents = [self.run_script(node, script, "--prefix", ranks=2 - node) for node in range(2)]
        self.assertEqual([agent.wait() for agent in agents], [0, 0], agents[0].text() + agents[1].text())
        self.assertEqual(sorted(agents[0].text().splitlines()),
                         [f"[host0, rank {r}] {r} of 3, {r} of 2, host0 10.77.0.1 none" for r in range(2)])
        self.assertEqual(agents[1].text(), "[host1, rank 2] 2 of 3, 0 of 1, host0 host0 none\n")

    def test_a_failed_rank_is_named_with_its_host(self):
        script = "if [ $RANK = 1 ]; then sleep 0.3; exit 7; fi; sleep 60"
        agents = [self.run_script(node, script) for node in range(2)]
        self.assertEqual([agent.wait(10) for agent in agents], [7, 7])
        for agent in agents:
            self.assertEqual(agent.text(), "weft: rank 1 on host host1: ended with status 7\n")
        agents = [self.run_script(node, script.replace("exit 7", "kill -9 $$")) for node in range(2)]
        self.assertEqual([agent.wait(10) for agent in agents], [137, 137])
        self.assertIn("weft: rank 1 on host host1: killed by signal 9", agents[0].text())
        for host in self.hosts:
            self.assert_nothing_runs(host)

    def test_a_missing_program(self):
        agents = [self.start(node, "run", "-n", "1", "--nodes", "2", "--", "sleep" if node == 0 else "./nothing", "60")
                  for node in range(2)]
        self.assertEqual([agent.wait(10) for agent in agents], [1, 1])
        self.assertEqual(agents[0].text(), "weft: host host1: cannot run './nothing': No such file or directory\n")

    def test_ctrl_c(self):
        for node in range(2):  # on either node
            agents = [self.run_script(n, "sleep 60 & echo up; wait") for n in range(2)]  # a shell about to exec loses a SIGINT
            for agent in agents:
                agent.says("up")
            agents[node].program.send_signal(signal.SIGINT)
            self.assertEqual([agent.wait(30) for agent in agents], [130, 130])
            self.assertIn("weft: ended by Ctrl-C\n", agents[0].text())
        for host in self.hosts:
            self.assert_nothing_runs(host)

    def test_sigterm_to_all_saves_and_stops(self):
        recipe = self.recipe("stopped", steps=100000)
        agents = [self.train(node, recipe) for node in range(2)]
        agents[0].says("saved .*/step-")
        for agent in reversed(agents):
            agent.program.send_signal(signal.SIGTERM)
            time.sleep(0.3)  # longer than what counts as one press
        self.assertEqual([agent.wait(30) for agent in agents], [75, 75], agents[0].text())

    def test_killed_head_ends_all(self):
        agents = [self.run_script(node, "echo up; sleep 60 & sleep 60", ranks=2) for node in range(2)]
        for agent in agents:
            agent.says("up")
        agents[0].program.send_signal(signal.SIGKILL)
        self.assertEqual(agents[1].wait(5), 1)
        self.assertRegex(agents[1].text(), "weft: the run's head at host0:29400 has gone")
        for host in self.hosts:
            self.assert_nothing_runs(host)

    def test_agents_rejoin_a_restarted_head(self):
        """As when a cluster manager replaces the head's pod."""
        recipe = self.recipe("led", steps=150)
        agents = [self.train(node, recipe, "--restarts", "3") for node in range(2)]
        agents[0].says("saved .*/step-")
        agents[0].program.send_signal(signal.SIGKILL)
        agents[1].says("has gone .*; waiting for it to come back")
        again = self.train(0, recipe, "--restarts", "3")
        self.assertEqual([again.wait(), agents[1].wait()], [0, 0], again.text() + agents[1].text())
        self.assertIn("resuming from", again.text())

    def test_killed_agent_is_a_lost_host(self):
        agents = [self.run_script(node, "echo up; sleep 60 & sleep 60", ranks=2) for node in range(2)]
        for agent in agents:
            agent.says("up")
        agents[1].program.send_signal(signal.SIGKILL)
        self.assertEqual(agents[0].wait(5), 1)
        self.assertRegex(agents[0].text(), r"weft: host host1 \(ranks 2 to 3\) is lost: its agent is gone")
        for host in self.hosts:
            self.assert_nothing_runs(host)

    def test_all_ranks_restart_after_one_is_killed(self):
        recipe = self.recipe("again", steps=150)
        agents = [self.train(node, recipe, "--restarts", "3", "--save", "again.safetensors") for node in range(2)]
        agents[0].says("saved .*/step-")
        _, text, _ = self.hosts[1].run(["pgrep", "-f", "weft train again.toml --save"])
        self.hosts[1].run(["kill", "-9", text.split()[0]])
        self.assertEqual([agent.wait() for agent in agents], [0, 0], agents[0].text())
        self.assertRegex(agents[0].text(), r"rank 1 on host host1: killed by signal 9.*; restart 1 of 3")
        self.assertIn("started again within", agents[0].text())

    def test_a_host_vanishes_and_another_takes_its_place(self):
        recipe = self.recipe("replaced", steps=60)
        words = ("--restarts", "3", "--host-timeout", "3")
        agents = [self.train(node, recipe, *words) for node in range(2)]
        agents[0].says("saved .*/step-")
        self.network.vanish(self.hosts[1])
        begin = time.monotonic()
        agents[0].says(r"host host1 \(rank 1\) has not answered for 3.\d+ s; it or its network is down.*once the host or a replacement")
        self.assertLess(time.monotonic() - begin, 6)
        self.network.add(Host(1))
        self.network.named.discard(1)
        self.network.name_hosts({host.name: host.address for host in self.hosts})
        late = self.train(1, recipe, *words)
        self.assertEqual([agents[0].wait(), late.wait()], [0, 0], agents[0].text() + late.text())
        self.assertIn("resuming from", agents[0].text())

    def test_a_host_vanishes_and_the_others_continue(self):
        recipe = self.recipe("fewer", steps=60)
        agents = [self.train(node, recipe, "--restarts", "3", "--host-timeout", "3", "--save", "fewer.safetensors", nodes="1:2")
                  for node in range(2)]
        agents[0].says("saved .*/step-")
        self.network.vanish(self.hosts[1])
        self.assertEqual(agents[0].wait(), 0, agents[0].text())
        self.assertRegex(agents[0].text(), r"host host1 \(rank 1\) has not answered for 3.*; "
                                          "rank 0 waited in .* for rank 1; restart 1 of 3 on 1 rank")
        self.train_alone("whole", 1, steps=60)
        self.assertEqual((self.folder / "fewer.safetensors").read_bytes(), (self.folder / "whole.safetensors").read_bytes())

    def test_a_link_that_is_cut_for_three_seconds(self):
        recipe = self.recipe("cut", steps=150)
        agents = [self.train(node, recipe) for node in range(2)]
        agents[0].says("saved .*/step-")
        self.network.cut(self.hosts[1])
        time.sleep(3)
        self.network.mend(self.hosts[1])
        self.assertEqual([agent.wait() for agent in agents], [0, 0], agents[0].text() + agents[1].text())
        self.assertNotIn("weft:", agents[0].text())

    def test_a_link_that_is_cut_for_nearly_the_time_out(self):
        recipe = self.recipe("longer", steps=150)
        agents = [self.train(node, recipe, "--host-timeout", "7") for node in range(2)]
        agents[0].says("saved .*/step-")
        self.network.cut(self.hosts[1])
        time.sleep(5.0)
        self.network.mend(self.hosts[1])
        self.assertEqual([agent.wait() for agent in agents], [0, 0], agents[0].text() + agents[1].text())

    def test_a_folder_that_only_one_host_has(self):
        recipe = self.recipe("full", steps=60)
        (self.folder / "full").mkdir()
        self.hosts[1].tmpfs(self.folder / "full", "600k")
        agents = [self.train(node, recipe) for node in range(2)]
        self.assertEqual([agent.wait() for agent in agents], [1, 1], agents[0].text())
        for agent in agents:
            self.assertIn("save.folder full is not the same folder on all ranks: rank 1 on host1 does not see the files of rank 0 on "
                          "host0; name a folder that all hosts share", agent.text())
        self.assertEqual([path.name for path in (self.folder / "full").iterdir()], [".weft.lock"])

    def test_a_full_disk_on_one_host(self):
        """Or a limit on file sizes there."""
        recipe = self.recipe("full", steps=15)
        agents = [self.train(node, recipe) for node in range(2)]
        self.assertEqual([agent.wait() for agent in agents], [0, 0], agents[0].text() + agents[1].text())
        saved = re.findall(r"saved full/(step-\d+)", agents[0].text())
        agents = [self.train(node, recipe, "--set", "run.steps=60", under=["prlimit", "--fsize=20000"] * node) for node in range(2)]
        self.assertEqual([agent.wait() for agent in agents], [1, 1], agents[0].text())
        for agent in agents:
            self.assertRegex(agent.text(), r"weft: rank 1 on host host1: full/step-\d+/data-00001.bin: could not write the whole file: "
                                           "File too large; raise the limit on file sizes")
        # The last complete checkpoint stays, and nothing looks like a newer one.
        self.assertTrue(saved, agents[0].text())
        whole = sorted(path.parent.name for path in (self.folder / "full").glob("step-*/complete.json"))
        self.assertEqual(whole, sorted(saved))

    def test_a_link_that_is_cut_for_ever(self):
        agents = [self.run_script(node, "echo up; sleep 60", "--host-timeout", "3") for node in range(2)]
        for agent in agents:
            agent.says("up")
        self.network.cut(self.hosts[1])
        begin = time.monotonic()
        self.assertEqual([agent.wait(15) for agent in agents], [1, 1])
        self.assertLess(time.monotonic() - begin, 7)
        self.assertRegex(agents[0].text(), r"weft: host host1 \(rank 1\) has not answered for 3.\d+ s; it or its network is down\n")
        self.assertRegex(agents[1].text(), r"weft: the run's head at host0:29400 has not answered for 3.*were ended\n")
        for host in self.hosts:
            self.assert_nothing_runs(host)

    def test_a_rank_that_waits_for_a_vanished_host_is_not_blamed(self):
        recipe = self.recipe("waits", steps=100000, timeout_s=2)
        agents = [self.train(node, recipe, "--host-timeout", "5") for node in range(2)]
        agents[0].says("saved .*/step-")
        self.network.vanish(self.hosts[1])
        self.assertEqual(agents[0].wait(20), 1)
        self.assertRegex(agents[0].text(), r"weft: host host1 \(rank 1\) has not answered for 5.*; rank 0 on host host0: .*rank 1")

    def test_clocks_that_differ(self):
        """One host's monotonic clock is days ahead, which must not change whose failure was first."""
        script = "if [ $RANK = 1 ]; then echo \"$(now) 1 self mine\" >&$WEFT_ERROR_FD; exit 5; fi; sleep 0.2; exit 3"
        script = "now() { awk '{printf \"%d\", $1 * 1e9}' /proc/uptime; };" + script
        head = self.run_script(0, script)
        other = self.run_script(1, script, under=["unshare", "--time", "--fork", "--kill-child", "--monotonic=200000",
                                                  "--boottime=200000"])
        self.assertEqual([head.wait(10), other.wait(10)], [5, 5], head.text() + other.text())
        self.assertEqual(head.text(), "weft: rank 1 on host host1: mine\n")

    def test_a_missing_host_is_named(self):
        head = self.run_script(0, "exit 0", "--join-timeout", "1.5")
        self.assertEqual(head.wait(10), 1)
        self.assertEqual(head.text(), "weft: host of node rank 1 did not join within 1.50 s; is weft running there?\n")

    def test_a_late_host_is_waited_for(self):
        waiting = {0: "waiting for host of node rank 1, at most .* more", 1: "host host1 is waiting for the run's head at host0:29400, .*refused"}
        for node, says in waiting.items():
            first = self.run_script(node, "echo $RANK")
            first.says(says)
            second = self.run_script(1 - node, "echo $RANK")
            self.assertEqual([first.wait(10), second.wait(10)], [0, 0], first.text() + second.text())

    def test_an_agent_without_the_secret_is_rejected(self):
        head = self.run_script(0, "exit 0", "--join-timeout", "6")
        wrong = self.run_script(1, "exit 0", env={"WEFT_TOKEN": "another"})
        self.assertEqual(wrong.wait(10), 1)
        self.assertRegex(wrong.text(), "rejected host host1: it does not know the job's secret; set the same WEFT_TOKEN")
        # Garbage disturbs nobody.
        self.hosts[1].run(["python3", "-c", "import socket; s = socket.create_connection(('host0', 29400)); s.sendall(b'x' * 200000)"])
        right = self.run_script(1, "exit 0")
        self.assertEqual([head.wait(10), right.wait(10)], [0, 0], head.text() + right.text())
        self.assertRegex(head.text(), "rejected an agent at 10.77.0.2: it does not know the job's secret")

    def listening(self, host, words=(), **options):
        """Addresses on which host0 listens while both ranks run, with the head at `host`, and node 0's output."""
        options["env"] = {"WEFT_HEAD": f"{host}:29400", **options.get("env", {})}
        agents = [self.run_script(node, "echo up; sleep 60", *words, **options) for node in range(2)]
        for agent in agents:
            agent.says("up")
        found = self.hosts[0].listening()
        agents[0].program.send_signal(signal.SIGINT)
        self.assertEqual([agent.wait(30) for agent in agents], [130, 130])
        self.assertIn(29400, [port for _, port in found])
        self.assertEqual(len(found), 2, "the head's and the store's")
        return {address for address, _ in found}, agents[0].text()

    def test_head_and_store_listen_on_the_interface_that_leads_to_the_others(self):
        self.hosts[0].call("ip", "address", "add", "10.88.0.1/24", "dev", "eth0")  # of another network
        addresses, text = self.listening("host0")
        self.assertEqual(addresses, {"10.77.0.1"})
        self.assertNotIn("interfaces", text)

    def test_a_head_whose_own_name_means_loopback(self):
        self.network.name_hosts({"host0": "127.0.1.1", "host1": "10.77.0.2"}, on=self.hosts[0])
        addresses, text = self.listening("host0")
        self.assertEqual(addresses, {"::"})
        self.assertIn("weft: listening on all interfaces for other hosts: host0 is not an address of this host\n", text)

    def test_agents_of_one_host_use_its_loopback_interface(self):
        self.hosts = [self.hosts[0], self.hosts[0]]
        addresses, text = self.listening("localhost")
        self.assertEqual(addresses, {"127.0.0.1"})
        self.assertNotIn("interfaces", text)

    def test_all_listen_on_open_ports(self):
        recipe = self.recipe("ports", steps=100000)
        agents = [self.train(node, recipe, "--set", "run.ports=20000-20100", ranks=2) for node in range(2)]
        agents[0].says("step +1/")
        for host in self.hosts:
            ports = {port for _, port in host.listening()} - {29400}  # the port that --head names
            self.assertGreaterEqual(len(ports), 2)
            self.assertTrue(ports <= set(range(20000, 20101)), ports)
        agents[0].program.send_signal(signal.SIGINT)
        for agent in agents:
            agent.wait(20)

    def test_without_a_secret_nothing_starts_unless_requested(self):
        for node in range(2):
            agent = self.run_script(node, "echo up", env={"WEFT_TOKEN": None})
            self.assertEqual(agent.wait(10), 1)
            self.assertRegex(agent.text(), "^weft: --nodes needs a shared secret: set WEFT_TOKEN to the same value on all nodes, .*--no-token")
        addresses, _ = self.listening("host0", words=["--no-token"], env={"WEFT_TOKEN": None})
        self.assertEqual(addresses, {"10.77.0.1"})

    def test_a_program_is_restarted(self):
        script = "echo run $RANK >> tries; [ $RANK = 0 ] || [ $(grep -c 'run 1' tries) -ge 3 ] || exit 6; sleep 1"
        agents = [self.run_script(node, script, "--restarts", "2") for node in range(2)]
        self.assertEqual([agent.wait(20) for agent in agents], [0, 0], agents[0].text())
        self.assertIn("weft: rank 1 on host host1: ended with status 6; restart 2 of 2 in ", agents[0].text())

    def test_health(self):
        recipe = self.recipe("health", steps=100000)
        agents = [self.train(node, recipe, "--health-port", "9090", "--health-address", "10.77.0.1") if node == 0 else
                  self.train(node, recipe) for node in range(2)]
        agents[0].says("saved .*/step-")
        time.sleep(1)
        status, text, _ = self.hosts[1].run(["python3", "-c", "import urllib.request as u\n"
                                             "for p in ('healthz', 'metrics'): print(u.urlopen(f'http://host0:9090/{p}').read().decode())"])
        self.assertEqual(status, 0, text)
        self.assertRegex(text, r"ok: running, 2 ranks, \d+ steps done")
        self.assertRegex(text, r'weft_host_up\{run="health",job="",host="host1",node="1"\} 1\n')
        self.assertRegex(text, r'weft_steps_done\{.*\} [1-9]')
        agents[0].program.send_signal(signal.SIGINT)
        self.assertEqual([agent.wait(15) for agent in agents], [75, 75])
        self.assertIn("weft: Ctrl-C: saving, then ending; a second one ends it at once\n", agents[0].text())


class FourHosts(AgentsTest):
    COUNT = 4

    def test_same_bits_as_one_host(self):
        agents = [self.train(node, self.recipe("four"), "--save", "four.safetensors") for node in range(4)]
        self.assertEqual([agent.wait() for agent in agents], [0] * 4, agents[0].text())
        self.train_alone("one", 1)
        self.assertEqual((self.folder / "four.safetensors").read_bytes(), (self.folder / "one.safetensors").read_bytes())

    def test_two_of_four_vanish(self):
        recipe = self.recipe("two", steps=80)
        agents = [self.train(node, recipe, "--restarts", "5", "--host-timeout", "3", nodes="2:4") for node in range(4)]
        agents[0].says("saved .*/step-")
        self.network.vanish(self.hosts[1])
        self.network.vanish(self.hosts[3])
        self.assertEqual([agents[0].wait(), agents[2].wait()], [0, 0], agents[0].text())
        self.assertRegex(agents[0].text(), r"host host[13] \(rank [13]\) has not answered.*on 2 ranks")
