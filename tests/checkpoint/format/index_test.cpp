// The index of a checkpoint as JSON and back, and the contradictions that it rejects.
#include <gtest/gtest.h>

#include "tests/support/refusal.h"
#include "weft/checkpoint/format/check_index.h"
#include "weft/checkpoint/format/checkpoint_folder.h"
#include "weft/checkpoint/format/index_json.h"

namespace weft::index_test {
namespace {

using test::refusal;

CheckpointIndex sample() {
  CheckpointIndex index;
  index.files = {{"data-00000.bin", 48}, {"data-00001.bin", 48}};
  index.texts = {{"clock", R"({"step":20})"}};
  StoredState& t = index.tensors["model/w"];
  t.shape = {4, 6};
  t.pieces = {{{0, 3, 6, 4}, "data-00000.bin", 0, {0x123456789abcdef0}}, {{3, 3, 6, 4}, "data-00001.bin", 0, {7}}};
  return index;
}

TEST(CheckpointIndex, RoundTrips) {
  const std::string text = index_text(sample());
  const CheckpointIndex index = parse_index(text, "here");
  EXPECT_EQ(index_text(index), text);
  EXPECT_EQ(index.tensors.at("model/w").pieces[0].checksums[0], 0x123456789abcdef0U);
  EXPECT_EQ(index.texts.at("clock"), R"({"step":20})");
  EXPECT_EQ(index.bytes(), 96);
}

/// An index changed in one way, and its error.
struct BrokenIndex {
  const char* what;
  void (*change)(CheckpointIndex&);
  const char* said;
};

TEST(CheckpointIndex, RejectsContradictions) {
  const BrokenIndex cases[] = {
      {"a piece is missing", [](CheckpointIndex& i) { i.tensors["model/w"].pieces.pop_back(); }, "leave elements out"},
      {"a piece twice", [](CheckpointIndex& i) { i.tensors["model/w"].pieces[1].elements.begin = 0; }, "overlap"},
      {"outside", [](CheckpointIndex& i) { i.tensors["model/w"].pieces[1].elements.begin = 7; }, "exceed its 24"},
      {"negative", [](CheckpointIndex& i) { i.tensors["model/w"].pieces[1].elements.begin = -1; }, "exceed its 24"},
      {"a stride that is too small", [](CheckpointIndex& i) { i.tensors["model/w"].pieces[1].elements.stride = 2; }, "exceed"},
      {"no such file", [](CheckpointIndex& i) { i.tensors["model/w"].pieces[1].file = "x"; }, "is not in \"files\""},
      {"past the file", [](CheckpointIndex& i) { i.files["data-00001.bin"] = 40; }, "exceed data-00001.bin"},
      {"bytes of no piece", [](CheckpointIndex& i) { i.files["data-00001.bin"] = 52; }, "leave bytes out"},
      {"a file elsewhere", [](CheckpointIndex& i) { i.files["../x"] = 0; }, "invalid"},
      {"too few checksums", [](CheckpointIndex& i) { i.tensors["model/w"].pieces[1].checksums.clear(); }, "0 checksums"},
      {"an invalid shape",
       [](CheckpointIndex& i) {
         i.tensors["model/w"].shape = {int64_t{1} << 40, int64_t{1} << 40};
       },
       "invalid"},
      {"an invalid empty shape",
       [](CheckpointIndex& i) {
         i.tensors["model/w"].shape = {0, int64_t{1} << 62, int64_t{1} << 62};
       },
       "invalid"},
      {"runs without end",
       [](CheckpointIndex& i) {
         i.tensors["model/w"] = {.type = at::kByte, .shape = {int64_t{1} << 28}, .pieces = {}};
         i.tensors["model/w"].pieces = {
             {.elements = {0, 1, 1, int64_t{1} << 28}, .file = "big", .offset = 0, .checksums = {0}}};
         i.files["big"] = int64_t{1} << 28;
         i.chunk_bytes = int64_t{1} << 30;
       },
       "too many runs"},
      {"another shape",
       [](CheckpointIndex& i) {
         i.tensors["model/w"].shape = {4, 5};
       },
       "exceed its 20"},
  };
  for (const BrokenIndex& c : cases) {
    CheckpointIndex index = sample();
    c.change(index);
    const std::string why = refusal([&] { check_index(index, /*whole=*/true); });
    EXPECT_NE(why.find(c.said), std::string::npos) << c.what << ": " << why;
  }
}

TEST(CheckpointIndex, RejectsOtherTexts) {
  const auto said = [](const std::string& text) { return refusal([&] { parse_index(text, "runs/a/index.json"); }); };
  EXPECT_EQ(said("").find("runs/a/index.json: not a checkpoint's index"), 0u);
  EXPECT_NE(said("{}").find("\"format\""), std::string::npos);
  std::string newer = index_text(sample());
  newer.replace(newer.find("\"version\": 1"), 12, "\"version\": 9");
  EXPECT_NE(said(newer).find("use a newer weft"), std::string::npos);
  const auto with = [](const std::string& entry) {
    std::string text = index_text(sample());
    return text.insert(text.find(",\n"), ",\n\"x\": " + entry);
  };
  EXPECT_EQ(said(with("1")), "");
  const int deep = 200'000;
  EXPECT_NE(said(with(std::string(deep, '[') + std::string(deep, ']'))).find("nested too deeply"), std::string::npos);
  std::string bad_sum = index_text(sample());
  const size_t sum = bad_sum.find("\"xxh3\":[\"") + 9;
  bad_sum.replace(sum, 4, "zzzz");
  EXPECT_NE(said(bad_sum).find("is not a checksum of 16"), std::string::npos) << said(bad_sum);
  EXPECT_EQ(said("[1").find("json.exception"), std::string::npos) << said("[1");
}

TEST(CheckpointFolder, NamesAndPaths) {
  EXPECT_EQ(checkpoint_name(500), "step-00000500");
  EXPECT_EQ(checkpoint_step("step-00000500"), 500);
  EXPECT_EQ(checkpoint_step("step-500"), std::nullopt);
  EXPECT_EQ(checkpoint_step("runs"), std::nullopt);
  EXPECT_EQ(parent_and_name("runs/a/").storage, "runs");
  EXPECT_EQ(parent_and_name("a").storage, ".");
  EXPECT_EQ(parent_and_name("s3://bucket/a").storage, "s3://bucket");
  EXPECT_NE(refusal([] { parent_and_name("s3://bucket"); }), "");
  EXPECT_NE(refusal([] { parent_and_name("/"); }), "");
}

}  // namespace
}  // namespace weft::index_test
