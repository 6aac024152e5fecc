"""weft run and weft train --hosts: agents started through a real sshd on each host."""

import signal
import subprocess

from launched import WEFT, HostsTest, Started

SSHD = """
ListenAddress 0.0.0.0
HostKey {keys}/host_key
AuthorizedKeysFile {keys}/user_key.pub
StrictModes no
UsePAM no
PidFile none
PermitRootLogin prohibit-password
AcceptEnv NOTHING
"""


PROXY = "python3 -c 'import os, socket, sys, threading; s = socket.create_connection((sys.argv[1], 22)); " \
        "threading.Thread(target=lambda: [s.sendall(b) for b in iter(lambda: os.read(0, 65536), b\"\")], daemon=True).start(); " \
        "[os.write(1, b) for b in iter(lambda: s.recv(65536), b\"\")]' %h"


class SshTest(HostsTest):
    COUNT = 3

    def setUp(self):
        super().setUp()
        self.keys = self.folder / "keys"
        self.keys.mkdir(mode=0o700)
        for name in ("host_key", "user_key", "stranger_key"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.keys / name], check=True)
        (self.keys / "sshd_config").write_text(SSHD.format(keys=self.keys))
        self.know(["host0", "host1", "host2"])
        for host in self.hosts[1:]:
            self.serve(host)

    def serve(self, host):
        host.tmpfs("/run", "1m")
        host.call("mkdir", "/run/sshd")
        self.started.append(Started(host, ["/usr/sbin/sshd", "-D", "-e", "-f", self.keys / "sshd_config"], self.folder))
        self.started[-1].says("Server listening")

    def know(self, names, key="host_key"):
        key_text = (self.keys / f"{key}.pub").read_text()
        (self.keys / "known_hosts").write_text("".join(f"{name} {key_text}" for name in names))

    def start(self, command, hosts, *words, program=(), env=None, folder=None):
        options = [f"UserKnownHostsFile={self.keys}/known_hosts", "GlobalKnownHostsFile=/dev/null",
                   f"IdentityFile={self.keys}/user_key", "IdentitiesOnly=yes"]
        argv = [WEFT, command, *([] if command == "run" else words[:1]), *hosts]
        for option in options:
            argv += ["--ssh-option", option]
        argv += words[1:] if command == "train" else words
        self.started.append(Started(self.hosts[0], [*argv, *program], folder or self.folder, env))
        return self.started[-1]

    def run_script(self, hosts, script, *words, **options):
        return self.start("run", ["--hosts", hosts], *words, program=["--", "sh", "-c", script], **options)

    def assert_clean(self):
        for host in self.hosts:
            self.assert_nothing_runs(host)

    def test_same_bits_as_one_host(self):
        both = self.start("train", ["--hosts", "host1:2,host2:2"], self.recipe("both"), "--save", "both.safetensors")
        self.assertEqual(both.wait(), 0, both.text())
        self.train_alone("one", 2)
        self.assertEqual((self.folder / "both.safetensors").read_bytes(), (self.folder / "one.safetensors").read_bytes())
        self.assert_clean()

    def test_this_host_among_them_and_a_host_file(self):
        (self.folder / "hosts").write_text("# the machines\nhost1:1\nhost0 slots=2  # here\n")
        run = self.start("run", ["--host-file", "hosts"], "--prefix", "-x", "MINE=of mine", env={"MINE": "another", "THEIRS": "no", "WEFT_HOST": "no"},
                         program=["--", "sh", "-c", "echo $RANK $LOCAL_RANK $(hostname) $MINE ${THEIRS-unset} ${WEFT_HOST-unset} $PWD"])
        self.assertEqual(run.wait(20), 0, run.text())
        self.assertEqual(sorted(run.text().splitlines()),
                         [f"[host0, rank 1] 1 0 host0 of mine no no {self.folder}", f"[host0, rank 2] 2 1 host0 of mine no no {self.folder}",
                          f"[host1, rank 0] 0 0 host1 of mine unset unset {self.folder}"])

    def test_ranks_of_this_host_alone_use_its_loopback_interface(self):
        run = self.run_script("host0:2", "echo up $MASTER_ADDR; sleep 60")
        run.says("up 127.0.0.1")
        self.assertEqual({address for address, _ in self.hosts[0].listening()}, {"127.0.0.1"})
        run.program.send_signal(signal.SIGINT)
        self.assertEqual(run.wait(30), 130)  # after a grace period of 10 s, if the signal meets the shell as it forks

    def test_through_an_ssh_proxy_the_head_listens_on_all_interfaces(self):
        run = self.run_script("host1:1", "echo up; sleep 60", "--ssh-option", f"ProxyCommand={PROXY}")
        run.says("up")
        self.assertEqual({address for address, _ in self.hosts[0].listening()}, {"::"})
        run.program.send_signal(signal.SIGINT)
        self.assertEqual(run.wait(30), 130)  # after a grace period of 10 s, if the signal meets the shell as it forks

    def test_no_command_line_shows_the_secret(self):
        run = self.run_script("host0:1,host1:1", "echo token $WEFT_TOKEN; sleep 60")
        token = run.says("token ([0-9a-f]{64})").group(1)
        for host in self.hosts:
            _, text, _ = host.run(["ps", "-e", "-ww", "-o", "args"])
            self.assertNotIn(token, text)
        # Without the secret, head and store are reachable at most on the interface that leads to the others.
        self.assertEqual([address for address, _ in self.hosts[0].listening()], ["10.77.0.1"] * 2)
        self.assertIn("ForwardAgent=no", self.hosts[0].run(["ps", "-e", "-ww", "-o", "args"])[1])
        run.program.send_signal(signal.SIGINT)
        self.assertEqual(run.wait(15), 130)
        self.assertIn("weft: ended by Ctrl-C\n", run.text())
        self.assert_clean()

    def test_a_rank_that_fails_ends_all(self):
        run = self.run_script("host1:2,host2:2", "if [ $RANK = 3 ]; then sleep 0.5; exit 9; fi; sleep 60")
        self.assertEqual(run.wait(20), 9)
        self.assertEqual(run.text(), "weft: rank 3 on host host2: ended with status 9\n")
        self.assert_clean()

    def test_killed_launcher_leaves_nothing(self):
        run = self.run_script("host1:2,host2:2", "echo up $RANK; sleep 60 & sleep 60")
        for rank in range(4):
            run.says(f"up {rank}")
        run.program.send_signal(signal.SIGKILL)
        self.assert_clean()

    def test_an_ssh_that_ends_only_loses_output(self):
        run = self.run_script("host1:1,host2:1", "echo up $RANK; sleep 60")
        run.says("up 1")
        _, pids, _ = self.hosts[0].run(["pgrep", "-f", "^ssh .*host2"])
        self.assertEqual(self.hosts[0].run(["kill", "-9", *pids.split()])[0], 0)
        run.says("host host2: its ssh was ended by signal 9: the output of its ranks is no longer read")
        run.program.send_signal(signal.SIGINT)
        self.assertEqual(run.wait(15), 130)
        self.assert_clean()

    def test_unavailable_hosts_are_named(self):
        def refused(hosts, pattern, *words, **options):
            run = self.run_script(hosts, "sleep 60", *words, **options)
            self.assertEqual(run.wait(25), 1, run.text())
            self.assertRegex(run.text(), f"^weft: {pattern}")
            self.assertEqual(run.text().count("\n"), 1, run.text())
            self.assert_clean()

        refused("host1:1,nowhere:1", "host nowhere: ssh: .*Could not resolve hostname nowhere")
        refused("host1:1,host2:1", r"host host[12]: there is no program /no/weft there; install weft at that path, or use --remote-weft",
                "--remote-weft", "/no/weft")
        self.know(["host1"])
        refused("host1:1,host2:1", "host host2: ssh: .*Host key verification failed")
        self.know(["host1", "host2"], key="stranger_key")
        refused("host1:1,host2:1", "host host[12]: ssh: .*Host key verification failed")
        self.know(["host1", "host2"])
        self.hosts[0].tmpfs("/mnt", "1m")
        self.hosts[0].call("mkdir", "/mnt/only-here")
        refused("host1:1,host2:1", "host host[12]: cannot enter the folder /mnt/only-here there: No such file or directory",
                folder="/mnt/only-here")
        for started in self.started:
            if started.program.args[-1] == str(self.keys / "sshd_config"):
                started.program.send_signal(signal.SIGTERM)
                started.wait(5)
        refused("host1:1,host2:1", "host host[12]: ssh: .*Connection refused")

    def test_a_host_vanishes_and_the_others_continue(self):
        run = self.start("train", ["--hosts", "host1:1,host2:1"], self.recipe("fewer", steps=60), "-n", "1:2", "--restarts", "3",
                         "--host-timeout", "3", "--save", "fewer.safetensors")
        run.says("saved .*/step-")
        self.network.vanish(self.hosts[2])
        self.assertEqual(run.wait(), 0, run.text())
        self.assertRegex(run.text(), r"host host2 \(rank 1\) has not answered for 3.*; restart 1 of 3 on 1 rank")
        self.train_alone("whole", 1, steps=60)
        self.assertEqual((self.folder / "fewer.safetensors").read_bytes(), (self.folder / "whole.safetensors").read_bytes())
