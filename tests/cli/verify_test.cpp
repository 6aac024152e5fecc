// weft verify: its verdicts, their text, and its exit status.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "tests/cli/training.h"

namespace weft::verify_test {
namespace {

constexpr const char* kRecipe = R"(
model = { name = "gpt", layers = 2, heads = 2, width = 16, context = 16, dropout = 0.1 }
data = { name = "text" }
batch = { global = 8, micro = 1 }
optimizer = { name = "adamw", lr = 3e-3, clip = 1.0 }
run = { steps = 4, threads = 1, seed = 3 }
)";

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

class WeftVerify : public TrainingTest {
 protected:
  WeftVerify() : TrainingTest(kRecipe) {}

  CommandResult verify(const std::vector<std::string>& more) const {
    std::vector<std::string> all = train(more);
    all[0] = "verify";
    return run_weft(all);
  }
};

TEST_F(WeftVerify, SaysThatBitsAreTheSame) {
  const CommandResult result =
      verify({"-n", "2", "--steps", "2", "--set", "run.reproducible_slots=4", "--set", "layout.shard_level=parameters"});
  EXPECT_EQ(result.status, 0);
  EXPECT_EQ(result.err, "");
  EXPECT_TRUE(contains(unwrapped(result.out), " on 2 ranks: shard 2, 8 samples per step")) << result.out;
  EXPECT_TRUE(contains(result.out,
                       "running on one device, without layout.shard_level, layout.prefetch\n"
                       "running on shard 2\n"
                       "2 steps on shard 2 with layout.shard_level, layout.prefetch as on one device: bit-identical\n"
                       "  losses, gradient norms and all 29 parameters after every step\n"))
      << result.out;
}

// Two ranks wait while an axis is off.
TEST_F(WeftVerify, ReportsRoundingAndWithExactItsCause) {
  const CommandResult rounds = verify({"-n", "4", "--set", "layout.pp=2"});
  EXPECT_EQ(rounds.status, 0) << rounds.err;
  EXPECT_TRUE(contains(rounds.out, "3 steps on pp 2 x dp 2 as on one device: within rounding\n")) << rounds.out;
  EXPECT_TRUE(contains(rounds.out, "; rounding explains ")) << rounds.out;
  EXPECT_TRUE(contains(rounds.out, "run.reproducible_slots ")) << rounds.out;
  const CommandResult exact = verify({"-n", "4", "--set", "layout.pp=2", "--exact"});
  EXPECT_EQ(exact.status, 3);
  EXPECT_TRUE(contains(exact.out, "3 steps on pp 2 x dp 2 as on one device: different\n")) << exact.out;
  EXPECT_TRUE(contains(exact.out, "  without dp: bit-identical\n")) << exact.out;
  EXPECT_TRUE(contains(exact.out, "  without pp: different\n")) << exact.out;
  EXPECT_EQ(exact.err.rfind("weft: rank 0: pp 2 x dp 2 does not train as one device does: first ", 0), 0u) << exact.err;
  EXPECT_TRUE(exact.err.ends_with("; dp causes it: the difference disappears when it is off\n")) << exact.err;
}

TEST_F(WeftVerify, WritesJson) {
  const CommandResult result = verify({"--json", "--set", "layout.recompute=blocks"});
  EXPECT_EQ(result.status, 0) << result.err;
  const nlohmann::json json = nlohmann::json::parse(result.out);
  EXPECT_EQ(json.at("verdict"), "bit-identical");
  EXPECT_EQ(json.at("layout"), "one device with layout.recompute");
  EXPECT_EQ(json.at("parameters"), 29);
  EXPECT_TRUE(json.at("first").is_null());
}

TEST_F(WeftVerify, ReportsAnErrorOnce) {
  const CommandResult missing = verify({"-n", "2", "--set", "data.path=/nonexistent"});
  EXPECT_EQ(missing.status, 1);
  EXPECT_TRUE(contains(missing.err, "/nonexistent")) << missing.err;
  EXPECT_EQ(std::count(missing.err.begin(), missing.err.end(), '\n'), 1) << missing.err;
}

}  // namespace
}  // namespace weft::verify_test
