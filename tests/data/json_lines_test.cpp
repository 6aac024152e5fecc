// Documents in JSON lines: what the stream is, wherever it is read, and what is said of rows that hold none.
#include "weft/data/json_lines.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <random>

#include "tests/data/expect_input_error.h"
#include "tests/data/temp_folder.h"
#include "weft/data/tokens.h"

namespace weft::json_lines_test {
namespace {

using test::expect_input_error;
using test::TempFolder;
using Tokens = std::vector<int64_t>;

Tokens all_of(const TokenSource& source) {
  Tokens tokens(static_cast<size_t>(source.size()));
  source.read(0, source.size(), tokens.data());
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
  const auto source = open_json_lines({.path = file});
  EXPECT_EQ(all_of(*source), bytes_of("one \xc3\xa9\n\ntwo\nlines\n"));
  EXPECT_TRUE(source->left_out().empty());
  std::filesystem::create_directory(folder.path() / "set");
  folder.write("set/b.jsonl", "{\"body\": \"b\"}\n");
  folder.write("set/a.jsonl", "{\"body\": \"a\"}\n");
  folder.write("set/.c.jsonl", "hidden");
  folder.write("set/notes.txt", "no rows");
  EXPECT_EQ(all_of(*open_json_lines({.path = folder.file("set"), .column = "body"})), bytes_of("a\nb\n"));
}

TEST(JsonLines, ListsOfIdsAreTokens) {
  const TempFolder folder;
  const std::string file = folder.write("a.jsonl", "{\"ids\": [5, 70000]}\n{\"ids\": []}\n{\"ids\": [0]}\n");
  EXPECT_EQ(all_of(*open_json_lines({.path = file, .column = "ids", .vocabulary = 70001})), (Tokens{5, 70000, 0}));
}

/// Rows that end where blocks do, and rows longer than a block.
TEST(JsonLines, AnyPartIsThatPartOfTheWhole) {
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
  const auto source = open_json_lines({.path = folder.write("a.jsonl", file)});
  ASSERT_EQ(source->size(), static_cast<int64_t>(text.size()));
  const Tokens whole = bytes_of(text);
  ASSERT_EQ(all_of(*source), whole);
  for (int i = 0; i < 200; ++i) {
    const auto begin = static_cast<int64_t>(text.size() - 1 - random() % 12'000);
    const auto count = static_cast<int64_t>(random() % (text.size() - static_cast<size_t>(begin) + 1));
    Tokens part(static_cast<size_t>(count));
    source->read(begin, count, part.data());
    EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + begin)) << begin << " " << count;
  }
  expect_input_error([&] { source->read(source->size(), 1, nullptr); }, {"asked for"});
}

TEST(JsonLines, RowsThatHoldNoDocumentAreNamedOrPassedOver) {
  const TempFolder folder;
  struct Row {
    std::string line, says;
  };
  const std::vector<Row> rows = {
      {"{\"text\": \"cut", "it is no JSON, or cut short"},
      {"{\"text\": \"\xff\"}", "it is no JSON"},
      {"[1]", "it is an array and no object"},
      {"3", "it is a number and no object"},
      {"{\"body\": \"x\"}", "it has no 'text'"},
      {"{\"text\": null}", "'text' is of type null, neither text nor a list of token ids"},
      {"{\"text\": 1.5}", "'text' is of type number, neither"},
      {"{\"text\": {}}", "'text' is of type object, neither"},
      {"{\"text\": [1, -1]}", "'text' is a list of something else"},
      {"{\"text\": [1, 2]}", "'text' is a list of ids there, and in the rows before it text"},
      {"{\"text\": [1, 256]}", "token 256 at index 1 is not below the vocabulary of 256"},
  };
  for (const Row& row : rows) {
    const std::string file = folder.write("a.jsonl", "{\"text\": \"a\"}\n\n" + row.line + "\n{\"text\": \"b\"}\n");
    expect_input_error([&] { open_json_lines({.path = file}); },
                       {file + ", row 3: " + row.says, "or set data.skip_bad = true"});
    const auto source = open_json_lines({.path = file, .bad = BadData::skip});
    EXPECT_EQ(all_of(*source), bytes_of("a\nb\n"));
    ASSERT_EQ(source->left_out().size(), 1u);
    EXPECT_EQ(source->left_out()[0].find(file + ", row 3: " + row.says), 0u) << source->left_out()[0];
  }
}

TEST(JsonLines, FilesThatAreNoneAreRefused) {
  const TempFolder folder;
  expect_input_error([&] { open_json_lines({.path = folder.path().string()}); }, {"the folder holds no .jsonl files"});
  expect_input_error([&] { open_json_lines({.path = folder.file("none")}); }, {"none: cannot open it: No such file"});
  const std::string empty = folder.write("empty.jsonl", "\n"), text = folder.write("text.jsonl", "{\"text\": \"abc\"}\n");
  expect_input_error([&] { open_json_lines({.path = empty}); }, {"empty.jsonl: no documents in it"});
  expect_input_error([&] { open_json_lines({.path = text, .vocabulary = 100}); }, {"model.vocabulary must be at least 256"});
  const auto source = open_json_lines({.path = text});
  folder.write("text.jsonl", "{\"text\": \"ab\"}  \n");
  int64_t token = 0;
  expect_input_error([&] { source->read(0, 1, &token); }, {"text.jsonl: it was changed while it was in use"});
}

TEST(JsonLines, AreCutIntoWindowsAsTextIs) {
  const TempFolder folder;
  const std::string rows = folder.write("a.jsonl", "{\"text\": \"abcdefg\"}\n{\"text\": \"hijklmn\"}\n");
  const std::string text = folder.write("a.txt", "abcdefg\nhijklmn\n");
  const TokenFile as_text{.path = text, .context = 3, .shift = true, .seed = 4};
  const auto one = open_tokens(as_text),
             other = open_tokens({.path = rows, .context = 3, .shift = true, .seed = 4}, open_json_lines({.path = rows}));
  ASSERT_EQ(one->size(), other->size());
  for (int64_t epoch = 0; epoch < 3; ++epoch) {
    for (int64_t i = 0; i < one->size(); ++i) {
      EXPECT_TRUE(one->get({i}, epoch).inputs[0].equal(other->get({i}, epoch).inputs[0]));
      EXPECT_TRUE(one->get({i}, epoch).target.equal(other->get({i}, epoch).target));
    }
  }
}

}  // namespace
}  // namespace weft::json_lines_test
