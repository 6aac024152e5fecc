// weft data check.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/cli/command.h"

namespace weft::data_test {
namespace {

TEST(WeftDataCheck, ReportsTheDataAndItsStatus) {
  const TemporaryFolder folder;
  const std::string text = folder / "text.txt", recipe = folder / "r.toml";
  std::ofstream(text) << "to be or not to be";
  std::ofstream(recipe) << "model = { name = \"gpt\", layers = 1, heads = 1, width = 8, context = 4, vocabulary = 256 }\n"
                           "data = { name = \"text\", evaluation = 0.5, path = \""
                        << text << "\" }\nbatch = { global = 1 }\nrun = { steps = 1 }\n";
  const CommandResult good = run_weft({"data", "check", recipe});
  EXPECT_EQ(good.status, 0) << good.err;
  EXPECT_EQ(
      good.out,
      "training and evaluation: 18 tokens in 1 document, the largest id 116 of a vocabulary of 256\nnothing is damaged\n");
  EXPECT_EQ(good.err, "") << "progress is for terminals";
  const CommandResult bad = run_weft({"data", "check", recipe, "--json", "--set", "data.name=jsonl"});
  EXPECT_EQ(bad.status, 3) << bad.err;
  const auto json = nlohmann::json::parse(bad.out);
  EXPECT_EQ(json["stops_training"], true);
  EXPECT_NE(json["sets"][0]["error"].get<std::string>().find("no documents"), std::string::npos) << bad.out;
  const CommandResult none = run_weft({"data"});
  EXPECT_EQ(none.status, 2) << none.err;
  EXPECT_NE(run_weft({"data", "check", "--help"}).out.find("  weft data check "), std::string::npos);
}

}  // namespace
}  // namespace weft::data_test
