// shared_layout: rank 0 searches the layout that layout = "auto" stands for; the others read it.
#include "weft/train/run/shared_layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <string>

#include "tests/support/run_ranks.h"
#include "weft/base/error.h"
#include "weft/recipe/read/read_recipe.h"
#include "weft/recipe/read/recipe_values.h"

namespace weft::shared_layout_test {
namespace {

using ::testing::HasSubstr;

Recipe recipe_on(const std::string& hardware, const std::string& layout = "auto") {
  return parse_recipe(R"(
    model = { name = "gpt", layers = 2, heads = 2, width = 16, context = 8 }
    data = { name = "text", path = "none.txt" }
    batch = { global = 8 }
    run = { steps = 3, device = "cpu" }
  )",
                      "shared_layout_test.toml", {"layout=" + layout, "run.hardware=" + hardware, "layout.precision=bf16"});
}

class SharedLayout : public testing::Test {
 protected:
  /// A machine whose ranks have so many bytes.
  std::string hardware(const char* bytes) {
    std::ofstream(path_)
        << "hardware = { name = 'toy', ranks_per_host = 2, overlap = false }\ndevice = { flops = 1e9, memory_bytes = " << bytes
        << " }\nintra_host = { latency_s = 1e-6, bytes_per_s = 1e9 }\n";
    return path_;
  }

  const std::string path_ = testing::TempDir() + "shared_layout_test_hardware.toml";
};

TEST_F(SharedLayout, IsChosenByRankZeroAlone) {
  const std::string here = hardware("1e9");
  std::map<std::string, std::string> chosen[2];
  std::string notes[2];
  test::run_ranks(2, [&](const World& world) {
    const Recipe own = recipe_on(world.rank() == 0 ? here : "/none/there.toml");
    Recipe planned = shared_layout(own, world, [&](const std::string& note) { notes[world.rank()] += note; });
    planned.run.hardware.clear();
    chosen[world.rank()] = recipe_values(planned);
  });
  EXPECT_EQ(chosen[0], chosen[1]);
  EXPECT_EQ(chosen[0].at("layout.style"), "mesh");
  EXPECT_EQ(chosen[0].at("layout.precision"), "bf16") << "what the recipe sets stays";
  EXPECT_THAT(notes[0], HasSubstr("layout: "));
  EXPECT_THAT(notes[0], HasSubstr(" per step"));
  EXPECT_EQ(notes[1], "");
  test::run_ranks(2, [&](const World& world) {
    EXPECT_EQ(shared_layout(recipe_on("none", "naive"), world, {}).layout.style, "naive") << "nothing to search";
  });
}

TEST_F(SharedLayout, ErrorsOfRankZeroReachAllRanks) {
  const Recipe recipe = recipe_on(hardware("1e3"));
  test::run_ranks(2, [&](const World& world) {
    try {
      shared_layout(recipe, world, {});
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("layout = \"auto\": no layout fits 2 ranks of "));
      EXPECT_EQ(dynamic_cast<const InputError*>(&error) != nullptr, world.rank() == 0);
    }
  });
}

}  // namespace
}  // namespace weft::shared_layout_test
