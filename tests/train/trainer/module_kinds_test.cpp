// Every module kind that LibTorch ships, as a block: in float32 it has the bits of LibTorch's own loop in any layout, or weft
// says in one line why not.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>

#include "tests/data/temp_folder.h"
#include "tests/support/run_processes.h"
#include "tests/train/trainer/module_kinds/kinds.h"

namespace weft::module_kinds {

std::vector<Kind> all_kinds() {
  std::vector<Kind> all;
  for (const auto& kinds : {activation_kinds(), container_kinds(), convolution_kinds(), pooling_kinds(), norm_kinds(),
                            sequence_kinds(), loss_kinds()}) {
    all.insert(all.end(), kinds.begin(), kinds.end());
  }
  return all;
}

namespace {

/// Relative to the largest value: two units of bfloat16's last place, because weft sums narrow products in its own order.
constexpr double kBf16Tolerance = 1.0 / 128.0;

const std::vector<Layout>& layouts_of_ranks() {
  static const std::vector<Layout> all = {
      {.name = "dp2", .ranks = 2},
      {.name = "shard2", .ranks = 2, .shard = true},
      {.name = "pp2_before", .ranks = 2, .pp = 2, .cut = 1},
      {.name = "pp2_after", .ranks = 2, .pp = 2, .cut = 2},
  };
  return all;
}

class ModuleKindsTest : public ::testing::TestWithParam<Kind> {};

void expect_refusal(const Outcome& outcome, const std::string& text, const std::string& where) {
  EXPECT_NE(outcome.error.find(text), std::string::npos) << where << ": '" << outcome.error << "', must say: " << text;
  EXPECT_EQ(outcome.error.find('\n'), std::string::npos) << where << ": " << outcome.error;
}

TEST_P(ModuleKindsTest, HasTheBitsOfTorchsLoop) {
  const Kind& kind = GetParam();
  const test::TempFolder folder;
  const std::string saved = (folder.path() / "saved").string();
  Draws draws;
  const Outcome alone = train_threads(kind, {.name = "alone", .save = saved}, &draws);
  if (!kind.refused.empty()) return expect_refusal(alone, kind.refused, "alone");
  ASSERT_EQ(alone.error, "");
  const Outcome plain = train_plainly(kind, false, draws);
  ASSERT_EQ(plain.error, "");
  EXPECT_EQ(difference(alone, plain, 0.0), "") << "alone";
  EXPECT_EQ(difference(train_threads(kind, {.name = "recompute", .recompute = true}), plain, 0.0), "") << "recompute";
  EXPECT_EQ(difference(train_threads(kind, {.name = "resumed", .load = saved}), plain, 0.0), "") << "resumed";
  if (kind.random) return;
  for (const Layout& layout : layouts_of_ranks()) {
    EXPECT_EQ(difference(train_threads(kind, layout), plain, 0.0), "") << layout.name;
  }
  const Layout resumed{.name = "resumed_shard2", .ranks = 2, .shard = true, .load = saved};
  EXPECT_EQ(difference(train_threads(kind, resumed), plain, 0.0), "") << resumed.name;
}

TEST_P(ModuleKindsTest, IsNearTorchsLoopInBf16) {
  const Kind& kind = GetParam();
  if (!kind.refused.empty()) return;
  Draws draws;
  const Outcome narrow = train_threads(kind, {.name = "bf16", .bf16 = true}, &draws);
  if (!kind.refused_in_bf16.empty()) return expect_refusal(narrow, kind.refused_in_bf16, "bf16");
  ASSERT_EQ(narrow.error, "");
  const Outcome plain = train_plainly(kind, true, draws);
  ASSERT_EQ(plain.error, "");
  EXPECT_EQ(difference(narrow, plain, kBf16Tolerance), "");
}

const auto kRowName = [](const ::testing::TestParamInfo<Kind>& info) { return row_name(info.param); };
INSTANTIATE_TEST_SUITE_P(Activation, ModuleKindsTest, ::testing::ValuesIn(activation_kinds()), kRowName);
INSTANTIATE_TEST_SUITE_P(Container, ModuleKindsTest, ::testing::ValuesIn(container_kinds()), kRowName);
INSTANTIATE_TEST_SUITE_P(Convolution, ModuleKindsTest, ::testing::ValuesIn(convolution_kinds()), kRowName);
INSTANTIATE_TEST_SUITE_P(Pooling, ModuleKindsTest, ::testing::ValuesIn(pooling_kinds()), kRowName);
INSTANTIATE_TEST_SUITE_P(Norm, ModuleKindsTest, ::testing::ValuesIn(norm_kinds()), kRowName);
INSTANTIATE_TEST_SUITE_P(Sequence, ModuleKindsTest, ::testing::ValuesIn(sequence_kinds()), kRowName);
INSTANTIATE_TEST_SUITE_P(Loss, ModuleKindsTest, ::testing::ValuesIn(loss_kinds()), kRowName);

/// Each process trains all of them, because thread ranks share LibTorch's generator.
TEST(ModuleKinds, RandomOnesHaveTheBitsOfOneRankInProcesses) {
  const auto body = [](const World& world) {
    std::string text;
    for (const Kind& kind : all_kinds()) {
      if (!kind.random) continue;
      const Outcome alone = train_rank(kind, {.name = "alone"}, World());
      for (const Layout& layout : layouts_of_ranks()) {
        const std::string own = difference(train_rank(kind, layout, world), alone, 0.0);
        if (!own.empty()) text += fmt::format("{} {}: {}\n", row_name(kind), layout.name, own);
      }
    }
    return text;
  };
  for (const auto& result : test::run_processes(2, body)) {
    EXPECT_TRUE(result.ended);
    EXPECT_EQ(result.error + result.output, "");
  }
}

/// The classes that LibTorch's headers declare as modules to be held.
std::set<std::string> declared_kinds() {
  const std::regex declared(R"re((?:^TORCH_MODULE\((\w+)\);|ModuleHolder<(\w+)Impl> \{))re");
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(TORCH_NN_MODULES)) {
    std::ifstream file(entry.path());
    for (std::string line; std::getline(file, line);) {
      std::smatch match;
      if (std::regex_search(line, match, declared)) names.insert(match[1].matched ? match[1] : match[2]);
    }
  }
  return names;
}

TEST(ModuleKinds, HaveARowForEachThatLibTorchShips) {
  std::set<std::string> rows;
  for (const Kind& kind : all_kinds()) rows.insert(kind.name);
  const std::set<std::string> declared = declared_kinds();
  EXPECT_EQ(rows, declared);
  EXPECT_GT(declared.size(), 100U) << "of the headers in " TORCH_NN_MODULES;
}

}  // namespace
}  // namespace weft::module_kinds
