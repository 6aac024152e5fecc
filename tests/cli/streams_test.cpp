// Closed, full or limited standard streams: the training is still correct, and a failed write is an error.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "tests/cli/training.h"

namespace weft::streams_test {
namespace {

constexpr const char* kRecipe = R"(
model = { name = "gpt", layers = 1, heads = 2, width = 16, context = 16 }
data = { name = "text" }
batch = { global = 8 }
layout = { offload_optimizer = "disk" }
run = { steps = 4, threads = 1, reproducible_slots = 2 }
)";

class Streams : public TrainingTest {
 protected:
  Streams() : TrainingTest(kRecipe) {}

  std::string recipe() const { return (folder_ / "r.toml").string(); }

  std::string digest(const std::vector<std::string>& more, const CommandOptions& options) {
    const std::string file = (folder_ / "summary.json").string();
    std::filesystem::remove(file);
    std::vector<std::string> arguments = train(more);
    arguments.insert(arguments.end(), {"--summary", file, "--set", "layout.offload_folder=" + folder_.path().string()});
    const CommandResult result = run_weft(arguments, options);
    EXPECT_EQ(result.status, 0) << result.err;
    if (result.status != 0) return "";
    return nlohmann::json::parse(read_text(file)).at("weights_sha256");
  }
};

TEST_F(Streams, ClosedOnesDoNotAffectTraining) {
  const std::string expected = digest({"-n", "1"}, {});
  ASSERT_NE(expected, "");
  const std::vector<std::vector<int>> closed = {{1}, {0, 1, 2}};
  for (const char* ranks : {"1", "2"}) {
    for (const std::vector<int>& descriptors : closed) {
      SCOPED_TRACE(std::string(ranks) + " ranks, " + std::to_string(descriptors.size()) + " closed");
      EXPECT_EQ(digest({"-n", ranks}, {.environment = {},
                                       .prepare =
                                           [&] {
                                             for (const int fd : descriptors) close(fd);
                                           }}),
                expected);
    }
  }
}

TEST_F(Streams, ProgramsGetOpenOnes) {
  const CommandResult result = run_weft({"run", "-n", "1", "--", "/bin/sh", "-c", "echo out && echo err >&2 && [ ! -t 0 ]"},
                                        {.environment = {}, .prepare = [] {
                                           for (const int fd : {0, 1, 2}) close(fd);
                                         }});
  EXPECT_EQ(result.status, 0);
}

TEST_F(Streams, WhatCannotBeWrittenIsAnError) {
  const std::string hardware = (folder_ / "h.toml").string();
  std::ofstream(hardware) << "hardware = { name = 'h', ranks_per_host = 1 }\ndevice = { flops = 1e12 }\n"
                             "offload = { latency_s = 0, bytes_per_s = 1e9 }\n";
  const std::string data = "data.path=" + (folder_ / "text").string();
  const std::string weights = (folder_ / "w.safetensors").string();
  ASSERT_EQ(run_weft(train({"-n", "1", "--save", weights})).status, 0);
  struct Row {
    std::vector<std::string> arguments;
    std::string rank = "";
  };
  const Row rows[] = {
      {{"--help"}},
      {{"train", "--help"}},
      {{"--version"}},
      {{"version"}},
      {{"show", recipe()}},
      {{"memory", recipe()}},
      {{"memory", recipe(), "--json"}},
      {{"k8s", recipe(), "--nodes", "2", "-n", "1", "--image", "weft"}},
      {{"simulate", recipe(), "--hardware", hardware}},
      {{"simulate", recipe(), "--hardware", hardware, "--json"}},
      {{"plan", recipe(), "--hardware", hardware, "-n", "1"}},
      {{"profile", recipe(), "-n", "1", "-o", (folder_ / "p.toml").string()}},
      {{"verify", recipe(), "-n", "1", "--set", data}},
      {{"check", "-n", "1"}},
      {{"check", "-n", "1", "--json"}},
      {{"evaluate", weights, recipe(), "--set", data}},
      {{"evaluate", weights, recipe(), "--set", data, "--json"}},
      {{"data", "check", recipe(), "--set", data}},
      {{"train", recipe(), "-n", "1", "--set", data}},
      {{"train", recipe(), "-n", "2", "--set", data}, "rank 0: "},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.arguments[0]);
    const CommandResult result =
        run_weft(row.arguments, {.environment = {}, .prepare = [] { redirect("/dev/full", STDOUT_FILENO); }});
    EXPECT_EQ(result.status, 1);
    EXPECT_EQ(result.err,
              "weft: " + row.rank + "cannot write to standard output: No space left on device; the output is incomplete\n");
  }
}

TEST_F(Streams, ALogThatCannotBeWrittenLosesNoWeights) {
  const std::string weights = (folder_ / "w.safetensors").string(), summary = (folder_ / "s.json").string();
  const CommandResult result = run_weft(train({"-n", "1", "--save", weights, "--summary", summary}),
                                        {.environment = {}, .prepare = [] { redirect("/dev/full", STDOUT_FILENO); }});
  EXPECT_EQ(result.status, 1);
  EXPECT_GT(std::filesystem::file_size(weights), 1000u);
  EXPECT_TRUE(nlohmann::json::parse(read_text(summary)).is_object());
}

TEST_F(Streams, APipeThatNobodyReadsEndsNoTraining) {
  for (const char* ranks : {"1", "2"}) {
    const std::filesystem::path weights = folder_ / "weights";
    const CommandResult result = run_weft(train({"-n", ranks, "--restarts", "3", "--save", weights.string()}), {.prepare = [] {
                                            int ends[2];
                                            if (pipe(ends) == 0) dup2(ends[1], 1);
                                            close(ends[0]);
                                            close(ends[1]);
                                          }});
    EXPECT_EQ(result.status, 1);
    const std::string who = ranks == std::string("1") ? "" : "rank 0: ";
    EXPECT_EQ(result.err, "weft: " + who + "cannot write to standard output: Broken pipe; the output is incomplete\n")
        << "a finished run is not restarted";
    EXPECT_TRUE(std::filesystem::remove(weights));
  }
}

TEST_F(Streams, ALimitOnFileSizesIsReported) {
  const auto limited = [&](rlim_t bytes, const std::vector<std::string>& arguments) {
    const CommandResult result = run_weft(arguments, {.environment = {}, .prepare = [=] {
                                                        const rlimit limit{bytes, bytes};
                                                        setrlimit(RLIMIT_FSIZE, &limit);
                                                      }});
    EXPECT_EQ(result.status, 1) << result.err;
    const size_t last = result.err.rfind('\n', result.err.size() - 2);
    return result.err.substr(last == std::string::npos ? 0 : last + 1);
  };
  const std::string weights = (folder_ / "w.safetensors").string();
  const std::string none = "layout.offload_optimizer=none", folder = "layout.offload_folder=" + folder_.path().string();
  EXPECT_EQ(
      limited(2000, train({"-n", "1", "--set", none, "--save", weights})),
      "weft: " + weights +
          ": cannot write it: could not write the whole file: File too large; raise the limit on file sizes (ulimit -f) or "
          "name another path\n");
  EXPECT_FALSE(std::filesystem::exists(weights));
  EXPECT_NE(
      limited(2000, train({"-n", "1", "--set", folder})).find("File too large; raise the limit on file sizes (ulimit -f)"),
      std::string::npos);
  EXPECT_NE(
      limited(100'000, train({"-n", "2", "--set", none})).find("File too large; raise the limit on file sizes (ulimit -f)"),
      std::string::npos)
      << "memory that ranks share counts as a file";
  EXPECT_EQ(limited(100, {"show", recipe()}),
            "weft: cannot write to standard output: File too large; the output is incomplete\n");
}

TEST_F(Streams, ProgramsHandleSigxfszThemselves) {
  const CommandResult result = run_weft({"run", "-n", "1", "--", "/bin/sh", "-c", "kill -XFSZ $$; sleep 10"});
  EXPECT_EQ(result.status, 128 + SIGXFSZ) << "not ignored";
}

}  // namespace
}  // namespace weft::streams_test
