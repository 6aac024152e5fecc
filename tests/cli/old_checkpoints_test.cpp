// Checkpoints of each released version can be resumed, as promised (docs/checkpoints.md). tests/checkpoint/versions has one per
// version, with its recipe, its text, and the loss of that version three steps later.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/cli/command.h"

namespace weft::old_checkpoints_test {
namespace {

namespace fs = std::filesystem;

TEST(OldCheckpoints, EachVersionResumes) {
  int versions = 0;
  for (const fs::directory_entry& version : fs::directory_iterator(fs::path(WEFT_SOURCE) / "tests/checkpoint/versions")) {
    SCOPED_TRACE(version.path().filename());
    ++versions;
    const TemporaryFolder folder;
    const CommandOptions there{.prepare = [&] { fs::current_path(version.path()); }};
    EXPECT_EQ(run_weft({"checkpoint", "verify", "step-00000006"}, there).status, 0);
    const std::string summary = (folder / "summary.json").string();
    const CommandResult result = run_weft({"train", "recipe.toml", "-n", "2", "--resume", "step-00000006", "--set",
                                           "save.folder=" + (folder / "run").string(), "--summary", summary},
                                          there);
    ASSERT_EQ(result.status, 0) << result.err;
    EXPECT_NE(result.out.find("after step 6 of 9"), std::string::npos) << result.out;
    const auto found = nlohmann::json::parse(read_text(summary)),
               expected = nlohmann::json::parse(read_text(version.path() / "after.json"));
    EXPECT_NEAR(found.at("loss").get<double>(), expected.at("loss").get<double>(), 1e-4);
    EXPECT_NEAR(found.at("evaluation").at("loss").get<double>(), expected.at("evaluation loss").get<double>(), 1e-4)
        << "of the average";
    EXPECT_EQ(run_weft({"checkpoint", "export", "step-00000006", (folder / "w.safetensors").string(), "--ema"}, there).status,
              0);
  }
  EXPECT_GE(versions, 1);
}

}  // namespace
}  // namespace weft::old_checkpoints_test
