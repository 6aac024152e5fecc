// weft simulate, and the pictures that it and weft show draw.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/cli/command.h"

namespace weft::simulate_test {
namespace {

const std::string kGpt = WEFT_SOURCE "/recipes/gpt.toml";
const std::string kLaptop = WEFT_SOURCE "/hardware/laptop_cpu.toml";
const std::string kH100 = WEFT_SOURCE "/hardware/h100_node.toml";
const std::string kA100 = WEFT_SOURCE "/hardware/a100_roce.toml";

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

nlohmann::json simulated(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {"simulate", kGpt, "--json"});
  const CommandResult result = run_weft(arguments);
  EXPECT_EQ(result.status, 0) << result.err;
  return nlohmann::json::parse(result.out);
}

std::vector<std::string> files_in(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) names.push_back(entry.path().filename());
  return names;
}

TEST(WeftSimulate, PredictsTheStepTime) {
  const CommandResult result = run_weft({"simulate", kGpt, "-n", "4", "--hardware", kLaptop});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_TRUE(contains(unwrapped(result.out), "on 4 ranks: dp 4, 32 samples per step")) << result.out;
  EXPECT_TRUE(contains(result.out, "hardware: CPU, a core a rank, 4 ranks per host\n")) << result.out;
  for (const char* word :
       {"  step  ", " samples/s, ", " tokens/s\n", "  bubble  ", "  exposed communication  ", "(MFU)", "  memory per rank  "})
    EXPECT_TRUE(contains(result.out, word)) << word << "\n" << result.out;
  EXPECT_FALSE(contains(result.out, "pp 0 |")) << "there is no pipeline";
}

TEST(WeftSimulate, ChartsAPipeline) {
  const CommandResult result =
      run_weft({"simulate", kGpt, "-n", "4", "--hardware", kLaptop, "--set", "layout.pp=4", "--set", "batch.micro=4"});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_TRUE(contains(result.out, "pp 0 | F0 ")) << result.out;
  EXPECT_TRUE(contains(result.out, "pp 3 | ")) << result.out;
  EXPECT_TRUE(contains(result.out, "\npipeline over time: a blank is a wait\n  F3   forward of micro-batch 3\n")) << result.out;
  EXPECT_TRUE(contains(result.out, "   rank  alike   pp ")) << result.out;
}

TEST(WeftSimulate, JsonAddsUp) {
  const nlohmann::json one = simulated({"-n", "1", "--hardware", kA100});
  const nlohmann::json four = simulated({"-n", "4", "--hardware", kA100});
  EXPECT_EQ(four.at("world"), 4);
  EXPECT_EQ(four.at("ranks").size(), 1u);
  EXPECT_EQ(four.at("ranks")[0].at("alike"), 4);
  EXPECT_EQ(four.at("flops"), one.at("flops")) << "the batch is the same";
  const double step_s = four.at("step_s");
  EXPECT_LT(step_s, one.at("step_s").get<double>());
  EXPECT_GT(step_s, one.at("step_s").get<double>() / 4);
  EXPECT_DOUBLE_EQ(four.at("samples_per_s"), 32 / step_s);
  EXPECT_DOUBLE_EQ(four.at("tokens_per_s"), 32 * 128 / step_s);
  EXPECT_NEAR(four.at("mfu"), four.at("model_flops").get<double>() / (4 * 19.5e12 * step_s), 1e-9);
  const nlohmann::json& rank = four.at("ranks")[0];
  EXPECT_NEAR(rank.at("busy_s").get<double>() + rank.at("exposed_s").get<double>() + rank.at("waiting_s").get<double>(), step_s,
              1e-12);
  EXPECT_GT(rank.at("exposed_s"), 0.0);
  EXPECT_EQ(four.at("memory").at("fits"), true);
  EXPECT_EQ(four.at("memory").at("most_bytes"), rank.at("memory_bytes"));
}

TEST(WeftSimulate, TellsWhatComputingConsistsOf) {
  const CommandResult result = run_weft({"simulate", kGpt, "-n", "2", "--hardware", kA100});
  for (const char* kind : {" %  matrix products; ", "attention ", "memory-bound ", "launches and slowdown "}) {
    EXPECT_TRUE(contains(unwrapped(result.out), kind)) << kind << "\n" << result.out;
  }
  const nlohmann::json step = simulated({"-n", "2", "--hardware", kA100});
  double sum = 0.0;
  for (const char* kind : {"products_s", "attention_s", "memory_bound_s", "overhead_s"}) {
    EXPECT_GT(step.at("computing").at(kind), 0.0) << kind;
    sum += step.at("computing").at(kind).get<double>();
  }
  EXPECT_DOUBLE_EQ(sum, step.at("busiest_s").get<double>());
  EXPECT_FALSE(contains(run_weft({"simulate", kGpt, "--hardware", kLaptop}).out, "products")) << "operators are not counted";
  EXPECT_FALSE(simulated({"--hardware", kLaptop}).contains("computing"));
}

TEST(WeftSimulate, TellsWhatTheDeviceWaitsFor) {
  // A small model is bound by launches, unless it is captured.
  const std::vector<std::string> small = {
      "-n", "2", "--hardware", kH100, "--set", "batch.micro=1", "--set", "layout.precision=bf16"};
  const nlohmann::json step = simulated(small);
  const nlohmann::json &bound = step.at("launch_bound"), &captured = bound.at("captured");
  EXPECT_GT(bound.at("share"), 0.25);
  EXPECT_EQ(bound.at("launch_s"), step.at("ranks")[0].at("launch_s"));
  EXPECT_EQ(bound.at("host_waits"), 0);
  std::vector<std::string> late = small;
  late.insert(late.end(), {"--set", "optimizer.name=adafactor", "--set", "optimizer.ema=0.9", "--set", "run.noise_scale=true"});
  EXPECT_EQ(simulated(late).at("launch_bound").at("host_waits"), 0) << "nor do these need the host's numbers";
  EXPECT_LT(captured.at("share"), bound.at("share"));
  EXPECT_LT(captured.at("launches").get<int>(), bound.at("launches").get<int>() / 3);
  EXPECT_LT(captured.at("step_s"), step.at("step_s"));
  double exposed_s = 0.0;
  for (const nlohmann::json& call : step.at("communication").at("calls")) {
    EXPECT_LE(call.at("exposed_s"), call.at("seconds")) << call;
    exposed_s += call.at("exposed_s").get<double>();
  }
  EXPECT_NEAR(exposed_s, step.at("exposed_s"), 1e-12);
  EXPECT_GT(exposed_s, 0.0);
  std::vector<std::string> text = small;
  text.insert(text.begin(), {"simulate", kGpt});
  const std::string out = unwrapped(run_weft(text).out);
  for (const char* words : {"launch-bound  ", "if it is a captured graph (run.graph)",
                            "collectives, messages and copies there; the longest: reduce of "}) {
    EXPECT_TRUE(contains(out, words)) << words << "\n" << out;
  }
  EXPECT_FALSE(simulated({"--hardware", kA100}).contains("launch_bound")) << "its file gives launches no time";
}

TEST(WeftSimulate, RecomputeDoesNotCountAsModelFlops) {
  const nlohmann::json kept = simulated({"--hardware", kA100});
  const nlohmann::json again = simulated({"--hardware", kA100, "--set", "layout.recompute=blocks"});
  EXPECT_EQ(again.at("model_flops"), kept.at("flops"));
  EXPECT_GT(again.at("flops"), kept.at("flops"));
  EXPECT_GT(again.at("step_s"), kept.at("step_s"));
  EXPECT_LT(again.at("memory").at("most_bytes"), kept.at("memory").at("most_bytes"));
}

TEST(WeftSimulate, ReportsWhatDoesNotFit) {
  const std::vector<std::string> large = {"simulate",          kGpt,    "--hardware",     kA100, "--set",
                                          "model.width=12288", "--set", "model.layers=96"};
  const CommandResult result = run_weft(large);
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_TRUE(contains(unwrapped(result.out), "a device has 74.5 GiB: IT DOES NOT FIT")) << result.out;
}

TEST(WeftSimulate, AnswersForThousandsOfRanks) {
  const CommandResult result = run_weft({"simulate", kGpt, "-n", "4096", "--hardware", kA100, "--set", "batch.global=65536",
                                         "--set", "batch.micro=1", "--set", "layout.pp=16", "--set", "model.layers=96"});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_TRUE(contains(result.out, "pp 16 (1f1b) x dp 256")) << result.out;
}

TEST(WeftSimulate, DrawsAndTraces) {
  const TemporaryFolder folder;
  const CommandResult result = run_weft(
      {"simulate", kGpt, "-n", "2", "--hardware", kLaptop, "--svg", folder / "step.svg", "--trace", folder / "step.json"});
  EXPECT_EQ(result.status, 0) << result.err;
  const std::string svg = read_text(folder / "step.svg");
  EXPECT_TRUE(contains(svg, "<svg ")) << svg;
  EXPECT_TRUE(contains(svg, "simulated on CPU, a core a rank: step ")) << svg;
  EXPECT_TRUE(svg.ends_with("</svg>\n"));
  EXPECT_GT(nlohmann::json::parse(read_text(folder / "step.json")).size(), 20u);
  EXPECT_EQ(files_in(folder.path()).size(), 2u) << "nothing else is left";
}

TEST(WeftSimulate, ErrorsAreOneLine) {
  const TemporaryFolder folder;
  const auto error_of = [](const std::vector<std::string>& arguments) {
    const CommandResult result = run_weft(arguments);
    EXPECT_NE(result.status, 0);
    EXPECT_EQ(result.out, "");
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    return result.err;
  };
  EXPECT_EQ(error_of({"simulate", kGpt}), "weft: --hardware is required; see weft simulate --help\n");
  EXPECT_EQ(error_of({"simulate", kGpt, "--hardware", folder / "none.toml"}),
            "weft: cannot read the hardware file '" + (folder / "none.toml").string() + "': No such file or directory\n");
  const std::string svg = folder / "no" / "step.svg";
  EXPECT_EQ(error_of({"simulate", kGpt, "--hardware", kLaptop, "--svg", svg}),
            "weft: " + svg + ": cannot write it: the folder " + (folder / "no").string() +
                " does not exist; make it (mkdir -p) or name another path\n");
  std::ofstream(folder / "bad.toml") << "hardware = { name = 'x', rank_per_host = 2 }\n";
  EXPECT_EQ(error_of({"simulate", kGpt, "--hardware", folder / "bad.toml"}),
            "weft: " + (folder / "bad.toml").string() +
                ":1:26: unknown key 'hardware.rank_per_host'; did you mean 'hardware.ranks_per_host'?\n");
  EXPECT_TRUE(files_in(folder.path()) == std::vector<std::string>{"bad.toml"});
}

TEST(WeftShow, DrawsTimeOnNominalHardware) {
  const TemporaryFolder folder;
  const CommandResult nominal = run_weft({"show", kGpt, "-n", "2", "--svg", folder / "a.svg"});
  EXPECT_EQ(nominal.status, 0) << nominal.err;
  EXPECT_TRUE(contains(nominal.out, "\nTimes in the files are simulated on nominal hardware: ")) << nominal.out;
  EXPECT_TRUE(contains(nominal.out, "; give your own with --hardware.\n")) << nominal.out;
  EXPECT_TRUE(contains(read_text(folder / "a.svg"), "simulated on nominal hardware: 100 TFLOP/s"));
  const CommandResult named =
      run_weft({"show", kGpt, "-n", "2", "--trace", folder / "a.json", "--hardware", kLaptop, "--rank", "0"});
  EXPECT_EQ(named.status, 0) << named.err;
  EXPECT_TRUE(contains(named.out, "\nTimes in the files are simulated on CPU, a core a rank.\n")) << named.out;
  EXPECT_TRUE(nlohmann::json::parse(read_text(folder / "a.json")).is_array());
  EXPECT_FALSE(contains(run_weft({"show", kGpt, "-n", "2"}).out, "Times in the files")) << "not requested";
}

}  // namespace
}  // namespace weft::simulate_test
