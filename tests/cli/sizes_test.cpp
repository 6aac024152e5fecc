// Recipes at the limits of valid sizes: answered, or rejected in one line, with little memory and time. The process limits are
// far above actual use; superlinear growth would exceed them.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <algorithm>
#include <fstream>

#include "tests/cli/command.h"

namespace weft::sizes_test {
namespace {

constexpr const char* kRecipe = R"(
model = { name = "gpt", layers = 6, heads = 6, width = 192, context = 128 }
data = { name = "text", path = "none.txt" }
batch = { global = 32 }
run = { steps = 3 }
)";

struct Finished {
  int status = -1;
  std::string out, err;
  double cpu_s = 0.0, most_mb = 0.0;
};

Finished run_limited(const std::vector<std::string>& arguments) {
  const TemporaryFolder folder;
  const pid_t pid = start_weft(arguments, folder.path(), {.environment = {{"OMP_NUM_THREADS", "1"}}});
  const rlimit cpu = {60, 60}, memory = {rlim_t{6} << 30, rlim_t{6} << 30};
  prlimit(pid, RLIMIT_CPU, &cpu, nullptr);
  prlimit(pid, RLIMIT_AS, &memory, nullptr);
  int status = 0;
  rusage used{};
  EXPECT_EQ(wait4(pid, &status, 0, &used), pid);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return {.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status),
          .out = read_text(folder / "out"),
          .err = read_text(folder / "err"),
          .cpu_s = seconds(used.ru_utime) + seconds(used.ru_stime),
          .most_mb = static_cast<double>(used.ru_maxrss) / 1024.0};
}

class Sizes : public testing::Test {
 protected:
  void SetUp() override {
    recipe_ = (folder_ / "r.toml").string();
    std::ofstream(recipe_) << kRecipe;
  }

  Finished run(const std::string& command, int ranks, const std::vector<std::string>& keys) {
    std::vector<std::string> arguments = {command, recipe_, "-n", std::to_string(ranks)};
    for (const std::string& key : keys) arguments.insert(arguments.end(), {"--set", key});
    return run_limited(arguments);
  }

  TemporaryFolder folder_;
  std::string recipe_;
};

TEST_F(Sizes, AreAnswered) {
  const struct {
    const char* what;
    const char* command;
    int ranks;
    std::vector<std::string> keys;
  } cases[] = {
      {"the most layers", "memory", 1, {"model.layers=10000"}},
      {"a long context and a large vocabulary",
       "memory",
       1,
       {"model.context=8192", "model.vocabulary=128256", "batch.global=1"}},
      {"the longest context", "memory", 1, {"model.context=10000000", "model.vocabulary=1000000000", "batch.global=1"}},
      {"dropout whose masks no memory holds",
       "memory",
       1,
       {"model.context=10000000", "model.heads=16", "model.width=8192", "model.dropout=0.1", "batch.global=1"}},
      {"the most ranks", "show", 1'000'000, {"batch.global=1000000"}},
      {"many layers and stages",
       "show",
       500,
       {"model.layers=5000", "layout.pp=500", "layout.schedule=naive", "batch.global=4"}},
  };
  for (const auto& c : cases) {
    const Finished result = run(c.command, c.ranks, c.keys);
    EXPECT_EQ(result.status, 0) << c.what << ": " << result.err;
    EXPECT_LE(result.most_mb, 2048.0) << c.what;
    EXPECT_LE(result.cpu_s, 20.0) << c.what;
    EXPECT_FALSE(result.out.empty()) << c.what;
  }
}

TEST_F(Sizes, ReportSkippedLevels) {
  const std::vector<std::string> keys = {"model.layers=100", "batch.micro=1"};
  for (const auto& [batch, left_out] : {std::pair{"batch.global=4", false}, {"batch.global=2000", true}}) {
    std::vector<std::string> all = keys;
    all.emplace_back(batch);
    const std::string out = run("memory", 2, all).out;
    EXPECT_EQ(out.find("Other levels are not shown: 102 blocks x 1000 micro-batches are more than 100000") != std::string::npos,
              left_out)
        << out;
  }
}

TEST_F(Sizes, AreRefusedInOneLine) {
  const struct {
    const char* command;
    int ranks;
    std::vector<std::string> keys;
    const char* line;
  } cases[] = {
      {"train",
       1,
       {"batch.global=100000000", "batch.micro=1"},
       ": layout: 8 blocks and 100000000 micro-batches per rank make a step"},
      {"show",
       1000,
       {"model.layers=998", "layout.pp=1000", "batch.global=4000", "batch.micro=1"},
       ": layout: 1000 blocks and 4000 micro-batches per rank make a step of"},
      {"show",
       100'000,
       {"layout.pp=100000", "layout.schedule=interleaved", "layout.chunks=10000", "batch.global=400000", "batch.micro=1"},
       ": layout: 8 blocks cannot be cut into 1000000000 stages; use fewer"},
      {"memory", 2'000'000'000, {"batch.global=1000000000"}, "-n 2000000000: the number of ranks must be at most 1000000"},
      {"memory", 1, {"model.heads=1000", "model.width=16"}, "does not divide model.width = 16; the nearest that does is 16"},
      {"memory",
       1,
       {"model.width=1000000", "model.heads=1", "model.context=10000000", "batch.global=1000000000"},
       ": a micro-batch of 1000000000 samples needs some"},
      {"show",
       600,
       {"model.layers=998", "layout.pp=600", "layout.schedule=auto", "batch.global=600", "batch.micro=1"},
       "not 1000 x 600; it needs 600 micro-batches or more: use fewer pipeline ranks (layout.pp), or fewer blocks; or name"},
  };
  for (const auto& c : cases) {
    const Finished result = run(c.command, c.ranks, c.keys);
    EXPECT_EQ(result.status, 1) << c.line;
    EXPECT_NE(result.err.find(c.line), std::string::npos) << result.err << c.line;
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    EXPECT_LE(result.most_mb, 1024.0) << c.line;
    EXPECT_LE(result.cpu_s, 20.0) << c.line;
  }
}

}  // namespace
}  // namespace weft::sizes_test
