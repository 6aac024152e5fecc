// Whole runs over packed documents: their output, the same bits on any ranks, and no leak between documents.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/data/temp_folder.h"
#include "tests/support/run_ranks.h"
#include "tests/train/run/train_on_ranks.h"
#include "weft/recipe/read/read_recipe.h"
#include "weft/train/run/train.h"

namespace weft::packed_run_test {
namespace {

class PackedRun : public ::testing::Test {
 protected:
  /// Documents of 3 to 40 bytes: one letter each, repeated by its place in the alphabet.
  PackedRun() {
    std::string rows;
    for (int i = 0; i < 300; ++i) {
      const int letter = i * 7 % 26;
      rows += fmt::format("{{\"text\": \"{}\"}}\n",
                          std::string(2 + static_cast<size_t>(letter) * 3 / 2, static_cast<char>('a' + letter)));
    }
    folder_.write("a.jsonl", rows);
  }

  Recipe recipe(const std::vector<std::string>& more) const {
    std::vector<std::string> all = {"data.path=" + folder_.file("a.jsonl")};
    all.insert(all.end(), more.begin(), more.end());
    return parse_recipe(
        "model = { name = \"llama\", layers = 2, heads = 2, width = 16, ffn = 32, context = 24 }\n"
        "data = { name = \"jsonl\", pack = \"documents\" }\nbatch = { global = 8, micro = 2 }\noptimizer = { lr = 0.01 }\n"
        "run = { epochs = 1, seed = 3, threads = 1, reproducible_slots = 4 }",
        "r.toml", all);
  }

  FinalReport run(int ranks, const Recipe& one, std::vector<std::string>* notes = nullptr) const {
    TrainOptions options;
    if (notes != nullptr) options.on_note = [&](const std::string& note) { notes->push_back(note); };
    return test::train_on_ranks(ranks, one, options);
  }

  test::TempFolder folder_;
};

TEST_F(PackedRun, IsTheSameOnAnyNumberOfRanks) {
  std::vector<std::string> notes;
  const FinalReport alone = run(1, recipe({}), &notes);
  ASSERT_FALSE(notes.empty());
  EXPECT_EQ(notes.front().rfind("training: windows 9", 0), 0u) << notes.front();
  EXPECT_NE(notes.front().find(" % full; evaluation: windows "), std::string::npos) << notes.front();
  EXPECT_NE(alone.weights_sha256, run(1, recipe({"data.pack=stream"})).weights_sha256);
  for (const auto& [ranks, more] : std::vector<std::pair<int, std::vector<std::string>>>{
           {1, {"data.workers=0"}},
           {2, {"layout.pp=2", "layout.schedule=zb-h1"}},
           {4, {"layout.shard_level=parameters", "layout.recompute=attention", "data.workers=2"}}}) {
    const FinalReport other = run(ranks, recipe(more));
    EXPECT_EQ(other.weights_sha256, alone.weights_sha256) << ranks << " ranks, " << more.front();
    EXPECT_EQ(other.evaluation->loss, alone.evaluation->loss) << ranks << " ranks, " << more.front();
  }
}

TEST_F(PackedRun, MoreEpochsOfPackedDocumentsLearn) {
  const FinalReport once = run(1, recipe({})), often = run(1, recipe({"run.epochs=4"}));
  EXPECT_LT(often.evaluation->loss, once.evaluation->loss);
}

}  // namespace
}  // namespace weft::packed_run_test
