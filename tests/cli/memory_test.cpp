// weft memory for a CPU and for a GPU that is not there, and the other commands that plan for one.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/cli/command.h"
#include "tests/data/temp_folder.h"

namespace weft::memory_command_test {
namespace {

const std::string kGpt = WEFT_SOURCE "/recipes/gpt.toml", kResnet = WEFT_SOURCE "/recipes/fashion_resnet.toml";

std::string text_of(std::vector<std::string> arguments) {
  const CommandResult result = run_weft(arguments);
  EXPECT_EQ(result.status, 0) << result.err;
  return result.out;
}

nlohmann::json forecast(const std::string& recipe, std::vector<std::string> more) {
  std::vector<std::string> arguments = {"memory", recipe, "-n", "2", "--json"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return nlohmann::json::parse(text_of(arguments));
}

int64_t bytes(const nlohmann::json& forecast, const char* category) { return forecast.at("bytes").at(category).get<int64_t>(); }

TEST(WeftMemory, DiffersBetweenDevicesWhereTheyDiffer) {
  const std::string saves = "save.folder=unused";
  const auto cpu = forecast(kGpt, {"--device", "cpu", "--set", saves}),
             gpu = forecast(kGpt, {"--device", "cuda", "--set", saves});
  EXPECT_EQ(cpu.at("device"), "cpu");
  EXPECT_EQ(gpu.at("device"), "cuda");
  // Kernels, and their scratch.
  EXPECT_NE(bytes(gpu, "activations"), bytes(cpu, "activations"));
  // Shared memory between ranks on CPUs; NCCL's buffers are its own.
  EXPECT_GT(bytes(cpu, "communication buffers"), 0);
  EXPECT_EQ(bytes(gpu, "communication buffers"), 0);
  // Weights are the same, up to the allocator's rounding.
  EXPECT_GE(bytes(gpu, "weights"), bytes(cpu, "weights"));
  EXPECT_LT(bytes(gpu, "weights"), bytes(cpu, "weights") * 1.1);
  // Copies of the state are on the host.
  EXPECT_GT(bytes(gpu, "copies of the state"), 0);
  EXPECT_EQ(gpu.at("host_bytes"), bytes(gpu, "copies of the state"));
  EXPECT_EQ(cpu.at("host_bytes"), 0);
  for (const auto* forecast : {&cpu, &gpu}) {
    int64_t sum = 0;
    for (const auto& category : forecast->at("bytes")) sum += category.get<int64_t>();
    EXPECT_EQ(forecast->at("sum").get<int64_t>(), sum - forecast->at("host_bytes").get<int64_t>());
  }
  // Whole segments of 2 MiB.
  EXPECT_EQ(cpu.at("reserved"), cpu.at("at_once"));
  EXPECT_EQ(gpu.at("reserved").get<int64_t>() % (2 << 20), 0);
  EXPECT_GE(gpu.at("reserved"), gpu.at("at_once"));
}

TEST(WeftMemory, PlansEveryLayoutForAGpu) {
  for (const std::string& layout :
       std::vector<std::string>{"layout.precision=bf16", "layout.cp=2", "layout.tp=2", "layout.recompute=blocks",
                                "layout.shard_level=parameters", "layout.pp=2"}) {
    const auto gpu = forecast(kGpt, {"--device", "cuda", "--set", layout});
    EXPECT_GT(bytes(gpu, "activations"), 0) << layout;
  }
  EXPECT_NE(bytes(forecast(kResnet, {"--device", "cuda"}), "activations"),
            bytes(forecast(kResnet, {"--device", "cpu"}), "activations"));
}

TEST(WeftMemory, SaysForWhichDeviceItIs) {
  const std::string by_option = text_of({"memory", kGpt, "-n", "2", "--device", "cuda"});
  EXPECT_EQ(by_option, text_of({"memory", kGpt, "-n", "2", "--set", "run.device=cuda"}));
  EXPECT_NE(by_option.find("\n  reserved, at least "), std::string::npos) << by_option;
  EXPECT_NE(by_option.find("\nFor a GPU: "), std::string::npos) << by_option;
  const std::string on_cpu = text_of({"memory", kGpt, "-n", "2", "--device", "cpu"});
  EXPECT_EQ(on_cpu.find("GPU"), std::string::npos) << on_cpu;
  EXPECT_EQ(text_of({"memory", kGpt, "-n", "2", "--device", "cpu", "--set", "run.device=cuda"}), on_cpu)
      << "the option decides";
}

TEST(WeftMemory, RefusesAnUnknownDeviceAndWhatDoesNotFitIt) {
  const CommandResult unknown = run_weft({"memory", kGpt, "--device", "tpu"});
  EXPECT_EQ(unknown.status, 2);
  EXPECT_NE(unknown.err.find("--device"), std::string::npos) << unknown.err;
  const CommandResult nccl = run_weft({"memory", kGpt, "--device", "cpu", "--set", "layout.backend=nccl"});
  EXPECT_EQ(nccl.status, 1);
  EXPECT_NE(nccl.err.find("layout.backend = \"nccl\" moves tensors of GPUs, but run.device = \"cpu\""), std::string::npos)
      << nccl.err;
}

/// A hardware file's devices decide, unless the recipe names others.
TEST(WeftSimulate, PlansForTheDevicesOfTheHardwareFile) {
  const test::TempFolder folder;
  const auto hardware = [&](const std::string& kind) {
    const std::string path = folder.file("hardware" + kind + ".toml");
    std::ofstream(path) << "hardware = { name = 'x', ranks_per_host = 2 }\ndevice = { "
                        << (kind.empty() ? "" : "kind = '" + kind + "', ")
                        << "flops = 1e12 }\nintra_host = { bytes_per_s = 1e9 }\n";
    return path;
  };
  const auto memory = [&](const std::string& kind, const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {"simulate", kGpt, "-n", "2", "--json", "--hardware", hardware(kind)};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return nlohmann::json::parse(text_of(arguments)).at("memory").at("most_bytes").get<int64_t>();
  };
  const std::vector<std::string> on_gpu = {"--set", "run.device=cuda"};
  EXPECT_NE(memory("cuda", {}), memory("cpu", {}));
  EXPECT_EQ(memory("cuda", {}), memory("", on_gpu));
  EXPECT_EQ(memory("cuda", {}), memory("cuda", on_gpu));
  const CommandResult both = run_weft({"simulate", kGpt, "-n", "2", "--hardware", hardware("cpu"), "--set", "run.device=cuda"});
  EXPECT_EQ(both.status, 1);
  EXPECT_NE(
      both.err.find("run.device = \"cuda\", but the devices of hardware 'x' are of kind \"cpu\" (device.kind); leave one out"),
      std::string::npos)
      << both.err;
}

}  // namespace
}  // namespace weft::memory_command_test
