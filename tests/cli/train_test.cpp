// weft train: real runs of tiny models, alone, launched, and joined through an environment that something else set.
#include "weft/train/run/train.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "tests/cli/training.h"
#include "tests/support/run_ranks.h"
#include "tests/support/wait_until.h"
#include "weft/recipe/read/read_recipe.h"

namespace weft::train_test {
namespace {

constexpr const char* kRecipe = R"(
model = { name = "gpt", layers = 1, heads = 2, width = 16, context = 16 }
data = { name = "text" }
batch = { global = 16 }
optimizer = { lr = 1e-3, clip = 1.0 }
run = { steps = 6, evaluate_every = 3, threads = 1 }
)";

/// Process numbers of `pid`'s direct children whose command line contains `word`.
std::vector<pid_t> children(pid_t pid, const std::string& word) {
  std::ifstream in("/proc/" + std::to_string(pid) + "/task/" + std::to_string(pid) + "/children");
  std::vector<pid_t> found;
  for (pid_t child = 0; in >> child;) {
    if (read_text("/proc/" + std::to_string(child) + "/environ").find(word) != std::string::npos) found.push_back(child);
  }
  return found;
}

class WeftTrain : public TrainingTest {
 protected:
  WeftTrain() : TrainingTest(kRecipe) {}

  nlohmann::json summary(std::vector<std::string> more) {
    const std::string file = (folder_ / "summary.json").string();
    more.insert(more.end(), {"--summary", file});
    const CommandResult result = run_weft(train(more));
    EXPECT_EQ(result.status, 0) << result.err;
    EXPECT_EQ(result.err, "");
    out_ = result.out;
    return nlohmann::json::parse(read_text(file), nullptr, false);
  }

  std::string out_;
};

TEST_F(WeftTrain, WritesSummaryWeightsAndPlainLines) {
  const std::string weights = (folder_ / "w.safetensors").string();
  const nlohmann::json json = summary({"-n", "2", "--save", weights});
  ASSERT_TRUE(json.is_object());
  EXPECT_EQ(json.at("model"), "gpt");
  EXPECT_EQ(json.at("world"), 2);
  EXPECT_EQ(json.at("layout").at("dp"), 2);
  EXPECT_EQ(json.at("threads_per_rank"), 1);
  EXPECT_EQ(json.at("steps"), 6);
  EXPECT_GT(json.at("parameters").get<int64_t>(), 0);
  EXPECT_GT(json.at("loss").get<double>(), 0.0);
  EXPECT_GT(json.at("evaluation").at("loss").get<double>(), 0.0);
  EXPECT_GT(json.at("tokens_per_s").get<double>(), 0.0);
  EXPECT_GT(json.at("first_step_s").get<double>(), 0.0);
  EXPECT_GT(json.at("step_ms").at("p95").get<double>(), 0.0);
  EXPECT_EQ(json.at("peak_rss_mb").size(), 2u);
  EXPECT_GT(json.at("traffic_bytes").at(1).get<int64_t>(), 0);
  EXPECT_EQ(json.at("weights_sha256").get<std::string>().size(), 64u);
  EXPECT_GT(std::filesystem::file_size(weights), 1000u);
  EXPECT_NE(unwrapped(out_).find("gpt on text, 6 steps of 16 samples, 2 ranks"), std::string::npos) << out_;
  EXPECT_NE(out_.find("step 6/6  loss "), std::string::npos) << out_;
  EXPECT_NE(out_.find("evaluation after step 3: loss "), std::string::npos) << out_;
  EXPECT_NE(out_.find("peak memory"), std::string::npos) << out_;
  EXPECT_EQ(out_.find_first_of("\r\x1b"), std::string::npos) << "a log has plain lines";
}

TEST_F(WeftTrain, PlansALayoutAndShowsWhatWasPredicted) {
  const nlohmann::json json = summary({"-n", "2", "--set", "layout=auto", "--set", "run.hardware=laptop_cpu"});
  ASSERT_TRUE(json.is_object());
  EXPECT_NE(out_.find("\nlayout: "), std::string::npos) << out_;
  EXPECT_NE(out_.find(", predicted "), std::string::npos) << out_;
  EXPECT_GT(json.at("predicted").at("step_ms"), 0.0);
  EXPECT_GT(json.at("predicted").at("memory_mb"), 0.0);
  const CommandResult none = run_weft(train({"-n", "2", "--set", "layout=auto"}));
  EXPECT_EQ(none.status, 1);
  EXPECT_NE(none.err.find("run.hardware names none; weft calibrate writes one of this machine\n"), std::string::npos)
      << none.err;
}

TEST_F(WeftTrain, SameBitsOnAnyNumberOfRanksAndBackend) {
  const auto overrides = [](const std::string& backend, const std::string& seed) -> std::vector<std::string> {
    return {"run.steps=20", "run.reproducible_slots=4", "layout.backend=" + backend, "run.seed=" + seed};
  };
  const auto of_processes = [&](int ranks, const std::string& backend, const std::string& seed) {
    std::vector<std::string> arguments = {"-n", std::to_string(ranks)};
    for (const std::string& value : overrides(backend, seed)) arguments.insert(arguments.end(), {"--set", value});
    return summary(arguments).at("weights_sha256").get<std::string>();
  };
  const auto of_threads = [&](int ranks, const std::string& backend) {
    std::vector<std::string> values = overrides(backend, "1");
    values.push_back("data.path=" + (folder_ / "text").string());
    const Recipe recipe = load_recipe((folder_ / "r.toml").string(), values);
    std::string digest;
    test::run_ranks(ranks, [&](const World& world) {
      const FinalReport report = weft::train(recipe, world);
      if (world.rank() == 0) digest = report.weights_sha256;
    });
    return digest;
  };
  const std::string alone = of_processes(1, "auto", "1");
  for (const int ranks : {1, 2, 4}) {
    for (const std::string backend : {"shm", "gloo"}) {
      EXPECT_EQ(of_threads(ranks, backend), alone) << ranks << " threads over " << backend;
      if (ranks == 1) continue;
      EXPECT_EQ(of_processes(ranks, backend, "1"), alone) << ranks << " processes over " << backend;
    }
  }
  EXPECT_NE(of_processes(1, "auto", "2"), alone) << "the digest tells trainings apart";
}

TEST_F(WeftTrain, JoinsRanksThatSomethingElseStarted) {
  const std::string port = free_port();
  const TemporaryFolder folders[2];
  const std::string file = (folder_ / "joined.json").string();
  pid_t ranks[2];
  for (int r = 0; r < 2; ++r) {
    ranks[r] = start_rank(train({"--summary", file}), folders[r].path(), r, 2, port);
  }
  for (int r = 0; r < 2; ++r) EXPECT_EQ(wait_for(ranks[r], 60.0), 0) << read_text(folders[r] / "err");
  EXPECT_EQ(read_text(folders[1] / "out"), "") << "only rank 0 speaks";
  EXPECT_EQ(nlohmann::json::parse(read_text(file)).at("world"), 2);
}

// In a program that a rank runs, the number in WEFT_BOARD may belong to any file.
TEST_F(WeftTrain, AReplacedOrClosedBoardIsIgnored) {
  const std::string text(64, 'x'), file = (folder_ / "users").string();
  std::ofstream(file) << text;
  for (const char* descriptors : {"close_fds=False", "close_fds=True"}) {
    const CommandResult result = run_weft({"run", "-n", "1", "--", "python3", "-c",
                                           "import os, subprocess, sys\n"
                                           "file = os.open(sys.argv[1], os.O_RDWR)\n"
                                           "for number in os.environ['WEFT_BOARD'].split(','): os.dup2(file, int(number))\n"
                                           "sys.exit(subprocess.run(sys.argv[2:], " +
                                               std::string(descriptors) + ").returncode)",
                                           file, WEFT_COMMAND, "train", (folder_ / "r.toml").string(), "--set",
                                           "data.path=" + (folder_ / "text").string()});
    EXPECT_EQ(result.status, 0) << result.err;
    EXPECT_NE(result.out.find("step 6/6"), std::string::npos) << result.out;
    EXPECT_EQ(read_text(file), text);
  }
}

// Only rank 0 writes the output files, so their folders need not exist for other ranks.
TEST_F(WeftTrain, OnlyRankZeroNeedsTheFoldersItWritesTo) {
  const std::string port = free_port();
  const TemporaryFolder folders[2];
  std::filesystem::create_directory(folders[0] / "results");
  pid_t ranks[2];
  for (int r = 0; r < 2; ++r) {
    ranks[r] =
        start_rank(train({"--summary", "results/s.json", "--save", "results/w.safetensors", "--trace", "results/t.json"}),
                   folders[r].path(), r, 2, port);
  }
  for (int r = 0; r < 2; ++r) EXPECT_EQ(wait_for(ranks[r], 60.0), 0) << read_text(folders[r] / "err");
  for (const char* name : {"s.json", "w.safetensors", "t.json"})
    EXPECT_TRUE(std::filesystem::exists(folders[0] / "results" / name));
}

TEST_F(WeftTrain, ProfilesSteps) {
  const std::string folder = (folder_ / "run").string();
  const CommandResult result = run_weft(train({"-n", "2", "--profile", "2-3", "--set", "run.folder=" + folder}));
  ASSERT_EQ(result.status, 0) << result.err;
  for (const char* part : {"profile of steps 2 to 3", "critical path of step", "operators, per step and rank",
                           "trace.json, for ui.perfetto.dev"}) {
    EXPECT_NE(result.out.find(part), std::string::npos) << part << " in\n" << result.out;
  }
  const auto profile = nlohmann::json::parse(read_text(folder + "/profile/profile.json"));
  double path = 0.0;
  for (const auto& piece : profile["critical_path"]) path += piece["seconds"].get<double>();
  EXPECT_NEAR(path, profile["step_s"].get<double>(), 1e-6);
  std::set<std::string> kinds;
  for (const auto& row : profile["operators"]) kinds.insert(row["in"]);
  for (const char* kind : {"forward", "backward", "update"}) EXPECT_TRUE(kinds.count(kind)) << kind;
  std::set<int> ranks;
  bool has_path = false;
  for (const auto& event : nlohmann::json::parse(read_text(folder + "/profile/trace.json"))) {
    if (event.value("cat", "") == "kernel") ranks.insert(event["pid"].get<int>());
    has_path = has_path || event.value("cat", "") == "critical path";
  }
  EXPECT_EQ(ranks, (std::set<int>{0, 1}));
  EXPECT_TRUE(has_path);
}

TEST_F(WeftTrain, PrefixNamesASingleRankToo) {
  const CommandResult result = run_weft(train({"-n", "1", "--prefix", "--set", "run.steps=1"}));
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_NE(result.out.find("[rank 0] step 1/1"), std::string::npos) << result.out;
}

TEST_F(WeftTrain, RankZeroRefusesAMissingFolder) {
  const CommandResult result =
      run_weft(train({"--save", "/nonexistent/w.safetensors"}), {.environment = {{"RANK", "0"}, {"WORLD_SIZE", "1"}}});
  EXPECT_EQ(result.status, 1);
  EXPECT_EQ(result.err.find("weft: rank 0: /nonexistent/w.safetensors: cannot write it: the folder /nonexistent does not"), 0u)
      << result.err;
}

/// Returns true if a process has a file in that folder open, even an unlinked one.
bool has_open_file_in(pid_t pid, const std::filesystem::path& folder) {
  std::error_code code;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/fd", code)) {
    if (std::filesystem::read_symlink(entry.path(), code).string().starts_with(folder.string() + "/")) return true;
  }
  return false;
}

TEST_F(WeftTrain, AKillDuringTheSaveLeavesNothing) {
  const TemporaryFolder results;
  bool caught = false;
  // A save of about 50 MB takes a while, but not always long enough to be caught.
  for (int attempt = 0; attempt < 10 && !caught; ++attempt) {
    const pid_t run =
        start_weft(train({"-n", "1", "--set", "model.vocabulary=200000", "--set", "model.width=32", "--set", "batch.global=1",
                          "--set", "run.steps=1", "--set", "data.evaluation=0.002", "--save", results / "w.safetensors"}),
                   folder_.path());
    const auto evaluated = [&] { return read_text(folder_ / "out").find("evaluation after step 1") != std::string::npos; };
    ASSERT_TRUE(wait_until(evaluated, 60.0)) << read_text(folder_ / "err");
    const auto over = [&] { return std::filesystem::exists(results / "w.safetensors"); };
    ASSERT_TRUE(wait_until([&] { return has_open_file_in(run, results.path()) || over(); }, 60.0));
    kill(run, SIGKILL);
    wait_for(run, 10.0);
    caught = !over();
    std::filesystem::remove(results / "w.safetensors");
    EXPECT_TRUE(std::filesystem::is_empty(results.path()));
  }
  EXPECT_TRUE(caught);
}

TEST_F(WeftTrain, KilledRankIsNamedAndEndsTheRun) {
  const pid_t launcher = start_weft(train({"-n", "2", "--set", "run.steps=1000000"}), folder_.path());
  for (int i = 0; i < 2000 && read_text(folder_ / "out").find("step") == std::string::npos; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  const std::vector<pid_t> victim = children(launcher, std::string("RANK=1") + '\0' + "WORLD_SIZE=2");
  ASSERT_EQ(victim.size(), 1u) << read_text(folder_ / "err");
  const auto killed = std::chrono::steady_clock::now();
  kill(victim[0], SIGKILL);
  EXPECT_EQ(wait_for(launcher, 10.0), 128 + SIGKILL);
  EXPECT_LT(std::chrono::duration<double>(std::chrono::steady_clock::now() - killed).count(), 2.5);
  const std::string error = read_text(folder_ / "err");
  EXPECT_EQ(error.rfind("weft: rank 1: killed by signal 9", 0), 0u) << error;
  EXPECT_EQ(std::count(error.begin(), error.end(), '\n'), 1) << error;
}

/// The only step succeeds, but leaves weights with a non-finite evaluation loss.
TEST_F(WeftTrain, EvaluationLossThatIsNotFiniteIsAnErrorLikeALoss) {
  const std::string file = (folder_ / "nan.json").string(), weights = (folder_ / "nan.safetensors").string();
  for (const char* ranks : {"1", "2"}) {
    const CommandResult result = run_weft(train({"-n", ranks, "--set", "optimizer.lr=1e30", "--set", "optimizer.clip=0",
                                                 "--set", "run.steps=1", "--summary", file, "--save", weights}));
    EXPECT_EQ(result.status, 4) << result.out;
    EXPECT_EQ(result.err.rfind("weft: ", 0), 0u) << result.err;
    EXPECT_NE(result.err.find("evaluation after step 1: the loss of micro-batch 0 is "), std::string::npos) << result.err;
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    EXPECT_FALSE(std::filesystem::exists(file)) << "nothing half-written";
    EXPECT_FALSE(std::filesystem::exists(weights));
  }
}

TEST_F(WeftTrain, LossThatIsNotFiniteNamesTheStepOnce) {
  const std::string file = (folder_ / "nan.json").string();
  const CommandResult result =
      run_weft(train({"-n", "2", "--set", "optimizer.lr=1e30", "--set", "optimizer.clip=0", "--summary", file}));
  EXPECT_EQ(result.status, 4);
  EXPECT_EQ(result.err.rfind("weft: rank ", 0), 0u) << result.err;
  EXPECT_NE(result.err.find("step"), std::string::npos) << result.err;
  EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  EXPECT_FALSE(std::filesystem::exists(file)) << "nothing half-written";
}

}  // namespace
}  // namespace weft::train_test
