// Documents in JSON lines: the stream, read at any place, and the errors of rows without documents.
#include "weft/data/tokens/json_lines.h"

#include <ATen/ops/equal.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <random>
#include <set>

#include "tests/data/counted_shards.h"
#include "tests/data/expect_input_error.h"
#include "tests/data/temp_folder.h"
#include "weft/data/tokens/windows.h"

namespace weft::json_lines_test {
namespace {

using test::expect_input_error;
using test::TempFolder;
using Tokens = std::vector<int64_t>;

std::shared_ptr<const TokenGroups> open(const std::string& path, const JsonLines& lines = {}) {
  return open_json_lines(local_shards({path}), lines);
}

Tokens all_of(const std::shared_ptr<const TokenGroups>& groups) {
  const auto source = token_source(groups, 0);
  Tokens tokens(static_cast<size_t>(source->size()));
  source->read(0, source->size(), tokens.data());
  return tokens;
}

Tokens bytes_of(const std::string& text) {
  Tokens tokens;
  for (const char c : text) tokens.push_back(static_cast<uint8_t>(c));
  return tokens;
}

TEST(JsonLines, TextsFollowOneAnother) {
  const TempFolder folder;
  const std::string file = folder.write("a.jsonl",
                                        "{\"text\": \"one \\u00e9\", \"id\": 1}\n\n"
                                        "  {\"id\": 2, \"text\": \"\"}\r\n"
                                        "{\"text\": \"two\\nlines\"}");
  const auto groups = open(file);
  EXPECT_EQ(all_of(groups), bytes_of("one \xc3\xa9\n\ntwo\nlines\n"));
  EXPECT_TRUE(groups->left_out().empty());
  const std::string b = folder.write("b.jsonl", "{\"body\": \"b\"}\n"), a = folder.write("a.jsonl", "{\"body\": \"a\"}\n");
  EXPECT_EQ(all_of(open_json_lines(local_shards({a, b}), {.column = "body"})), bytes_of("a\nb\n"));
}

TEST(JsonLines, TheLastLineMayLackItsBreak) {
  const TempFolder folder;
  const std::string text(3 << 19, 'x');  // more than a group
  EXPECT_EQ(all_of(open(folder.write("a.jsonl", "{\"text\": \"" + text + "\"}"))), bytes_of(text + "\n"));
  EXPECT_EQ(all_of(open(folder.write("b.jsonl", "{\"text\": \"b\"}\n{\"text\": \"" + text + "\"}"))),
            bytes_of("b\n" + text + "\n"));
}

TEST(JsonLines, ListsOfIdsAreTokens) {
  const TempFolder folder;
  const std::string file = folder.write("a.jsonl", "{\"ids\": [5, 70000]}\n{\"ids\": []}\n{\"ids\": [0]}\n");
  EXPECT_EQ(all_of(open(file, {.column = "ids", .vocabulary = 70001})), (Tokens{5, 70000, 0}));
}

/// Rows that end where blocks do, and rows longer than a block.
TEST(JsonLines, ReadsAnyPart) {
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  const TempFolder folder;
  std::string file, text;
  const auto add = [&](size_t bytes) {
    std::string document(bytes, ' ');
    for (char& c : document) c = static_cast<char>('a' + random() % 26);
    file += "{\"text\": \"" + document + "\"}\n";
    text += document + "\n";
  };
  const size_t around = std::string("{\"text\": \"\"}\n").size(), block = size_t{1} << 20;
  add(block - around);      // the first block ends with its line break
  add(block - around + 1);  // the second one just before it
  add(3 * block);
  for (int i = 0; i < 300; ++i) add(random() % 100);
  const auto groups = open(folder.write("a.jsonl", file));
  EXPECT_EQ(groups->counts().size(), 4u) << "a megabyte of rows each, and the rest";
  const auto source = token_source(groups, 0);
  ASSERT_EQ(source->size(), static_cast<int64_t>(text.size()));
  const Tokens whole = bytes_of(text);
  ASSERT_EQ(all_of(groups), whole);
  for (int i = 0; i < 200; ++i) {
    const auto begin = static_cast<int64_t>(text.size() - 1 - random() % 12'000);
    const auto count = static_cast<int64_t>(random() % (text.size() - static_cast<size_t>(begin) + 1));
    Tokens part(static_cast<size_t>(count));
    source->read(begin, count, part.data());
    EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + begin)) << begin << " " << count;
  }
  expect_input_error([&] { source->read(source->size(), 1, nullptr); }, {"requested"});
}

TEST(JsonLines, OtherFilesAreLeftOutAsAWhole) {
  const TempFolder folder;
  std::string packed = std::string("\x1f\x8b\x08\0", 4);
  for (int i = 0; i < 5000; ++i) packed += "\n!";
  const std::string good = folder.write("a.jsonl", "{\"text\": \"a\"}\n"), other = folder.write("b.jsonl", packed);
  const auto files = local_shards({good, other});
  expect_input_error([&] { open_json_lines(files, {}); },
                     {other + ": it is compressed with gzip", "unpack it, or set data.skip_bad"});
  const auto groups = open_json_lines(files, {.bad = BadData::skip});
  EXPECT_EQ(all_of(groups), bytes_of("a\n"));
  EXPECT_EQ(groups->left_out(), DataNotes{other + ": it is compressed with gzip, where JSON lines are expected"});
  expect_input_error([&] { open(other, {.bad = BadData::skip}); }, {"no documents in it", "left out: 1, the first " + other});
}

TEST(JsonLines, FirstBadRowsAreNamedAndAllCounted) {
  const TempFolder folder;
  std::string rows;
  for (int i = 1; i <= 5000; ++i) rows += "{\"text\": 1}\n";
  const std::string file = folder.write("a.jsonl", rows + "{\"text\": \"a\"}\n");
  const DataNotes notes = open(file, {.bad = BadData::skip})->left_out();
  ASSERT_EQ(notes.size(), 1001U);
  EXPECT_EQ(count_of(notes), 5000);
  EXPECT_EQ(notes.front().text, file + ", row 1: 'text' is 1, neither text nor a list of token ids");
  EXPECT_EQ(notes.back().text.find("4000 more, the last: " + file + ", row 5000: 'text' is 1"), 0U) << notes.back().text;
}

TEST(JsonLines, RowsWithoutADocumentAreNamedOrSkipped) {
  const TempFolder folder;
  struct Row {
    std::string line, says;
  };
  const std::vector<Row> rows = {
      {"{\"text\": \"cut", "it is truncated, within \"text\""},
      {"{\"id\": tru", "it is truncated, within \"id\""},
      {"{\"text\": \"a\"", "it is truncated, within \"text\""},
      {"{\"text\": \"caf\xe9\"}", "byte 0xe9 at 13, within \"text\" is not UTF-8; convert the file (if it is Latin-1: iconv"},
      {"{\"title\": \"caf\xe9\", \"text\": \"a\"}", "byte 0xe9 at 14, within \"title\" is not UTF-8"},
      {std::string("{\0\"\0t\0e\0", 8), "it is text in UTF-16 or UTF-32; convert the file"},
      {std::string("\xff\xfe{\0\"\0t\0", 8), "it is text in UTF-16; convert it to UTF-8"},
      {"{\"text\": \"\\ud83d\"}", "'text' has \\ud83d, half of a surrogate pair, which UTF-8 cannot encode"},
      {"{\"text\": \"\\ud83e\\uddf6 \\\\ud83d \\uddf6\"}", "'text' has \\uddf6, half of a surrogate pair"},
      {"{\"text\": NaN}", "'text' is NaN, neither text nor a list of token ids"},
      {"{\"text\": [1, 1e400]}", "'text' is not a list of token ids: 1e400 at index 1"},
      {"{\"text\": [1, 123456789012345678901234567890]}", "'text' is not a list of token ids: 1234567890"},
      {"{\"text\": [[1]]}", "'text' is not a list of token ids: [1 at index 0"},
      {"{\"text\": \"a\", \"score\": nan}", "it is not JSON, within \"score\": 'n' at byte 23, where a value is expected"},
      {"{\"text\": \"a\", \"score\": 01}", "it is not JSON, within \"score\""},
      {"{\"text\": \"a\",}", "it is not JSON, within \"text\": '}' at byte 13, where a key in double quotes is expected"},
      {"{'text': 'a'}", "it is not JSON: an apostrophe at byte 1, where a key in double quotes is expected"},
      {"{\"text\": \"a\"} {\"text\": \"b\"}",
       "it is not JSON: '{' at byte 14, where the row should end; write one object per line"},
      {"{\"text\": \"a\tb\"}", "it is not JSON, within \"text\": '\\t' at byte 11, where text must continue; escape control"},
      {"{\"text\": \"a\", \"more\": " + std::string(600, '[') + std::string(600, ']') + "}", "it nests deeper than 512 levels"},
      {"{\"text\": \"a\", \"more\": " + std::string(100'000, '['), "it nests deeper than 512 levels"},
      {"[1]", "it is an array, not an object"},
      {"3", "it is a number, not an object"},
      {"NaN", "it is NaN, not an object"},
      {"once upon a time there was a file of plain text", "it is not JSON: 'o' at byte 0"},
      {"version https://git-lfs.github.com/spec/v1",
       "it is a Git LFS pointer, not the file itself; fetch it with `git lfs pull`"},
      {"<!DOCTYPE html><html><head>", "it is an HTML page"},
      {"\x1f\x8b\x08\x08 gzipped", "it is compressed with gzip; unpack it"},
      {"PK\3\4 zipped", "it is a zip archive"},
      {"PAR1 columns", "it is Parquet; read it with data.name = \"parquet\""},
      {"{\"body\": \"x\"}", "it has no 'text'"},
      {"{}", "it has no 'text'"},
      {"{\"text\": null}", "'text' is null, neither text nor a list of token ids"},
      {"{\"text\": 1.5}", "'text' is 1.5, neither"},
      {"{\"text\": {}}", "'text' is an object, neither"},
      {"{\"text\": [1, -1]}", "'text' is not a list of token ids: -1 at index 1"},
      {"{\"text\": [1, 2]}", "'text' is a list of ids here, but text in the rows before"},
      {"{\"text\": [1, 256]}", "token 256 at index 1 is not below the vocabulary of 256"},
  };
  for (const Row& row : rows) {
    const std::string file = folder.write("a.jsonl", "{\"text\": \"a\"}\n\n" + row.line + "\n{\"text\": \"b\"}\n");
    expect_input_error([&] { open(file); }, {file + ", row 3: " + row.says, "or set data.skip_bad = true"});
    const auto groups = open(file, {.bad = BadData::skip});
    EXPECT_EQ(all_of(groups), bytes_of("a\nb\n"));
    ASSERT_EQ(groups->left_out().size(), 1u);
    EXPECT_EQ(groups->left_out()[0].text.find(file + ", row 3: " + row.says), 0u) << groups->left_out()[0].text;
  }
}

/// NaN and the like, as Python's json writes them, and huge numbers are fine in columns that are not read.
TEST(JsonLines, OtherColumnsMayHoldInvalidJson) {
  const TempFolder folder;
  const std::vector<std::string> others = {"NaN",
                                           "-Infinity",
                                           "1e400",
                                           "123456789012345678901234567890",
                                           "\"\\ud83d\"",
                                           "[NaN, {\"text\": Infinity}, []]",
                                           "{\"text\": \"inner\"}",
                                           "\"\\\"text\\\": \\u0041\"",
                                           "-0.5E+3",
                                           "{}",
                                           "\"\xc3\xa9\xf0\x9f\xa7\xb6\""};
  for (const std::string& other : others) {
    const std::string file = folder.write("a.jsonl", "{\"score\": " + other + ", \"text\": \"a\", \"after\":" + other + "}\n" +
                                                         "{\"\\u0074ext\" : \"b\\ud83e\\uddf6\", \"s\":" + other + " }\r\n");
    EXPECT_EQ(all_of(open(file)), bytes_of("a\nb\xf0\x9f\xa7\xb6\n")) << other;
  }
  EXPECT_EQ(all_of(open(folder.write("b.jsonl", "\xef\xbb\xbf{\"text\": \"x\", \"text\": \"last\"}"))), bytes_of("last\n"));
}

TEST(JsonLines, UnusableFilesAreRejected) {
  const TempFolder folder;
  expect_input_error([&] { open(folder.file("none")); }, {"none: cannot open it: No such file"});
  const std::string empty = folder.write("empty.jsonl", "\n"), text = folder.write("text.jsonl", "{\"text\": \"abc\"}\n");
  expect_input_error([&] { open(empty); }, {"empty.jsonl: no documents in it"});
  expect_input_error([&] { open(text, {.vocabulary = 100}); }, {"model.vocabulary of at least 256"});
  const auto source = token_source(open(text), 0);
  folder.write("text.jsonl", "{\"text\": \"ab\"}  \n");
  int64_t token = 0;
  expect_input_error([&] { source->read(0, 1, &token); }, {"text.jsonl: changed while in use"});
}

TEST(JsonLines, AreCutIntoWindowsLikeText) {
  const TempFolder folder;
  const std::string rows = folder.write("a.jsonl", "{\"text\": \"abcdefg\"}\n{\"text\": \"hijklmn\"}\n");
  const std::string text = folder.write("a.txt", "abcdefg\nhijklmn\n");
  const auto documents = token_source(open(rows), 0);
  for (const bool training : {false, true}) {
    const TokenFile file{.path = text, .context = 3, .shift = training, .seed = 4};
    const auto one = open_tokens(file), other = open_tokens(file, documents);
    ASSERT_EQ(one->size(), other->size());
    EXPECT_FALSE(one->is_ordered());
    EXPECT_EQ(other->is_ordered(), training);
    for (int64_t epoch = 0; epoch < 3; ++epoch) {
      std::multiset<Tokens> windows, others;
      for (int64_t i = 0; i < one->size(); ++i) {
        const Batch a = one->get({i}, epoch), b = other->get({i}, epoch);
        EXPECT_TRUE(training || (a.inputs[0].equal(b.inputs[0]) && a.target.equal(b.target)));
        const auto* tokens = a.inputs[0].const_data_ptr<int64_t>();
        windows.insert(Tokens(tokens, tokens + 3));
        tokens = b.inputs[0].const_data_ptr<int64_t>();
        others.insert(Tokens(tokens, tokens + 3));
      }
      EXPECT_EQ(windows, others) << "the same windows, in their own order";
    }
  }
}

/// Documents of 1 000 bytes, with their number in each word, in groups of a megabyte.
class ManyGroups : public ::testing::Test {
 protected:
  ManyGroups() {
    std::string rows;
    for (int i = 0; i < kDocuments; ++i) {
      std::string text;
      while (text.size() < 990) text += fmt::format("{:06} ", i);
      rows += "{\"text\": \"" + text + "\"}\n";
    }
    shards_ = std::make_shared<test::CountedShards>(std::vector<std::string>{folder_.write("a.jsonl", rows)});
    groups_ = open_json_lines(shards_, {});
    shards_->take_reads();
  }
  std::shared_ptr<Dataset> training(int64_t mix_bytes) const {
    return open_tokens({.path = "a.jsonl", .context = 99, .shift = true, .seed = 3, .mix_bytes = mix_bytes},
                       token_source(groups_, 2 * mix_bytes));
  }
  static constexpr int kDocuments = 12'000;
  TempFolder folder_;
  std::shared_ptr<test::CountedShards> shards_;
  std::shared_ptr<const TokenGroups> groups_;
};

TEST_F(ManyGroups, EachIsReadOncePerEpochWhileTheWindowFits) {
  ASSERT_EQ(groups_->counts().size(), 12u);
  const auto dataset = training(2'200'000);  // six windows of two groups
  int64_t reads = 0;
  for (int64_t epoch = 0; epoch < 3; ++epoch) {
    for (int64_t i = 0; i + 64 <= dataset->size(); i += 64) {
      std::vector<int64_t> indices(64);
      std::iota(indices.begin(), indices.end(), i);
      dataset->get(indices, epoch);
    }
    for (const auto& [place, count] : shards_->take_reads()) {
      EXPECT_LE(count, 2) << "once, and as the next epoch's first";
      reads += count;
    }
  }
  EXPECT_LE(reads, 3 * 12 + 2) << "and those of the fourth epoch's first window, which are read ahead";
  EXPECT_GE(reads, 3 * 12 - 2 * 4) << "four of them are kept, no more";
}

TEST_F(ManyGroups, EveryTokenIsPredictedOncePerEpochAndNeighboursAreApart) {
  const auto dataset = training(4 << 20);
  std::map<int64_t, int> documents;
  std::vector<int64_t> first;
  for (int64_t i = 0; i < dataset->size(); ++i) {
    const Batch batch = dataset->get({i}, 1);
    const auto* tokens = batch.inputs[0].const_data_ptr<int64_t>();
    std::string text(tokens, tokens + 99);
    const int number = std::stoi(text.substr(text.find_first_of(" \n") + 1, 6));
    ++documents[number];
    first.push_back(number);
  }
  for (const auto& [document, windows] : documents) EXPECT_TRUE(windows >= 8 && windows <= 12) << document << " " << windows;
  EXPECT_GE(documents.size(), static_cast<size_t>(kDocuments) - 25) << "except those lost to the shift and the last window";
  int64_t near = 0;
  for (size_t i = 1; i < first.size(); ++i) near += std::abs(first[i] - first[i - 1]) < 10 ? 1 : 0;
  EXPECT_LT(near, dataset->size() / 50);
}

TEST_F(ManyGroups, FailedReadsAreErrorsAndNotCached) {
  const auto dataset = training(4 << 20);
  shards_->fails = true;
  expect_input_error([&] { dataset->get({0}, 0); }, {"the network is down"});
  shards_->fails = false;
  EXPECT_NO_THROW(dataset->get({0}, 0));
}

}  // namespace
}  // namespace weft::json_lines_test
