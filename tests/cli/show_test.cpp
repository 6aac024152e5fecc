// weft show and version.
#include <gtest/gtest.h>

#include "tests/cli/command.h"

namespace weft::show_test {
namespace {

const std::string kGpt = WEFT_SOURCE "/recipes/gpt.toml";

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(WeftShow, DrawsTheProgram) {
  const CommandResult result = run_weft({"show", kGpt, "-n", "4"});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_TRUE(contains(result.out, "on 4 ranks: dp 4")) << result.out;
  for (const char* word : {"forward", "backward", "sum the gradients", "optimizer"})
    EXPECT_TRUE(contains(result.out, word)) << word;
}

TEST(WeftShow, ListsARank) {
  const CommandResult one = run_weft({"show", kGpt, "-n", "2", "--rank", "1"});
  EXPECT_EQ(one.status, 0) << one.err;
  EXPECT_TRUE(contains(one.out, "load")) << one.out;
  EXPECT_EQ(run_weft({"show", kGpt, "-n", "2", "--rank", "2"}).status, 1);
}

TEST(WeftShow, AnswersForThousandsOfRanks) {
  const CommandResult result = run_weft({"show", kGpt, "-n", "4096", "--set", "batch.global=8192"});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_TRUE(contains(result.out, "4096")) << result.out;
}

TEST(WeftShow, NamesEveryAxis) {
  const CommandResult all =
      run_weft({"show", kGpt, "-n", "16", "--set", "layout.pp=2", "--set", "layout.cp=2", "--set", "layout.tp=2"});
  EXPECT_TRUE(contains(unwrapped(all.out), "on 16 ranks: pp 2 (1f1b) x dp 2 x cp 2 x tp 2, ")) << all.out << all.err;
  const CommandResult alone = run_weft({"show", kGpt, "-n", "2", "--set", "layout.tp=2"});
  EXPECT_TRUE(contains(unwrapped(alone.out), "on 2 ranks: tp 2, ")) << alone.out << alone.err;
}

TEST(WeftVersion, NamesWeftAndLibTorch) {
  for (const char* argument : {"version", "--version"}) {
    const CommandResult result = run_weft({argument});
    EXPECT_EQ(result.status, 0);
    EXPECT_EQ(result.out.rfind("weft ", 0), 0u) << result.out;
    EXPECT_TRUE(contains(result.out, "LibTorch 2.")) << result.out;
  }
}

}  // namespace
}  // namespace weft::show_test
