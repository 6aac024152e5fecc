// Training on data read in groups, Parquet and JSON lines: the same bits with any number of ranks and workers, and when resumed
// in the middle of an epoch.
#include <ATen/ops/zeros.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/data/images/image_files.h"
#include "tests/data/temp_folder.h"
#include "tests/support/parquet/write_parquet.h"
#include "tests/support/refusal.h"
#include "tests/train/run/train_on_ranks.h"
#include "weft/recipe/build/open_data.h"
#include "weft/recipe/read/read_recipe.h"
#include "weft/train/run/data_text.h"
#include "weft/train/run/train.h"

namespace weft::grouped_data_test {
namespace {

using test::Column;

constexpr const char* kGpt =
    "model = { name = \"gpt\", layers = 1, heads = 1, width = 8, context = 16 }\n"
    "batch = { global = 8, micro = 2 }\n"
    "run = { steps = 9, seed = 3, threads = 1, reproducible_slots = 4, evaluate_every = 9 }\n";
constexpr const char* kMlp =
    "model = { name = \"mlp\", layers = 1, width = 8, channels = 3, image_size = 8, classes = 3 }\n"
    "batch = { global = 8, micro = 2 }\n"
    "run = { steps = 9, seed = 3, threads = 1, reproducible_slots = 4, evaluate_every = 9 }\n";

struct Case {
  const char* name;
  const char* recipe;
  const char* data;  ///< FOLDER stands for the files'
};

/// Fewer samples an epoch than the runs read, in windows of a few groups.
const Case kCases[] = {
    {"text", kGpt, R"(
[data]
name = "parquet"
path = "FOLDER/text-{0,1}.parquet"
column = "body"
shuffle_mb = 0.0005)"},
    {"ids", kGpt, R"(
[data]
name = "parquet"
path = "FOLDER/text-*.parquet"
evaluation_path = "FOLDER/text-1.parquet"
column = "ids"
shuffle_mb = 0.0005)"},
    {"images", kMlp, R"(
[data]
name = "parquet"
path = "FOLDER/images.parquet"
evaluation_path = "FOLDER/val.parquet"
label_column = "kind"
shuffle_mb = 0.002
flip = true
mixup = 0.2)"},
    {"json", kGpt, R"(
[data]
name = "jsonl"
path = "FOLDER"
shuffle_mb = 0.001)"},
    {"mixture", kGpt, R"(
[data]
name = "mix"
shuffle_mb = 0.0005
[[data.mix]]
name = "parquet"
path = "FOLDER/text-0.parquet"
column = "body"
weight = 2
[[data.mix]]
name = "jsonl"
path = "FOLDER/a.jsonl")"},
};

class GroupedData : public ::testing::TestWithParam<Case> {
 protected:
  GroupedData() {
    for (int file = 0; file < 2; ++file) {
      Column body{"body", "string", {}}, ids{"ids", "list<uint16>", {}};
      for (int64_t i = 0; i < 12; ++i) {
        body.cells.emplace_back(fmt::format("document {} of file {} says {}", i, file, i * i * 7919));
        ids.cells.emplace_back(std::vector<int64_t>{i, 2 * i, 255 - i, 3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, i});
      }
      folder_.write(fmt::format("text-{}.parquet", file), test::parquet_of({body, ids}, {.rows_per_group = 3}));
    }
    std::string rows;
    for (int i = 0; i < 25; ++i) rows += fmt::format("{{\"text\": \"row {} says {}\"}}\n", i, i * i * 104'729);
    folder_.write("a.jsonl", rows);
    folder_.write("images.parquet", images(0, 40));
    folder_.write("val.parquet", images(40, 12));
  }

  static std::string images(int64_t first, int64_t count) {
    Column image{"image", "struct<bytes, path>", {}}, kind{"kind", "uint8", {}};
    for (int64_t i = first; i < first + count; ++i) {
      image.cells.emplace_back(test::png_of(test::Pixels(8 * 8 * 3, static_cast<uint8_t>(4 * i)), 8, 8, 3));
      kind.cells.emplace_back(i % 3);
    }
    return test::parquet_of({image, kind}, {.rows_per_group = 5});
  }

  Recipe recipe(const std::vector<std::string>& more, const std::string& section = "") const {
    std::string text = std::string(GetParam().recipe) + GetParam().data + section;
    for (size_t at = 0; (at = text.find("FOLDER", at)) != std::string::npos;) text.replace(at, 6, folder_.path().string());
    return parse_recipe(text, "r.toml", more);
  }

  FinalReport run(int ranks, const std::vector<std::string>& more) const {
    const Recipe one = recipe(more);
    return test::train_on_ranks(ranks, one);
  }

  test::TempFolder folder_;
};

TEST_P(GroupedData, TrainsTheSameOnAnyNumberOfRanksAndWorkers) {
  const FinalReport alone = run(1, {"data.workers=0"});
  for (const auto& [ranks, workers] : {std::pair{1, 4}, {2, 1}, {4, 4}}) {
    const FinalReport other = run(ranks, {fmt::format("data.workers={}", workers)});
    EXPECT_EQ(other.weights_sha256, alone.weights_sha256) << ranks << " ranks, " << workers << " workers";
    EXPECT_EQ(other.evaluation->loss, alone.evaluation->loss) << ranks << " ranks";
  }
  EXPECT_NE(run(1, {"run.seed=4"}).weights_sha256, alone.weights_sha256);
}

TEST_P(GroupedData, ResumesInTheMiddleOfAnEpoch) {
  const std::string whole = run(1, {}).weights_sha256;
  FinalReport last;
  for (const auto& [ranks, steps] : {std::pair{1, 2}, {2, 5}, {4, 9}}) {
    last = run(ranks, {"save.folder=" + folder_.file("saved"), fmt::format("run.steps={}", steps)});
  }
  EXPECT_EQ(last.resumed_from, 5);
  EXPECT_EQ(last.weights_sha256, whole);
}

TEST_P(GroupedData, IsSeveralWindowsAnEpoch) {
  const Datasets data = open_data(recipe({}));
  ASSERT_TRUE(data.training->is_ordered());
  EXPECT_GT(data.training->size(), 20);
  EXPECT_LT(data.training->size(), 9 * 8) << "the runs come to a second epoch";
  if (std::string(GetParam().name) == "images") {
    EXPECT_LT(data.training->near(0, 0).count, 25);
    EXPECT_GT(data.training->near(0, 0).count, 5);
  }
}

TEST_P(GroupedData, IsEvaluatedOnFurtherSets) {
  const std::string name = GetParam().name, file = name == "images" ? "val.parquet"
                                                   : name == "json" ? "a.jsonl"
                                                                    : "text-1.parquet";
  const std::string set = "\n[[evaluation]]\nname = \"other\"\npath = \"" + folder_.file(file) + "\"";
  if (name == "mixture") {
    EXPECT_NE(test::refusal([&] { recipe({}, set); }).find("[[evaluation]]"), std::string::npos);
    return;
  }
  const Datasets data = open_data(recipe({}, set));
  ASSERT_EQ(data.others.size(), 1u);
  EXPECT_FALSE(data.others[0].data->is_ordered());
  EXPECT_GE(data.others[0].data->size(), 12);
}

/// A set with groups of samples that belong together.
class Near final : public Dataset {
 public:
  int64_t size() const override { return 1000; }
  SampleRange near(int64_t /*index*/, int64_t /*epoch*/) const override { return {40, 60}; }
  Batch get(const std::vector<int64_t>& indices, int64_t /*epoch*/) const override {
    asked = indices;
    return {.inputs = {at::zeros({static_cast<int64_t>(indices.size()), 1})},
            .target = at::zeros({static_cast<int64_t>(indices.size())})};
  }
  mutable std::vector<int64_t> asked;
};

TEST(GroupedDataText, IsOfSamplesThatAreReadTogether) {
  const Near data;
  EXPECT_EQ(data_text(data).find("1000 samples, digest "), 0u);
  EXPECT_EQ(data.asked.front(), 40);
  EXPECT_EQ(data.asked.back(), 99);
}

INSTANTIATE_TEST_SUITE_P(Table, GroupedData, ::testing::ValuesIn(kCases), [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace weft::grouped_data_test
