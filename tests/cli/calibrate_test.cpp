// weft calibrate: the file that it writes prices any recipe.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/cli/command.h"

namespace weft::calibrate_test {
namespace {

const std::string kRecipes = WEFT_SOURCE "/recipes/";

TEST(WeftCalibrate, WritesAFileThatPricesAnyRecipe) {
  const std::filesystem::path file = std::filesystem::path(testing::TempDir()) / "weft_calibrate_test.toml";
  const CommandResult result =
      run_weft({"calibrate", "--threads", "1", "--turns", "1", "-n", "1", "-o", file.string()}, {.deadline_s = 300.0});
  ASSERT_EQ(result.status, 0) << result.err;
  for (const char* text : {"  product ", "  attention_backward ", "  update ", "measured on 1 rank at once\n"}) {
    EXPECT_NE(result.out.find(text), std::string::npos) << text << "\n" << result.out;
  }
  for (const char* recipe : {"gpt.toml", "llama.toml", "fashion_mnist.toml", "fashion_resnet.toml"}) {
    for (const char* precision : {"fp32", "bf16"}) {
      const CommandResult simulated = run_weft({"simulate", kRecipes + recipe, "-n", "1", "--hardware", file.string(), "--json",
                                                "--set", std::string("layout.precision=") + precision});
      ASSERT_EQ(simulated.status, 0) << simulated.err;
      const auto json = nlohmann::json::parse(simulated.out);
      EXPECT_GT(json["step_s"], 1e-3) << recipe;
      EXPECT_LT(json["step_s"], 60.0) << recipe;
    }
  }
  std::filesystem::remove(file);
}

TEST(WeftCalibrate, WhatCannotBeMeasuredIsRefusedFirst) {
  EXPECT_NE(run_weft({"calibrate", "-n", "1"}).status, 0) << "no --output";
  EXPECT_NE(run_weft({"calibrate", "-n", "1", "-o", "/nowhere/here.toml"}).status, 0);
}

}  // namespace
}  // namespace weft::calibrate_test
