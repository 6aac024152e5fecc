#include "weft/data/tokens/windows.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <set>

#include "tests/data/expect_input_error.h"
#include "tests/data/temp_folder.h"

namespace weft {
namespace {

using test::expect_input_error;
using test::TempFolder;

std::vector<int64_t> row(const at::Tensor& tensor, int64_t index) {
  const auto* data = tensor.const_data_ptr<int64_t>() + index * tensor.size(1);
  return {data, data + tensor.size(1)};
}

std::vector<int64_t> all_of(const Dataset& dataset) {
  std::vector<int64_t> indices(dataset.size());
  std::iota(indices.begin(), indices.end(), 0);
  return indices;
}

template <typename Token>
std::string bytes_of(const std::vector<Token>& tokens) {
  return {reinterpret_cast<const char*>(tokens.data()), tokens.size() * sizeof(Token)};
}

/// 0, 1, 2, ... as bytes.
std::string counting(int64_t count) {
  std::string out;
  for (int64_t i = 0; i < count; ++i) out.push_back(static_cast<char>(i));
  return out;
}

TEST(Tokens, WindowsPredictEveryTokenExceptTheFirstOnce) {
  const TempFolder folder;
  for (const int64_t length : {5, 6, 8, 9, 10, 13, 200}) {
    const auto dataset = open_tokens({.path = folder.write("t", counting(length)), .context = 4});
    EXPECT_EQ(dataset->size(), (length - 1 + 3) / 4);
    const Batch batch = dataset->get(all_of(*dataset), 7);
    EXPECT_EQ(batch.inputs[0].sizes(), (std::vector<int64_t>{dataset->size(), 4}));
    EXPECT_TRUE(batch.inputs[0].is_contiguous() && batch.target.is_contiguous());
    std::vector<int64_t> predicted;
    for (int64_t i = 0; i < dataset->size(); ++i) {
      const auto input = row(batch.inputs[0], i), target = row(batch.target, i);
      for (int64_t t = 0; t < 4; ++t) {
        if (target[t] == kIgnore) continue;
        EXPECT_EQ(target[t], input[t] + 1);
        predicted.push_back(target[t]);
      }
    }
    std::vector<int64_t> expected(length - 1);
    std::iota(expected.begin(), expected.end(), 1);
    EXPECT_EQ(predicted, expected) << length;
  }
}

TEST(Tokens, PaddingIsZeroAndIgnored) {
  const TempFolder folder;
  const auto dataset = open_tokens({.path = folder.write("t", "abcdefg"), .context = 4});
  const Batch batch = dataset->get({1}, 0);
  EXPECT_EQ(row(batch.inputs[0], 0), (std::vector<int64_t>{'e', 'f', 0, 0}));
  EXPECT_EQ(row(batch.target, 0), (std::vector<int64_t>{'f', 'g', kIgnore, kIgnore}));
}

TEST(Tokens, ReadsAllTokenTypes) {
  const TempFolder folder;
  const std::vector<uint16_t> narrow = {1, 50000, 65535, 3, 4};
  const std::vector<uint32_t> wide = {1, 100000, 4294967295u, 3, 4};
  const auto u16 =
      open_tokens({.path = folder.write("n", bytes_of(narrow)), .type = TokenType::u16, .vocabulary = 65536, .context = 4});
  const auto u32 =
      open_tokens({.path = folder.write("w", bytes_of(wide)), .type = TokenType::u32, .vocabulary = 1LL << 32, .context = 4});
  const auto u8 = open_tokens({.path = folder.write("b", "\xff\x80\x01zz"), .context = 4});
  EXPECT_EQ(row(u16->get({0}, 0).inputs[0], 0), (std::vector<int64_t>{1, 50000, 65535, 3}));
  EXPECT_EQ(row(u32->get({0}, 0).target, 0), (std::vector<int64_t>{100000, 4294967295, 3, 4}));
  EXPECT_EQ(row(u8->get({0}, 0).inputs[0], 0), (std::vector<int64_t>{255, 128, 1, 'z'}));
}

TEST(Tokens, TrainingAndEvaluationSharesMeetWithoutOverlap) {
  const TempFolder folder;
  const std::string path = folder.write("t", counting(101));
  const auto train = open_tokens({.path = path, .end = 1 - 0.1, .context = 10});
  const auto evaluation = open_tokens({.path = path, .begin = 1 - 0.1, .context = 10});
  std::vector<int64_t> seen;
  for (const auto& dataset : {train, evaluation}) {
    const Batch batch = dataset->get(all_of(*dataset), 0);
    seen.push_back(batch.inputs[0].const_data_ptr<int64_t>()[0]);
    for (int64_t i = 0; i < batch.target.numel(); ++i) {
      const int64_t token = batch.target.const_data_ptr<int64_t>()[i];
      if (token != kIgnore) seen.push_back(token);
    }
  }
  std::vector<int64_t> expected(101);
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(seen, expected);
  EXPECT_EQ(evaluation->get({0}, 0).inputs[0].const_data_ptr<int64_t>()[0], 90);
}

TEST(Tokens, ShiftMovesWholeEpochsAndReachesEveryToken) {
  const TempFolder folder;
  for (const int64_t length : {9, 16, 17, 18, 30, 50}) {
    const auto dataset = open_tokens({.path = folder.write("t", counting(length)), .context = 8, .shift = true, .seed = 5});
    EXPECT_EQ(dataset->size(), std::max<int64_t>(1, (length - 1) / 8 - 1));
    std::set<int64_t> shifts, predicted;
    for (int64_t epoch = 0; epoch < 300; ++epoch) {
      const Batch batch = dataset->get(all_of(*dataset), epoch);
      const int64_t shift = batch.inputs[0].const_data_ptr<int64_t>()[0];
      shifts.insert(shift);
      for (int64_t i = 0; i < batch.target.numel(); ++i) {
        EXPECT_EQ(batch.inputs[0].const_data_ptr<int64_t>()[i], shift + i);
        EXPECT_EQ(batch.target.const_data_ptr<int64_t>()[i], shift + i + 1);
        predicted.insert(shift + i + 1);
      }
    }
    EXPECT_EQ(static_cast<int64_t>(shifts.size()), length - dataset->size() * 8) << length;
    EXPECT_EQ(static_cast<int64_t>(predicted.size()), length - 1) << "every token except the first is a target at some shift";
  }
}

TEST(Tokens, SeedsShiftDifferently) {
  const TempFolder folder;
  const std::string path = folder.write("t", counting(250));
  const auto a = open_tokens({.path = path, .context = 64, .shift = true, .seed = 1});
  const auto b = open_tokens({.path = path, .context = 64, .shift = true, .seed = 2});
  int equal = 0;
  for (int64_t epoch = 0; epoch < 50; ++epoch) equal += a->get({0}, epoch).target.equal(b->get({0}, epoch).target);
  EXPECT_LT(equal, 10);
}

TEST(Tokens, AFolderIsItsTextFilesInNameOrder) {
  const TempFolder folder;
  folder.write("b", "efg");
  folder.write("a", "abcd");
  folder.write("c", "");
  folder.write("d", "hij");
  folder.write("a.dat", "index");
  folder.write(".hidden", "hidden");
  std::filesystem::create_symlink("a", folder.path() / "a.u8");
  std::filesystem::create_directory(folder.path() / "aa");
  const auto dataset = open_tokens({.path = folder.path().string(), .context = 9});
  ASSERT_EQ(dataset->size(), 1);
  const auto input = row(dataset->get({0}, 0).inputs[0], 0);
  EXPECT_EQ(std::string(input.begin(), input.end()), "abcdefghi");
  EXPECT_EQ(row(dataset->get({0}, 0).target, 0).back(), 'j');
}

TEST(Tokens, DebiansFortunesAreText) {
  const auto dataset = open_tokens({.path = kDefaultTextFolder, .context = 256});
  EXPECT_GT(dataset->size(), 5000);
  const Batch batch = dataset->get(all_of(*dataset), 0);
  int64_t nul = 0;  // frequent in the .dat index files
  for (int64_t i = 0; i < batch.target.numel(); ++i) nul += batch.target.const_data_ptr<int64_t>()[i] == 0;
  EXPECT_EQ(nul, 0);
}

TEST(Tokens, AnIdBeyondTheVocabularyIsNamedWhenRead) {
  const TempFolder folder;
  std::vector<uint16_t> tokens(20, 7);
  tokens[13] = 999;
  const std::string path = folder.write("t.bin", bytes_of(tokens));
  const auto dataset = open_tokens({.path = path, .type = TokenType::u16, .vocabulary = 512, .context = 4});
  EXPECT_NO_THROW(dataset->get({0, 1, 2}, 0));
  expect_input_error(
      [&] {
        dataset->get({0, 3}, 0);
      },
      {path, "token 999", "index 13", "vocabulary of 512", "another tokenizer, or not plain little-endian uint16 ids"});
  const auto near = open_tokens({.path = path, .type = TokenType::u16, .vocabulary = 990, .context = 4});
  expect_input_error([&] { near->get({3}, 0); },
                     {path, "index 13", "vocabulary of 990; set model.vocabulary to at least 1000"});
  // In a folder, the index is the one within the file it names.
  const TempFolder other;
  other.write("a", std::string(10, '\1'));
  other.write("b", std::string(5, '\1') + "\x09\x01\x01");
  const auto joined = open_tokens({.path = other.path().string(), .vocabulary = 9, .context = 17});
  expect_input_error([&] { joined->get({0}, 0); }, {other.file("b"), "token 9", "index 5"});
}

TEST(Tokens, AFileThatChangesIsNamed) {
  const TempFolder folder;
  const std::string path = folder.write("t", counting(40));
  const auto dataset = open_tokens({.path = path, .context = 4});
  EXPECT_NO_THROW(dataset->get({9}, 0));
  std::filesystem::resize_file(path, 20);
  EXPECT_NO_THROW(dataset->get({3}, 0));
  expect_input_error([&] { dataset->get({9}, 0); },
                     {path, "truncated while in use", "from 40 bytes to 20", "do not change data while"});
}

// More files than are kept open: the least recently used are closed, and opened again.
TEST(Tokens, AFolderOfManyFilesReadsAsOneStream) {
  const TempFolder folder;
  constexpr int kFiles = 300;
  std::string all;
  for (int i = 0; i < kFiles; ++i) {
    folder.write(fmt::format("{:03}", i), fmt::format("{:03},", i));
    all += fmt::format("{:03},", i);
  }
  const auto dataset = open_tokens({.path = folder.path().string(), .context = 100});
  for (int round = 0; round < 2; ++round) {
    for (int64_t window = 0; window < dataset->size() - 1; ++window) {
      const auto input = row(dataset->get({window}, 0).inputs[0], 0);
      EXPECT_EQ(std::string(input.begin(), input.end()), all.substr(static_cast<size_t>(window) * 100, 100));
    }
  }
  folder.write("new", "000,");
  std::filesystem::rename(folder.path() / "new", folder.path() / "000");
  expect_input_error([&] { dataset->get({0}, 0); },
                     {folder.file("000"), "replaced by another file", "do not change data while"});
  std::filesystem::resize_file(folder.path() / "200", 1);
  expect_input_error([&] { dataset->get({8}, 0); },
                     {folder.file("200"), "truncated while in use", "from 4 bytes to 1", "do not change data while"});
  std::filesystem::remove(folder.path() / "030");
  expect_input_error([&] { dataset->get({1}, 0); }, {folder.file("030"), "cannot be opened again", "No such file"});
}

TEST(Tokens, EveryBadFileIsOneClearLine) {
  const TempFolder folder;
  const std::string ten = folder.write("ten", counting(10)), empty = folder.write("empty", ""),
                    odd = folder.write("odd", "abc"), none = folder.file("none"), nothing = folder.file("nothing"),
                    fifo = folder.file("fifo");
  std::filesystem::create_directory(nothing);
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  struct Row {
    std::string path;
    std::function<void(TokenFile&)> change;
    std::vector<std::string> pieces;
  };
  const auto nothing_else = [](TokenFile&) {};
  const std::vector<Row> table = {
      {none, nothing_else, {none, "No such file", "data.path", "apt-get install fortunes"}},
      {empty, nothing_else, {empty, "is empty", "data.path"}},
      {nothing, nothing_else, {nothing, "no tokens", "data.path"}},
      {"/dev/null", nothing_else, {"/dev/null", "it is a device, not a regular file"}},
      {fifo, nothing_else, {fifo, "it is a FIFO, not a regular file", "data.path"}},
      {ten, [](TokenFile& f) { f.context = 10; }, {ten, ": 10 tokens, fewer than ", "context + 1 = 11", "model.context"}},
      {ten, [](TokenFile& f) { f.begin = 0.9; }, {ten, "1 of its 10 tokens", "[0.9, 1)", "data.evaluation"}},
      {odd, [](TokenFile& f) { f.type = TokenType::u16; }, {odd, "3 bytes", "token size 2", "data.tokenizer"}},
      {ten, [](TokenFile& f) { f.type = TokenType::u32; }, {ten, "10 bytes", "token size 4"}},
      {ten, [](TokenFile& f) { f.context = 0; }, {"model.context = 0"}},
      {ten, [](TokenFile& f) { f.vocabulary = 0; }, {"model.vocabulary = 0"}},
      {ten, [](TokenFile& f) { f.begin = f.end = 0.5; }, {ten, "[0.5, 0.5)", "data.evaluation"}},
      {ten, [](TokenFile& f) { f.begin = -0.1; }, {ten, "[-0.1, 1)"}},
      {ten, [](TokenFile& f) { f.end = 1.5; }, {ten, "[0, 1.5)"}},
  };
  for (const Row& row : table) {
    TokenFile file{.path = row.path, .context = 4};
    row.change(file);
    expect_input_error([&] { open_tokens(file); }, row.pieces);
  }
  const auto dataset = open_tokens({.path = ten, .context = 4});
  expect_input_error([&] { dataset->get({3}, 0); }, {"window 3", "there are only 3"});
}

}  // namespace
}  // namespace weft
