// Windows of whole documents: their contents, sources of documents, and errors of those that cannot be packed.
#include "weft/data/tokens/packed_windows.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <map>
#include <numeric>

#include "tests/data/expect_input_error.h"
#include "tests/data/temp_folder.h"
#include "tests/support/seeds.h"
#include "weft/data/files/shard_files.h"
#include "weft/data/mixture.h"
#include "weft/data/tokens/json_lines.h"
#include "weft/data/tokens/token_groups.h"
#include "weft/data/tokens/token_stream.h"

namespace weft::packed_windows_test {
namespace {

using test::expect_input_error;
using test::TempFolder;
using Tokens = std::vector<int64_t>;

/// Documents whose tokens are their positions.
class Numbers final : public TokenSource {
 public:
  explicit Numbers(const Tokens& lengths) {
    for (const int64_t length : lengths) {
      starts_.push_back(size_);
      size_ += length;
    }
  }
  int64_t size() const override { return size_; }
  void read(int64_t begin, int64_t count, int64_t* out) const override { std::iota(out, out + count, begin); }
  Tokens document_starts() const override { return starts_; }

 private:
  Tokens starts_;
  int64_t size_ = 0;
};

Batch all_of(const Dataset& data) {
  Tokens indices(static_cast<size_t>(data.size()));
  std::iota(indices.begin(), indices.end(), 0);
  return data.get(indices, 3);
}

Tokens row(const at::Tensor& tensor, int64_t index) {
  const auto* data = tensor.const_data_ptr<int64_t>() + index * tensor.size(1);
  return {data, data + tensor.size(1)};
}

TEST(PackedTokens, AWindowHoldsDocumentsAndPadding) {
  const auto data = open_packed_tokens({.path = "n", .context = 8}, std::make_shared<Numbers>(Tokens{4, 5, 1}));
  ASSERT_EQ(data->size(), 1);
  const Batch batch = data->get({0}, 0);
  ASSERT_EQ(batch.inputs.size(), 2u);
  EXPECT_EQ(row(batch.inputs[0], 0), (Tokens{4, 5, 6, 7, 0, 1, 2, 0}));
  EXPECT_EQ(row(batch.inputs[1], 0), (Tokens{0, 1, 2, 3, 0, 1, 2, 0}));
  EXPECT_EQ(row(batch.target, 0), (Tokens{5, 6, 7, 8, 1, 2, 3, kIgnore}));
  EXPECT_EQ(data->fullness(), "windows 87.5 % full");
}

/// Both parts together: each token except a document's first, or the first after an edge, once.
TEST(PackedTokens, PartsCountEachTokenOnce) {
  for (const unsigned seed : test::seeds(test::cases(40))) {
    SCOPED_TRACE(test::replay(seed));
    test::Random random(seed);
    Tokens lengths(static_cast<size_t>(3 + random.below(20)));
    for (int64_t& length : lengths) length = 2 + random.below(40);
    const auto source = std::make_shared<Numbers>(lengths);
    TokenFile file{.path = "n", .end = 0.7, .context = 1 + random.below(20), .seed = seed};
    std::map<int64_t, int> predicted;
    const auto count = [&](const Dataset& data) {
      const Batch batch = all_of(data);
      for (int64_t i = 0; i < data.size(); ++i) {
        const Tokens input = row(batch.inputs[0], i), place = row(batch.inputs[1], i), target = row(batch.target, i);
        for (size_t t = 0; t < input.size(); ++t) {
          EXPECT_TRUE(place[t] == 0 || place[t] == place[t - 1] + 1);
          if (target[t] == kIgnore) continue;
          EXPECT_EQ(target[t], input[t] + 1);
          EXPECT_TRUE(place[t] == 0 || input[t] == input[t - 1] + 1) << "a place within the same document";
          ++predicted[target[t]];
        }
      }
    };
    count(*open_packed_tokens(file, source));
    file.begin = 0.7;
    file.end = 1.0;
    count(*open_packed_tokens(file, source));
    std::map<int64_t, int> expected;
    for (int64_t t = 0; t < source->size(); ++t) expected[t] = 1;
    for (const int64_t start : source->document_starts()) expected.erase(start);
    expected.erase(static_cast<int64_t>(0.7 * static_cast<double>(source->size())));
    EXPECT_EQ(predicted, expected);
  }
}

/// 40 groups of 10 documents of 2 to 11 tokens; an id is a token's position.
class Grouped final : public TokenGroups {
 public:
  bool is_text() const override { return false; }
  const Tokens& counts() const override { return counts_; }
  TokenRun load(size_t group) const override {
    ++loads;
    TokenRun run;
    for (int64_t length = 2; length <= 11; ++length) {
      run.begin_document();
      for (int64_t i = 0; i < length; ++i) run.ids.push_back(static_cast<uint32_t>(counts_[0] * group) + run.ids.size());
    }
    return run;
  }

  mutable std::atomic<int> loads{0};

 private:
  Tokens counts_ = Tokens(40, 65);
};

TEST(PackedTokens, StretchesOfGroupsArePackedSeparatelyAndReadOncePerEpoch) {
  const auto groups = std::make_shared<Grouped>();
  constexpr int64_t kStretch = 5 * 65 * 4;  // bytes of five groups
  const auto source = token_source(groups, 2 * kStretch);
  TokenFile file{.path = "n", .vocabulary = 2600, .context = 16, .shift = true, .seed = 3, .mix_bytes = kStretch};
  const auto data = open_packed_tokens(file, source);
  ASSERT_TRUE(data->is_ordered());
  Tokens orders[2];
  for (const int64_t epoch : {0, 1}) {
    groups->loads = 0;
    std::map<int64_t, int> predicted;
    for (int64_t i = 0; i < data->size(); ++i) {
      const Batch batch = data->get({i}, epoch);
      orders[epoch].push_back(batch.inputs[0][0][0].item<int64_t>());
      for (const int64_t target : row(batch.target, 0)) predicted[target] += target == kIgnore ? 0 : 1;
    }
    predicted.erase(kIgnore);
    EXPECT_EQ(predicted.size(), 2600u - 400u) << "all but the first of each document";
    for (const auto& [token, times] : predicted) EXPECT_EQ(times, 1) << token;
    EXPECT_LE(groups->loads, 40 + 8) << "a group in which a stretch ends is read for two";
  }
  EXPECT_NE(orders[0], orders[1]);
  file.shift = false;
  EXPECT_FALSE(open_packed_tokens(file, source)->is_ordered()) << "evaluation goes through it in order";
}

TEST(PackedTokens, DocumentsAreRowsFilesOrEndWithAnId) {
  const TempFolder folder;
  const std::string rows = folder.write("a.jsonl", "{\"text\": \"abc\"}\n{\"text\": \"\"}\n{\"text\": \"de\"}\n");
  EXPECT_EQ(token_source(open_json_lines(local_shards({rows}), {}), 0)->document_starts(), (Tokens{0, 4, 5}));
  std::filesystem::create_directory(folder.path() / "texts");
  folder.write("texts/b", "xyz");
  folder.write("texts/a", "12345");
  const auto texts = std::make_shared<TokenStream>(folder.file("texts"), TokenType::u8, 256);
  EXPECT_EQ(texts->document_starts(), (Tokens{0, 5}));
  const auto data = open_packed_tokens({.path = folder.file("texts"), .context = 4}, texts);
  EXPECT_EQ(row(all_of(*data).inputs[1], 0), (Tokens{0, 1, 2, 3}));

  const std::string ids("\1\0\2\0\11\0\3\0\4\0\5\0\11\0\11\0\6\0\7\0", 20);
  const auto stream = std::make_shared<TokenStream>(folder.write("ids", ids), TokenType::u16, 10);
  const auto ended = open_packed_tokens({.path = "ids", .type = TokenType::u16, .vocabulary = 10, .context = 6}, stream, 9);
  ASSERT_EQ(ended->size(), 1);
  EXPECT_EQ(row(ended->get({0}, 0).inputs[0], 0), (Tokens{3, 4, 5, 1, 2, 6})) << "the end itself is only predicted";
  EXPECT_EQ(row(ended->get({0}, 0).target, 0), (Tokens{4, 5, 9, 2, 9, 7}));
}

TEST(PackedTokens, MixturesReportEachPart) {
  const auto part = [](const Tokens& lengths) {
    return open_packed_tokens({.path = "n", .context = 4}, std::make_shared<Numbers>(lengths));
  };
  const std::vector<MixtureSource> parts = {{part({5, 5}), 1.0, "a"}, {part({4}), 1.0, "b"}};
  EXPECT_EQ(join_datasets(parts)->fullness(), "a: windows 100.0 % full, b: windows 75.0 % full");
  const Batch batch = open_mixture(parts, 1)->get({0, 1, 2}, 0);
  EXPECT_EQ(batch.inputs[1].sizes(), (Tokens{3, 4}));
}

class Silent final : public TokenSource {
 public:
  int64_t size() const override { return 10; }
  void read(int64_t begin, int64_t count, int64_t* out) const override { std::iota(out, out + count, begin); }
};

TEST(PackedTokens, ErrorsAreOneLine) {
  const auto silent = std::make_shared<Silent>();
  expect_input_error([&] { open_packed_tokens({.path = "s", .context = 4}, silent); },
                     {"s: its format does not mark documents", "data.pack = \"stream\""});
  expect_input_error(
      [&] {
        open_packed_tokens({.path = "n", .context = 4}, std::make_shared<Numbers>(Tokens{1, 1}));
      },
      {"n: no document in the part [0, 1) has two tokens"});
  expect_input_error([&] { open_packed_tokens({.path = "n", .begin = 0.5, .end = 0.2, .context = 4}, silent); },
                     {"check data.evaluation"});
  const auto data = open_packed_tokens({.path = "n", .context = 4}, std::make_shared<Numbers>(Tokens{9}));
  expect_input_error([&] { data->get({2}, 0); }, {"n: window 2 requested, but there are only 2"});
}

}  // namespace
}  // namespace weft::packed_windows_test
