// A run in which a bit flips on a socket: audits tell of it in the output and in events.jsonl, or end the run.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/cli/training.h"

namespace weft::audit_test {
namespace {

constexpr const char* kRecipe = R"(
model = { name = "gpt", layers = 2, heads = 2, width = 16, context = 16 }
data = { name = "text" }
batch = { global = 8, micro = 4 }
layout = { dp = 2, backend = "gloo" }
run = { steps = 12, threads = 1, timeout_s = 20, audit_every = 1 }
)";

class AuditedRuns : public TrainingTest {
 protected:
  AuditedRuns() : TrainingTest(kRecipe) {}

  CommandResult run(std::vector<std::string> more, int flips_after) {
    more.insert(more.end(), {"-n", "2", "--set", "run.folder=" + (folder_ / "run").string()});
    return run_weft(train(more), {.environment = {{"LD_PRELOAD", WEFT_FLIPPED_BIT},
                                                  {"WEFT_FLIP_RANK", "1"},
                                                  {"WEFT_FLIP_AFTER", std::to_string(flips_after)}}});
  }
  std::vector<nlohmann::json> events(const std::string& kind) const {
    std::vector<nlohmann::json> found;
    std::ifstream file(folder_ / "run/events.jsonl");
    for (std::string line; std::getline(file, line);) {
      const nlohmann::json event = nlohmann::json::parse(line);
      if (event.at("event") == kind) found.push_back(event);
    }
    return found;
  }
};

TEST_F(AuditedRuns, TellOfABitThatFlippedOnASocket) {
  const CommandResult result = run({}, 12);
  EXPECT_EQ(result.status, 0) << result.err;
  const std::vector<nlohmann::json> warnings = events("warning");
  ASSERT_EQ(warnings.size(), 1U) << result.out;
  const nlohmann::json& details = warnings[0].at("details");
  EXPECT_EQ(details.at("kind"), "audit");
  EXPECT_EQ(details.at("found_by"), "calls");
  EXPECT_NE(details.at("ranks").get<std::string>().find('1'), std::string::npos);
  const std::string text = warnings[0].at("text");
  EXPECT_NE(text.find("on group \"dp"), std::string::npos) << text;
  EXPECT_NE(text.find("test the memory of "), std::string::npos) << text;
  EXPECT_NE(result.out.find("warning: audit of step "), std::string::npos) << result.out;
  EXPECT_EQ(events("end").at(0).at("details").at("last_clean_audit"), "12");
}

TEST_F(AuditedRuns, EndOnAFinding) {
  const CommandResult result = run({"--set", "run.stop_on=audit"}, 12);
  EXPECT_EQ(result.status, 4) << result.err;
  EXPECT_NE(result.err.find("run.stop_on = \"audit\" ends the run"), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("audit of step "), std::string::npos) << result.err;
}

TEST_F(AuditedRuns, SayWhenTheyWereClean) {
  const CommandResult result = run({"--set", "run.audit_every=5"}, -1);
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_TRUE(events("warning").empty());
  EXPECT_EQ(events("end").at(0).at("details").at("last_clean_audit"), "10");
}

}  // namespace
}  // namespace weft::audit_test
