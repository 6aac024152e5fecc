// weft plan: the fastest layouts, as text, as JSON and as a recipe that forecasts the same.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/cli/command.h"

namespace weft::plan_test {
namespace {

const std::string kH100 = WEFT_SOURCE "/hardware/h100_node.toml";

class WeftPlan : public testing::Test {
 protected:
  void SetUp() override {
    std::ofstream(recipe_) << "# A toy.\nmodel = { name = \"gpt\", layers = 4, heads = 4, width = 128, context = 128 }\n"
                              "data = { name = \"text\", tokenizer = \"bytes\" }\nbatch = { global = 32 }  # samples\n"
                              "run = { steps = 20 }\n";
  }

  /// In a small space: sharding and recompute.
  CommandResult plan(std::vector<std::string> arguments) {
    std::vector<std::string> all = {"plan", recipe_, "--hardware", kH100};
    for (const char* kept : {"layout.pp=1", "layout.cp=1", "layout.tp=1", "layout.prefetch=1", "batch.micro=4"}) {
      all.insert(all.end(), {"--keep", kept});
    }
    all.insert(all.end(), arguments.begin(), arguments.end());
    return run_weft(all);
  }

  TemporaryFolder folder_;
  const std::string recipe_ = (folder_ / "toy.toml").string(), planned_ = (folder_ / "planned.toml").string();
};

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST_F(WeftPlan, ShowsTheBestAndWritesIt) {
  const CommandResult text = plan({"-n", "4", "--most", "2", "--keep", "layout.precision=bf16", "--space", "-o", planned_});
  EXPECT_EQ(text.status, 0) << text.err;
  EXPECT_TRUE(has(unwrapped(text.out), "on 4 ranks, 32 samples per step, at most 74.5 GiB on each")) << text.out;
  for (const char* words : {"\n  1 ", "\n  2 ", "approach: ", "order: ", "searched ",
                            "the space:", "layout.shard_level: none, optimizer, gradients, parameters", "wrote "}) {
    EXPECT_TRUE(has(text.out, words)) << words << "\n" << text.out;
  }
  const std::string written = read_text(planned_);
  EXPECT_TRUE(written.starts_with("# weft plan: 4 ranks on ")) << written;
  EXPECT_TRUE(has(written, "\n# weft plan: predicted: step ")) << written;
  EXPECT_TRUE(has(written, "\n# A toy.\n")) << written;
  EXPECT_TRUE(has(written, "precision = \"bf16\"")) << written;

  const CommandResult json = plan({"-n", "4", "--most", "1", "--keep", "layout.precision=bf16", "--json"});
  ASSERT_EQ(json.status, 0) << json.err;
  const nlohmann::json best = nlohmann::json::parse(json.out).at("best")[0];
  const CommandResult again = run_weft({"simulate", planned_, "-n", "4", "--hardware", kH100, "--json"});
  ASSERT_EQ(again.status, 0) << again.err;
  const nlohmann::json step = nlohmann::json::parse(again.out);
  EXPECT_EQ(step.at("step_s"), best.at("step_s")) << "the file forecasts the same";
  EXPECT_EQ(step.at("memory").at("most_bytes"), best.at("memory").at("most_bytes"));
}

TEST_F(WeftPlan, NamesASimplerLayout) {
  std::vector<std::string> large = {"plan", recipe_, "--hardware", kH100, "-n", "8"};
  for (const char* key : {"model.layers=2", "model.heads=12", "model.width=768", "model.context=1024", "model.vocabulary=50304",
                          "batch.global=1024"}) {
    large.insert(large.end(), {"--set", key});
  }
  for (const char* key : {"layout.precision=bf16", "layout.pp=1", "layout.tp=1", "layout.cp=1", "batch.micro=128"}) {
    large.insert(large.end(), {"--keep", key});
  }
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), large.begin(), large.end());
    const CommandResult result = run_weft(more);
    EXPECT_EQ(result.status, 0) << result.err;
    return result.out;
  };
  const std::string one = unwrapped(with({"--most", "1"})), all = unwrapped(with({"--most", "40"}));
  EXPECT_TRUE(has(one, "simpler, and within 1 %: replicas in ")) << one;
  EXPECT_TRUE(has(one, " GiB: dp 8, 1 micro-batch of 128")) << one;
  EXPECT_TRUE(has(all, " GiB: layout ")) << "a row of the table\n" << all;
  EXPECT_EQ(nlohmann::json::parse(with({"--json"})).at("simpler").at("approach"), "replicas");
}

TEST_F(WeftPlan, SaysWhatWouldMakeItFit) {
  const CommandResult none = plan({"-n", "1", "--memory", "1MiB"});
  EXPECT_EQ(none.status, 1);
  EXPECT_TRUE(has(none.out, "no layout fits\n")) << none.out;
  EXPECT_TRUE(has(none.out, "what would make it fit, the cheapest first:\n")) << none.out;
  EXPECT_TRUE(has(none.out, "left out:\n")) << none.out;
  EXPECT_TRUE(has(none.err, "toy.toml: no layout fits 1 rank; it would fit without --memory")) << none.err;
}

TEST_F(WeftPlan, TakesTheFastestMeasured) {
  const std::string text = (folder_ / "text").string();
  std::ofstream out(text);
  for (int i = 0; i < 400; ++i) out << "line " << i << " of a text that repeats itself\n";
  out.close();
  const CommandResult result = run_weft({"plan",
                                         recipe_,
                                         "--hardware",
                                         "laptop_cpu",
                                         "-n",
                                         "1",
                                         "--most",
                                         "2",
                                         "--measure",
                                         "--set",
                                         "model.width=16",
                                         "--set",
                                         "model.context=16",
                                         "--set",
                                         "model.layers=1",
                                         "--set",
                                         "batch.global=8",
                                         "--json",
                                         "--set",
                                         "data.path=" + text,
                                         "-o",
                                         planned_},
                                        {.prepare = [this] { EXPECT_EQ(chdir(folder_.path().c_str()), 0); }});
  ASSERT_EQ(result.status, 0) << result.err;
  const nlohmann::json json = nlohmann::json::parse(result.out), &best = json.at("best");
  ASSERT_EQ(best.size(), 2u);
  const size_t chosen = json.at("chosen").get<size_t>() - 1;
  for (const nlohmann::json& layout : best) {
    EXPECT_LE(best[chosen].at("measured").at("step_s"), layout.at("measured").at("step_s")) << layout;
  }
  EXPECT_TRUE(has(read_text(planned_), best[chosen].at("layout").get<std::string>() + "\n")) << read_text(planned_);
}

TEST_F(WeftPlan, KeepsFilesThatItReads) {
  const std::string copy = (folder_ / "h100.toml").string();
  std::filesystem::copy_file(kH100, copy);
  const std::vector<std::string> profiled = {"--set", "layout.profile=" + copy, "--set", "layout.pp=2", "-n", "2"};
  const std::pair<std::vector<std::string>, std::string> cases[] = {
      {{"plan", recipe_, "--hardware", copy, "-o", copy}, "the hardware file and -o"},
      {{"simulate", recipe_, "--hardware", copy, "--svg", copy}, "the hardware file and --svg"},
      {{"simulate", recipe_, "--hardware", copy, "--trace", copy}, "the hardware file and --trace"},
      {{"show", recipe_, "--hardware", copy, "--svg", copy}, "the hardware file and --svg"},
      {{"plan", recipe_, "--hardware", kH100, "-o", copy}, "layout.profile and -o"},
      {{"profile", recipe_, "-o", copy}, "layout.profile and --output"},
      {{"train", recipe_, "--summary", copy}, "layout.profile and --summary"},
  };
  for (auto [arguments, files] : cases) {
    if (files.starts_with("layout.profile")) arguments.insert(arguments.end(), profiled.begin(), profiled.end());
    const CommandResult result = run_weft(arguments);
    EXPECT_EQ(result.status, 1);
    EXPECT_EQ(result.err, "weft: " + files + " are the same file, " + copy + "; choose another\n");
    EXPECT_EQ(read_text(copy), read_text(kH100)) << files;
  }
}

TEST_F(WeftPlan, SaysWhyNoLayoutIsPossible) {
  const std::string alone = (folder_ / "alone.toml").string();
  std::ofstream(alone) << "[hardware]\nname = \"alone\"\nranks_per_host = 1\n[device]\nkind = \"cuda\"\nflops = 1e12\n";
  const CommandResult no_link = run_weft({"plan", recipe_, "--hardware", alone, "-n", "2"});
  EXPECT_EQ(no_link.status, 1);
  EXPECT_TRUE(has(no_link.err, "no layout is possible on 2 ranks: ")) << no_link.err;
  EXPECT_TRUE(has(no_link.err, "[inter_host]")) << no_link.err;
  const CommandResult kept = run_weft({"plan", recipe_, "--hardware", kH100, "-n", "8", "--keep", "layout.tp=3"});
  EXPECT_EQ(kept.status, 1);
  EXPECT_EQ(kept.err, "weft: " + recipe_ +
                          ": no layout is possible on 8 ranks: the axes that --keep fixes do not divide them; "
                          "one is possible if layout.tp may change\n");
}

TEST_F(WeftPlan, SaysThatNothingWasMeasured) {
  const CommandResult result =
      run_weft({"plan", recipe_, "--hardware", "laptop_cpu", "-n", "1", "--most", "1", "--measure", "--keep", "batch.micro=4",
                "--set", "data.path=" + (folder_ / "missing").string(), "-o", planned_},
               {.prepare = [this] { EXPECT_EQ(chdir(folder_.path().c_str()), 0); }});
  EXPECT_EQ(result.status, 1);
  EXPECT_TRUE(has(result.out, "measured here")) << result.out;
  EXPECT_FALSE(has(result.out, "the fastest: ")) << result.out;
  EXPECT_TRUE(has(result.err, "toy.toml: no layout could be measured: ")) << result.err;
  EXPECT_FALSE(std::filesystem::exists(planned_));
}

TEST_F(WeftPlan, DrawsCurves) {
  const std::string svg = (folder_ / "c.svg").string();
  const CommandResult curve = plan(
      {"--what-if", "gpus=1,2", "--tokens", "1e9", "--price", "2", "--svg", svg, "--json", "--memory", "60MiB", "--largest"});
  ASSERT_EQ(curve.status, 0) << curve.err;
  const nlohmann::json points = nlohmann::json::parse(curve.out).at("points");
  ASSERT_EQ(points.size(), 2u);
  EXPECT_LT(points[1].at("training_s"), points[0].at("training_s"));
  EXPECT_GT(points[1].at("largest").at("parameters"), points[0].at("largest").at("parameters"));
  EXPECT_GE(points[0].at("largest").at("layers"), 4);
  EXPECT_TRUE(has(read_text(svg), "Days of training vs ranks"));
}

TEST_F(WeftPlan, RefusesInOneLine) {
  const std::pair<std::vector<std::string>, std::string> cases[] = {
      {{"--keep", "optimizer.lr=1"}, "--keep optimizer.lr=1: only keys of [layout] and batch.micro are searched; use --set"},
      {{"--memory", "much"}, "--memory much: write it as 24GiB, 80GB or 512MiB"},
      {{"--memory", "24"}, "--memory 24: write it as 24GiB, 80GB or 512MiB"},
      {{"--measure"},
       "--measure trains here, on cpu, but " + kH100 +
           " describes devices of kind cuda: leave it out, or plan with a file of this "
           "machine, which weft calibrate writes"},
      {{"--what-if", "8..16"}, "--what-if 8..16: write it as gpus=8..4096, which is 8, 16, 32 and so on, or as gpus=8,12,16"},
      {{"-o", recipe_}, "the recipe and -o are the same file, " + recipe_ + "; choose another"},
      {{"--vary", "layout.tp"}, "--vary layout.tp: only layout.precision can be varied"},
      {{"--vary", "layout.precision", "--keep", "layout.precision"},
       "--vary layout.precision and --keep layout.precision: leave one out"},
      {{"--hosts", "1000000"}, "--hosts 1000000: 8000000 ranks; at most 1000000 are planned"},
      {{"--what-if", "gpus=1,2", "--most", "2"},
       "-o, --measure, --most and --space are of one number of ranks: leave them out with --what-if and several --hardware"},
      {{"--measure", "--set", "save.folder=s"},
       recipe_ + ": save.folder is set, but runs that only measure save nothing; leave it out"},
      {{"--svg", planned_}, "--svg, --tokens, --price and --largest belong to --what-if or to several --hardware"},
  };
  for (const auto& [arguments, error] : cases) {
    const CommandResult result = plan(arguments);
    EXPECT_EQ(result.status, 1);
    EXPECT_EQ(result.err, "weft: " + error + "\n");
  }
}

}  // namespace
}  // namespace weft::plan_test
