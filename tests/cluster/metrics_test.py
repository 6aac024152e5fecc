"""Debian's Prometheus scrapes a run on two hosts, with the alerts that come with weft."""

import json
import pathlib
import shutil
import signal
import urllib.parse

from hosts import wait_for
from launched import TOKEN, WEFT, HostsTest, Started

MONITORING = pathlib.Path(__file__).resolve().parents[2] / "monitoring"
HEALTH = ["--health-port", "9090", "--health-address", "0.0.0.0"]


class Metrics(HostsTest):
    def setUp(self):
        super().setUp()
        for file in MONITORING.iterdir():
            shutil.copy(file, self.folder)

    def start(self, node, words, env):
        environment = {"OMP_NUM_THREADS": 1, "WEFT_TOKEN": TOKEN, "WEFT_JOB": "4711", **env}
        self.started.append(Started(self.hosts[node], [WEFT, "train", self.recipe("scraped", steps=100000), *words, *HEALTH],
                                    self.folder, environment))
        return self.started[-1]

    def scrape(self):
        """Starts Prometheus on host 0 with the configuration that comes with weft, but scraping every second."""
        config = self.folder / "prometheus.yml"
        config.write_text(config.read_text().replace("15s", "1s"))
        words = ["prometheus", "--config.file=prometheus.yml", "--storage.tsdb.path=tsdb", "--web.listen-address=127.0.0.1:9900"]
        self.started.append(Started(self.hosts[0], words, self.folder))

    def read(self, url):
        status, text, _ = self.hosts[0].run(["python3", "-c", f"import urllib.request as u; print(u.urlopen({url!r}).read().decode(), end='')"])
        return status, text

    def ask(self, query):
        """The answer as {(host, run, job): value}."""
        status, text = self.read("http://127.0.0.1:9900/api/v1/query?" + urllib.parse.urlencode({"query": query}))
        results = json.loads(text)["data"]["result"] if status == 0 else []  # it may not have started yet
        return {(result["metric"].get("host"), result["metric"].get("run"), result["metric"].get("job")): float(result["value"][1])
                for result in results}

    def assert_both_are_scraped(self, local_ranks):
        self.scrape()
        both = {("host0", "scraped", "4711"), ("north", "scraped", "4711")}
        wait_for(lambda: set(self.ask("weft_steps_done > 3")) == both, f"steps of both hosts; now {self.ask('weft_steps_done')}", 40)
        self.assertEqual(set(self.ask("weft_ranks").values()), {2 * local_ranks})
        self.assertEqual(self.ask("weft_local_ranks"), dict.fromkeys(both, local_ranks))
        self.assertEqual(self.ask("weft_running"), dict.fromkeys(both, 1))
        self.assertEqual(set(self.ask("weft_build_info{version!='',libtorch!=''}")), both)
        for figure in ("weft_loss > 0", "weft_samples_per_second > 0", "weft_samples_done > 0", "weft_memory_bytes > 1e6"):
            self.assertEqual(set(self.ask(figure)), {("host0", "scraped", "4711")}, figure)
        self.assertEqual(self.ask("ALERTS"), {})

    def test_agents_of_two_hosts(self):
        agents = [self.start(node, ["-n", "2", "--nodes", "2"],
                             {"WEFT_NODE_RANK": node, "WEFT_HEAD": "host0:29400", "WEFT_HOST": ["host0", "north"][node]})
                  for node in range(2)]
        self.assert_both_are_scraped(local_ranks=2)
        self.assertEqual(set(self.ask("weft_host_up").values()), {1})
        (self.folder / "metrics").write_text(self.read("http://host1:9090/metrics")[1])
        status, out, err = self.hosts[0].run(["sh", "-c", f"promtool check metrics < {self.folder}/metrics"])
        self.assertEqual((status, out + err), (0, ""))
        agents[0].program.send_signal(signal.SIGTERM)
        self.assertEqual([agent.wait(30) for agent in agents], [75, 75])

    def test_ranks_started_by_another_program(self):
        ranks = [self.start(node, [], {"RANK": node, "WORLD_SIZE": 2, "LOCAL_RANK": 0, "LOCAL_WORLD_SIZE": 1, "MASTER_ADDR": "host0",
                                       "MASTER_PORT": 29500, "WEFT_HOST": ["host0", "north"][node]}) for node in range(2)]
        self.assert_both_are_scraped(local_ranks=1)
        for rank in ranks:
            rank.program.send_signal(signal.SIGTERM)
        self.assertEqual([rank.wait(30) for rank in ranks], [75, 75])

    def test_the_alerts(self):
        for words in (["check", "config", "prometheus.yml"], ["check", "rules", "alerts.yml"]):
            status, out, err = self.hosts[0].run(["env", "-C", self.folder, "promtool", *words])
            self.assertEqual(status, 0, out + err)
        shutil.copy(self.folder / "alerts.yml", self.folder / "alerts_under_test.yml")
        shutil.copy(pathlib.Path(__file__).with_name("alerts.yml"), self.folder / "rules.yml")
        status, out, err = self.hosts[0].run(["env", "-C", self.folder, "promtool", "test", "rules", "rules.yml"])
        self.assertEqual(status, 0, out + err)
