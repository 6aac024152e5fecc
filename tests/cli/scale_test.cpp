// weft scale: a few steps on one and two ranks, with real measurements.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/cli/training.h"

namespace weft::scale_cli_test {
namespace {

constexpr const char* kRecipe = R"(
model = { name = "gpt", layers = 2, heads = 2, width = 16, context = 16 }
data = { name = "text" }
batch = { global = 8 }
optimizer = { lr = 1e-3, warmup = 20 }
run = { steps = 100, evaluate_every = 10 }
)";

class WeftScale : public TrainingTest {
 protected:
  WeftScale() : TrainingTest(kRecipe) {}
  std::vector<std::string> scale(const std::vector<std::string>& more) const {
    std::vector<std::string> all = train({"--out", (folder_ / "scale").string(), "--steps", "4", "--repeats", "2"});
    all[0] = "scale";
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
};

TEST_F(WeftScale, MeasuresEachLayoutOnEachNumberOfRanks) {
  // Variables that describe a place among hosts must not matter: the runs are on this host.
  const CommandResult result = run_weft(scale({"-n", "1,2", "--layouts", "dp,layout.pp=2", "--strong"}),
                                        {.environment = {{"OMP_NUM_THREADS", "1,2"},
                                                         {"WEFT_NODES", "2"},
                                                         {"WEFT_NODE_RANK", "0"},
                                                         {"WEFT_HEAD", "127.0.0.1:1"},
                                                         {"SLURM_JOB_ID", "7"},
                                                         {"SLURM_STEP_ID", "0"},
                                                         {"SLURM_PROCID", "0"},
                                                         {"SLURM_LOCALID", "0"},
                                                         {"SLURM_NODEID", "0"},
                                                         {"SLURM_STEP_NUM_TASKS", "2"},
                                                         {"SLURM_STEP_NODELIST", "a,b"}}});
  EXPECT_EQ(result.status, 0) << result.err;
  const auto json = nlohmann::json::parse(read_text(folder_ / "scale" / "scale.json"));
  ASSERT_EQ(json.at("rows").size(), 4u);
  EXPECT_EQ(json.at("threads_per_rank"), 1) << "the first of the list";
  for (const auto& row : json.at("rows")) {
    const bool refused = row.at("layout") == "layout.pp=2" && row.at("ranks") == 1;
    EXPECT_EQ(row.at("failure").is_null(), !refused) << row;
    if (refused) continue;
    EXPECT_GT(row.at("samples_per_s").get<double>(), 0.0);
    EXPECT_GT(row.at("efficiency").get<double>(), 0.0);
    EXPECT_GT(row.at("peak_rss_mb").get<double>(), 10.0);
    EXPECT_EQ(row.at("communication_share").get<double>() > 0.0, row.at("ranks") == 2) << row;
    EXPECT_EQ(row.at("runs"), 2);
    EXPECT_NEAR(row.at("samples_per_s").get<double>() * row.at("step_ms").get<double>() / 1e3, row.at("batch").get<double>(),
                1e-6);
    EXPECT_EQ(row.at("batch"), 8);
  }
  EXPECT_NE(read_text(folder_ / "scale" / "scale.svg").find(">dp, strong<"), std::string::npos);
  EXPECT_NE(result.out.find("\nstrong dp         2"), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("\n[6/6] "), std::string::npos) << result.out;
  std::istringstream lines(result.out);
  for (std::string line; std::getline(lines, line);) {
    const bool is_table = line.starts_with("strong") || line.starts_with("weak");
    EXPECT_LE(line.size(), is_table && line.find("layout.pp") == std::string::npos ? 80U : 1000U) << line;
  }
  const CommandResult bad = run_weft(scale({"-n", "1", "--layouts", "zero4"}));
  EXPECT_EQ(bad.status, 1);
  EXPECT_NE(bad.err.find("unknown layout 'zero4'"), std::string::npos) << bad.err;
  const int held = open((folder_ / "scale").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  ASSERT_EQ(flock(held, LOCK_EX), 0);
  const CommandResult second = run_weft(scale({"-n", "1"}));
  close(held);
  EXPECT_EQ(second.status, 1);
  EXPECT_NE(second.err.find("another command is using"), std::string::npos) << second.err;
}

}  // namespace
}  // namespace weft::scale_cli_test
