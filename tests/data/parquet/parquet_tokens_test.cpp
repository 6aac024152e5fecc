// Documents in Parquet files: the stream, for every type that a column may have, and the errors of files without documents.
#include "weft/data/tokens/parquet_tokens.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <set>

#include "tests/data/counted_shards.h"
#include "tests/data/expect_input_error.h"
#include "tests/data/temp_folder.h"
#include "tests/support/parquet/write_parquet.h"
#include "tests/support/seeds.h"
#include "weft/data/tokens/windows.h"

namespace weft::parquet_tokens_test {
namespace {

using test::Cell;
using test::Column;
using test::expect_input_error;
using test::TempFolder;
using Tokens = std::vector<int64_t>;

std::shared_ptr<const TokenGroups> open(const std::vector<std::string>& paths, const ParquetText& text = {}) {
  return open_parquet_tokens(local_shards(paths), text);
}

Tokens all_of(const std::shared_ptr<const TokenGroups>& groups) {
  const auto source = token_source(groups, 0);
  Tokens tokens(static_cast<size_t>(source->size()));
  source->read(0, source->size(), tokens.data());
  return tokens;
}

Tokens bytes_of(const std::string& text) { return {text.begin(), text.end()}; }

Column text(const std::vector<Cell>& cells, const std::string& type = "string") { return {"text", type, cells}; }

TEST(ParquetTokens, AreDocumentsOneAfterAnother) {
  const TempFolder folder;
  for (const char* type : {"string", "large_string", "binary", "string_view"}) {
    SCOPED_TRACE(type);
    for (const bool noted : {false, true}) {
      const std::string file = folder.write(
          "a.parquet",
          test::parquet_of({{"id", "int32", {int64_t{1}, int64_t{2}, int64_t{3}}}, text({"one", "", "two\nlines"}, type)},
                           {.rows_per_group = 2, .notes_sizes = noted}));
      const auto groups = open({file, file});
      EXPECT_EQ(groups->counts(), (Tokens{5, 10, 5, 10}));
      EXPECT_EQ(all_of(groups), bytes_of("one\n\ntwo\nlines\none\n\ntwo\nlines\n"));
    }
  }
}

TEST(ParquetTokens, AreIdsOfAnyWidth) {
  const TempFolder folder;
  for (const std::string inner : {"int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"}) {
    for (const std::string list : {"list<", "large_list<"}) {
      SCOPED_TRACE(list + inner);
      const std::string file = folder.write(
          "a.parquet",
          test::parquet_of({text({Tokens{5, 100}, Tokens{}, Tokens{0}}, list + inner + ">")}, {.rows_per_group = 2}));
      EXPECT_EQ(all_of(open({file}, {.vocabulary = 101})), (Tokens{5, 100, 0}));
      expect_input_error([&] { all_of(open({file}, {.vocabulary = 100})); },
                         {file + ", row group 0, row 0: 'text' has token 100 at index 1, which is not in [0, 100)"});
    }
  }
}

TEST(ParquetTokens, AreIdsInListsOfOneLength) {
  const TempFolder folder;
  const std::string file = folder.write(
      "a.parquet", test::parquet_of({text({Tokens{5, 6}, Tokens{7, 8}, Tokens{9, 1}}, "pair<int64>")}, {.rows_per_group = 2}));
  EXPECT_EQ(all_of(open({file})), (Tokens{5, 6, 7, 8, 9, 1}));
}

/// If files record how much text they have, opening them reads no text.
TEST(ParquetTokens, OpeningReadsOnlyMetadataIfItSuffices) {
  const TempFolder folder;
  const std::string words(100'000, 'x');
  const Tokens ids(70'000, 7);
  const auto reads = [&](const Column& column, bool noted, BadData bad) {
    const std::string file = folder.write("a.parquet", test::parquet_of({column}, {.rows_per_group = 1, .notes_sizes = noted}));
    const auto shards = std::make_shared<test::CountedShards>(std::vector<std::string>{file});
    const auto groups = open_parquet_tokens(shards, {.bad = bad});
    const size_t places = shards->take_reads().size();
    EXPECT_EQ(static_cast<int64_t>(all_of(groups).size()), token_source(groups, 0)->size());
    return places;
  };
  for (const Column& column : {text({words + "1", words + "2"}), text({ids, ids}, "list<int32>")}) {
    const size_t metadata = reads(column, true, BadData::refuse);
    EXPECT_EQ(reads(column, false, BadData::refuse), metadata + 2) << "each row group once";
    EXPECT_EQ(reads(column, true, BadData::skip), metadata + 2) << "to find what is bad";
  }
  EXPECT_EQ(reads(text({ids, Tokens{}}, "list<int32>"), true, BadData::refuse), 2u) << "one that is empty";
}

TEST(ParquetTokens, RowsWithoutADocumentAreNamedOrSkipped) {
  const TempFolder folder;
  struct Row {
    Column column;
    std::string says;
    Tokens rest;
  };
  const Row rows[] = {
      {text({"a", "b", std::monostate(), "c"}), "row group 1, row 0: 'text' is null", bytes_of("a\nb\nc\n")},
      {text({Tokens{1}, Tokens{2}, Tokens{3}, Tokens{4, test::kNullNumber}}, "list<int32>"),
       "row group 1, row 1: 'text' is null or contains a null",
       {1, 2, 3}},
      {text({Tokens{1}, std::monostate(), Tokens{3}, Tokens{4}}, "large_list<int64>"),
       "row group 0, row 1: 'text' is null",
       {1, 3, 4}},
      {text({Tokens{1}, Tokens{2, -7}, Tokens{3}, Tokens{4}}, "list<int64>"),
       "row group 0, row 1: 'text' has token -7 at index 1, which is not in [0, 256)",
       {1, 3, 4}},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.says);
    const std::string file = folder.write("a.parquet", test::parquet_of({row.column}, {.rows_per_group = 2}));
    expect_input_error([&] { all_of(open({file})); }, {file + ", " + row.says, "or set data.skip_bad = true"});
    const auto groups = open({file}, {.bad = BadData::skip});
    EXPECT_EQ(all_of(groups), row.rest);
    ASSERT_EQ(groups->left_out().size(), 1u);
    EXPECT_EQ(groups->left_out()[0].text.find(file + ", " + row.says), 0u) << groups->left_out()[0].text;
  }
}

TEST(ParquetTokens, OtherFilesAreNamedOrSkipped) {
  const TempFolder folder;
  const std::string good = folder.write("good.parquet", test::parquet_of({text({"a"})}));
  std::string bytes = test::read_file(good);
  const std::string cut = folder.write("cut.parquet", bytes.substr(0, bytes.size() - 9)),
                    empty = folder.write("empty.parquet", ""),
                    other = folder.write("other.parquet", "this is a text that is no Parquet at all");
  const std::pair<std::string, std::string> rows[] = {
      {cut, "(truncated, or not Parquet)"}, {empty, "(truncated, or not Parquet)"}, {other, "not Parquet: it is text"}};
  for (const auto& [file, says] : rows) {
    expect_input_error([&] { open({good, file}); }, {file + ": ", says, "; get it again, or set data.skip_bad"});
    const auto groups = open({file, good}, {.bad = BadData::skip});
    EXPECT_EQ(all_of(groups), bytes_of("a\n"));
    ASSERT_EQ(groups->left_out().size(), 1u);
    EXPECT_EQ(groups->left_out()[0].text.find(file), 0u);
  }
  expect_input_error([&] { open({cut}, {.bad = BadData::skip}); }, {cut + ": no rows in it; check data.path"});
}

/// Pages have checksums, as pyarrow writes them on request.
TEST(ParquetTokens, ADamagedRowGroupIsNamedOrSkipped) {
  const TempFolder folder;
  std::vector<Cell> cells;
  for (int i = 0; i < 4; ++i) cells.push_back(std::string(2000, static_cast<char>('a' + i)) + fmt::format("{}", i * 7919));
  for (const bool noted : {false, true}) {
    SCOPED_TRACE(noted);
    std::string bytes = test::parquet_of({text(cells)}, {.rows_per_group = 1, .notes_sizes = noted});
    const size_t place = bytes.find("7919");  // in row group 1, whose text is compressed except its last word
    ASSERT_NE(place, std::string::npos);
    bytes[place] = 'X';
    const std::string file = folder.write("a.parquet", bytes);
    const auto read = [&](const std::shared_ptr<const TokenGroups>& groups) { return all_of(groups); };
    expect_input_error([&] { read(open({file})); }, {file + ", row group 1: ", "CRC"});
    const auto groups = open({file}, {.bad = BadData::skip});
    EXPECT_EQ(groups->counts().size(), 3u);
    ASSERT_EQ(groups->left_out().size(), 1u);
    EXPECT_EQ(groups->left_out()[0].text.find(file + ", row group 1: "), 0u);
  }
}

/// Any wrong byte gives an error that names the file, or other text of the recorded length.
TEST(ParquetTokens, AnyDamageIsOneLineOrUndetectable) {
  const TempFolder folder;
  std::vector<Cell> texts, lists;
  for (int64_t i = 0; i < 40; ++i) {
    texts.emplace_back(fmt::format("document {}", i * i * 7919));
    lists.emplace_back(Tokens{i, i + 1, i * i % 256});
  }
  const std::string good = test::parquet_of({text(texts), {"ids", "list<int32>", lists}}, {.rows_per_group = 10});
  int refused = 0;
  for (const unsigned seed : test::seeds(300)) {
    SCOPED_TRACE(test::replay(seed));
    test::Random random(seed);
    std::string bytes = good;
    for (int i = random.below(3); i >= 0; --i) {
      bytes[static_cast<size_t>(random.below(static_cast<int>(bytes.size())))] = static_cast<char>(random.below(256));
    }
    if (random.one_in(4)) bytes.resize(static_cast<size_t>(random.below(static_cast<int>(bytes.size()))));
    const std::string file = folder.write("a.parquet", bytes);
    try {
      all_of(open({file},
                  {.column = random.one_in(2) ? "text" : "ids", .bad = random.one_in(2) ? BadData::skip : BadData::refuse}));
    } catch (const InputError& error) {
      ++refused;
      const std::string said = error.what();
      EXPECT_EQ(said.find(file), 0u) << said;
      EXPECT_EQ(said.find('\n'), std::string::npos) << said;
    }
  }
  EXPECT_TRUE(refused > 0 || test::seeds(300).size() == 1);
}

TEST(ParquetTokens, ColumnsThatAreNotThereOrOfAnotherTypeAreNamed) {
  const TempFolder folder;
  const std::string file = folder.write("a.parquet", test::parquet_of({text({"a"}),
                                                                       {"ids", "list<int32>", {Tokens{1}}},
                                                                       {"score", "float", {std::monostate()}},
                                                                       {"words", "list<string>", {std::monostate()}},
                                                                       {"count", "int64", {int64_t{1}}}}));
  const std::pair<const char*, std::string> rows[] = {
      {"body", "no column 'body', only text, ids, score, words, count; set data.column"},
      {"words", "'words' is list<element: string>, but text or a list of integers is needed; check data.column"},
      {"score", "'score' is float, but text or a list of integers is needed"},
      {"count", "'count' is int64, but text or a list of integers is needed"},
  };
  for (const auto& [column, says] : rows) {
    for (const BadData bad : {BadData::refuse, BadData::skip}) {
      expect_input_error([&, c = column] { open({file}, {.column = c, .bad = bad}); }, {file + ": " + says});
    }
  }
  const std::string other = folder.write("b.parquet", test::parquet_of({text({Tokens{1}}, "list<int32>")}));
  expect_input_error([&] { open({file, other}); }, {other + ": 'text' is a list, but text in " + file});
  expect_input_error([&] { open({other, file}); }, {file + ": 'text' is text, but a list in " + other});
  expect_input_error([&] { open({file}, {.vocabulary = 255}); }, {"model.vocabulary of at least 256"});
  const std::string none = folder.write("none.parquet", test::parquet_of({text({})}));
  expect_input_error([&] { open({none}); }, {"none.parquet: no rows in it"});
}

TEST(ParquetTokens, AFailedReadIsNotDamage) {
  const TempFolder folder;
  const auto shards = std::make_shared<test::CountedShards>(
      std::vector<std::string>{folder.write("a.parquet", test::parquet_of({text({"abc"})}, {.notes_sizes = false}))});
  const auto groups = open_parquet_tokens(shards, {.bad = BadData::skip});
  shards->fails = true;
  expect_input_error([&] { all_of(groups); }, {"a.parquet: the network is down"});
  expect_input_error([&] { open_parquet_tokens(shards, {.bad = BadData::skip}); }, {"a.parquet: the network is down"});
}

TEST(ParquetTokens, EachRowGroupIsReadOncePerEpochWhileTheWindowFits) {
  const TempFolder folder;
  std::vector<Cell> cells;
  for (int i = 0; i < 1600; ++i) cells.push_back(fmt::format("{:0100}", i));
  const auto shards = std::make_shared<test::CountedShards>(
      std::vector<std::string>{folder.write("a.parquet", test::parquet_of({text(cells)}, {.rows_per_group = 100}))});
  const auto groups = open_parquet_tokens(shards, {});
  constexpr int64_t kWindow = 45'000;  // four row groups
  const auto dataset =
      open_tokens({.path = "a.parquet", .context = 50, .shift = true, .mix_bytes = kWindow}, token_source(groups, 2 * kWindow));
  shards->take_reads();
  for (const int64_t rank : {0, 1}) {  // of two ranks: a part of each batch
    int64_t reads = 0;
    for (int64_t epoch = 0; epoch < 2; ++epoch) {
      for (int64_t i = 4 * rank; i + 4 <= dataset->size(); i += 8) dataset->get({i, i + 1, i + 2, i + 3}, epoch);
      for (const auto& [place, count] : shards->take_reads()) reads += count;
    }
    EXPECT_LE(reads, 2 * 16 + 4) << "and the third epoch's first window";
    EXPECT_GE(reads, 2 * 16 - 2 * 8) << "eight are kept, no more";
  }
}

}  // namespace
}  // namespace weft::parquet_tokens_test
