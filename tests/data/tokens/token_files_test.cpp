// Files searched for token ids or text: those with a header that is read, and the errors of all others.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

#include "tests/data/expect_input_error.h"
#include "tests/data/npy_file.h"
#include "tests/data/tar_file.h"
#include "tests/data/temp_folder.h"
#include "weft/data/tokens/packed_windows.h"
#include "weft/data/tokens/token_folder.h"
#include "weft/data/tokens/token_stream.h"

namespace weft::token_files_test {
namespace {

using test::expect_input_error;
using test::npy;
using test::TempFolder;
using Ids = std::vector<int64_t>;

template <typename Number>
std::string bytes_of(const std::vector<Number>& numbers) {
  return {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(Number)};
}

template <typename Number>
std::string ids_as(const Ids& ids) {
  return bytes_of(std::vector<Number>(ids.begin(), ids.end()));
}

Ids all_of(const TokenSource& source) {
  Ids ids(static_cast<size_t>(source.size()));
  source.read(0, source.size(), ids.data());
  return ids;
}

Ids ids_in(const std::string& path, TokenType type = TokenType::u16) {
  return all_of(TokenStream(path, type, int64_t{1} << 32));
}

Ids counting(int64_t count) {
  Ids ids(static_cast<size_t>(count));
  std::iota(ids.begin(), ids.end(), 40'000);
  return ids;
}

std::string llmc(uint32_t magic, uint32_t version, uint32_t count, const std::string& ids) {
  std::vector<uint32_t> header(256, 0);
  header[0] = magic;
  header[1] = version;
  header[2] = count;
  return bytes_of(header) + ids;
}

std::string npy_of(const std::string& type, int64_t count, const std::string& ids, char version = 1) {
  return test::npy_of(type, fmt::format("{},", count), ids, version);
}

/// Index of sequences of these lengths, with these marks.
std::string index_of(char code, int64_t width, const std::vector<int32_t>& lengths, const std::vector<int64_t>& marks) {
  std::vector<int64_t> begins;
  int64_t end = 0;
  for (const int32_t length : lengths) {
    begins.push_back(end);
    end += length * width;
  }
  return std::string("MMIDIDX\0\0", 9) + bytes_of(std::vector<uint64_t>{1}) + code +
         bytes_of(std::vector<uint64_t>{lengths.size(), marks.size()}) + bytes_of(lengths) + bytes_of(begins) + bytes_of(marks);
}

TEST(TokenFiles, HeadersAreFollowed) {
  const TempFolder folder;
  const Ids ids = counting(70);
  const std::string narrow = ids_as<uint16_t>(ids), wide = ids_as<uint32_t>(ids);
  const std::vector<std::pair<std::string, std::string>> files = {
      {"gpt2.bin", llmc(20240520, 1, 70, narrow)}, {"llama3.bin", llmc(20240801, 7, 70, wide)},
      {"old.npy", npy_of("<u2", 70, narrow)},      {"new.npy", npy_of("<u4", 70, wide, 2)},
      {"third.npy", npy_of("<u2", 70, narrow, 3)}, {"signed.npy", npy_of("<i4", 70, wide)},
  };
  for (const auto& [name, bytes] : files) {
    const std::string path = folder.write(name, bytes);
    for (const TokenType type : {TokenType::u16, TokenType::u32, TokenType::as_file})
      EXPECT_EQ(ids_in(path, type), ids) << name;
    const std::string alone = folder.file("alone-" + name);
    std::filesystem::create_directory(alone);
    std::filesystem::rename(path, std::filesystem::path(alone) / name);
    for (const TokenType type : {TokenType::u16, TokenType::as_file}) EXPECT_EQ(ids_in(alone, type), ids) << name;
  }
}

TEST(TokenFiles, MegatronFilesHaveDocuments) {
  const TempFolder folder;
  const Ids ids = counting(12);
  const std::vector<int32_t> lengths = {3, 4, 0, 5};
  const std::vector<int64_t> marks = {0, 1, 3, 4};
  const std::vector<std::tuple<std::string, char, std::string>> widths = {{"u", 8, ids_as<uint16_t>(ids)},
                                                                          {"w", 4, ids_as<int32_t>(ids)}};
  for (const auto& [name, code, bytes] : widths) {
    std::filesystem::create_directory(folder.file(name));
    const std::string bin = folder.write(name + "/x_text_document.bin", bytes);
    const std::string idx = folder.write(name + "/x_text_document.idx", index_of(code, code == 8 ? 2 : 4, lengths, marks));
    folder.write(name + "/notes.md", "read me");
    const std::string cache = folder.write(name + "/x_text_document_train_indexmap_9ns_doc_idx.npy", npy_of("<i4", 3, "0"));
    const TokenStream whole(folder.file(name), TokenType::as_file, 1 << 16), one(bin, TokenType::u32, 1 << 16);
    EXPECT_EQ(all_of(whole), ids);
    EXPECT_EQ(all_of(one), ids);
    EXPECT_EQ(whole.document_starts(), (Ids{0, 3, 7}));
    EXPECT_EQ(whole.passed_over(), (DataNotes{folder.file(name) + "/notes.md (not token ids by its suffix)",
                                              cache + " (a sample order saved by Megatron)"}));
    const auto packed =
        open_packed_tokens({.path = bin, .context = 6}, std::make_shared<TokenStream>(bin, TokenType::u16, 1 << 16));
    EXPECT_EQ(packed->fullness(), "windows 75.0 % full") << "2 + 3 + 4 places of two windows";
    expect_input_error([&] { ids_in(idx); }, {idx, "it is Megatron's index of a .bin file", "name the .bin file"});
  }
  expect_input_error([&] { ids_in(folder.file("u/x_text_document")); }, {"No such file", "there is '", "x_text_document.bin'"});
  const std::string bin = folder.file("u/x_text_document.bin");
  const auto with_index = [&](const std::string& index) {
    folder.write("u/x_text_document.idx", index);
    return std::make_shared<TokenStream>(bin, TokenType::u16, 1 << 16);
  };
  const std::string good = index_of(8, 2, lengths, marks);
  std::string apart = good;
  apart[34 + 16 + 8] = 7;  // begin of the second sequence
  std::string version = good;
  version[9] = 2;
  const std::vector<std::pair<std::string, std::string>> rows = {
      {"", "is truncated"},
      {good.substr(0, 20), "is truncated"},
      {good.substr(0, good.size() - 1), "is truncated"},
      {version, "has version 2"},
      {index_of(5, 2, lengths, marks), "ids are int64"},
      {index_of(7, 2, lengths, marks), "ids are floating point"},
      {index_of(8, 2, {3, 4}, {0, 2}), "says 14 bytes, but it has 24"},
      {index_of(8, 2, {3, 4, 6}, {0, 3}), "says 26 bytes, but it has 24; it is truncated"},
      {index_of(8, 2, lengths, {0, 9}), "a document that begins with sequence 9 of 4"},
      {index_of(8, 2, lengths, {1, 0}), "documents out of order"},
      {apart, "a sequence 1 that does not directly follow the previous one"},
  };
  for (const auto& [index, says] : rows) {
    expect_input_error([&, i = index] { with_index(i)->document_starts(); }, {"x_text_document.", says});
  }
  EXPECT_TRUE(with_index("no index of Megatron's")->document_starts().empty());
  expect_input_error([&] { open_packed_tokens({.path = bin, .context = 6}, with_index("no index")); },
                     {"set data.document_end"});
}

TEST(TokenFiles, OtherFilesAreNamed) {
  const TempFolder folder;
  const Ids ids = counting(70);
  const std::string narrow = ids_as<uint16_t>(ids), text = "Once upon a time there was a file of text, and nothing else.\n";
  const std::string safetensors = std::string("\x40\0\0\0\0\0\0\0", 8) + "{\"a\":{\"dtype\":\"F32\"}}" + narrow;
  struct Row {
    std::string bytes, says;
    bool is_text_too = false;  ///< also valid as text
  };
  const std::vector<Row> rows = {
      {"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12\n",
       "it is a Git LFS pointer, not the file itself, but t"},
      {"<!DOCTYPE html>\n<html><head></head></html>", "an HTML page", true},
      {"\n <HTML lang=en><body>404</body></html>", "an HTML page", true},
      {"<?xml version=\"1.0\"?><Error><Code>AccessDenied</Code></Error>", "XML, as servers send", true},
      {text, "it is text, but token ids are expected; read text with data.name = \"text\"", true},
      {std::string("\xff\xfeO\0n\0c\0e\0", 10), "text in UTF-16", true},
      {std::string("\x1f\x8b\x08\x08", 4) + narrow, "it is compressed with gzip, but t"},
      {"BZh91AY&SY" + narrow, "compressed with bzip2"},
      {std::string("\xfd\x37zXZ\0", 6) + narrow, "compressed with xz"},
      {"\x28\xb5\x2f\xfd" + narrow, "compressed with zstd"},
      {"PK\3\4" + narrow, "a zip archive"},
      {test::tar_of({{"a.bin", narrow}}), "a tar archive"},
      {"PAR1" + narrow, "expected; read it with data.name = \"parquet\""},
      {std::string("ARROW1\0\0", 8) + narrow, "Arrow's format"},
      {"\x89HDF\r\n\x1a\n" + narrow, "HDF5"},
      {std::string("\x80\4\x95\x20\0\0\0\0\0\0\0", 11) + narrow, "a Python pickle"},
      {"\x80\2}q\1" + narrow, "a Python pickle"},
      {safetensors, "safetensors"},
      {"\xff\xd8\xff\xe0" + narrow, "a JPEG image"},
      {"\x89PNG\r\n\x1a\n" + narrow, "a PNG image"},
      {llmc(20240326, 3, 0, narrow), "weights of llm.c"},
  };
  for (const Row& row : rows) {
    const std::string path = folder.write("x.bin", row.bytes);
    for (const TokenType type : {TokenType::u16, TokenType::u32})
      expect_input_error([&] { ids_in(path, type); }, {path + ": ", row.says});
    if (row.is_text_too) {
      EXPECT_EQ(ids_in(path, TokenType::u8).size(), row.bytes.size());
    } else {
      expect_input_error([&] { ids_in(path, TokenType::u8); }, {path, row.says, "but text is expected"});
    }
  }
  const std::vector<std::pair<std::string, std::string>> headers = {
      {llmc(20240520, 1, 71, narrow), "llm.c's header says 1166 bytes, but it has 1164; it is truncated"},
      {llmc(20240520, 1, 69, narrow), "llm.c's header says 1162 bytes, but it has 1164; it is damaged"},
      {llmc(20240520, 2, 70, narrow), "llm.c's header 20240520 has version 2, weft reads 1"},
      {npy_of("<i8", 70, narrow), "of type '<i8'; save ids as uint32: array.astype(numpy.uint32)"},
      {npy_of(">u2", 70, narrow), "of type '>u2'"},
      {npy_of("|O", 70, narrow), "of type '|O'"},
      {npy_of("<u2", 71, narrow), "but it has 268; it is truncated"},
      {npy_of("<u2", 35, narrow), "but it has 268; it is damaged"},
      {npy("{'descr': '<u2', 'fortran_order': False, 'shape': (7, 10), }", narrow),
       "of shape (7, 10); save ids as one dimension"},
      {npy("{'descr': '<u2', 'fortran_order': False, 'shape': (), }", narrow), "of shape (); save ids as one"},
      {npy("{'descr': [('a', '<u2')], 'shape': (70,), }", narrow), "of type [('a'"},
      {npy("{}", narrow), "header is damaged"},
      {npy_of("<u2", 70, narrow, 4), "of version 4, weft reads 1 to 3"},
      {npy_of("<u2", 70, narrow).substr(0, 40), "header is damaged"},
      {std::string("\x93NUMPY\1\0", 8), "that is truncated"},
  };
  for (const auto& [bytes, says] : headers) {
    const std::string path = folder.write("x.bin", bytes);
    expect_input_error([&] { ids_in(path); }, {path + ": ", says});
  }
}

TEST(TokenFiles, PlainIdsAreNotMistakenForAnythingElse) {
  const TempFolder folder;
  for (const int64_t first : {0, 80, 0x0280, 0x4b50, 0x8b1f, 0x5a42, 0xd8ff, 0xfeff}) {
    Ids ids = {first, 3, 1, 49, 50256, 11, 0, 0, 290, 262, 13, 198};
    EXPECT_EQ(ids_in(folder.write("x.bin", ids_as<uint16_t>(ids))), ids);
    const std::string path = folder.write("x.bin", ids_as<uint32_t>(ids));
    EXPECT_EQ(ids_in(path, TokenType::u32), ids);
    expect_input_error([&] { ids_in(path, TokenType::as_file); },
                       {path, "does not say how wide its ids are", "data.tokenizer = \"uint16\" or \"uint32\""});
  }
  Ids characters;  // as from a character tokenizer
  for (const char c : std::string("a text of characters, whose ids are those of ASCII")) characters.push_back(c);
  EXPECT_EQ(ids_in(folder.write("x.bin", ids_as<uint16_t>(characters))), characters);
}

TEST(TokenFolders, TakeTheFilesOfOneKind) {
  const TempFolder folder;
  const std::string ids = ids_as<uint16_t>(counting(8));
  folder.write("b_000001.bin", ids);
  folder.write("b_000000.bin", ids);
  const std::string script = folder.write("prepare.py", "import tiktoken"),
                    page = folder.write("README", "How these tokens were made, and of which text they are.\n"),
                    pickle = folder.write("meta.pkl", "\x80\4\x95"),
                    hidden = folder.write(".gitattributes", "*.bin filter=lfs"), packed = folder.write("b.zip", "PK\3\4....");
  std::filesystem::create_directory(folder.file("__MACOSX"));
  std::filesystem::create_symlink("b_000000.bin", folder.file("first.bin"));
  std::filesystem::create_symlink("/nowhere/c.bin", folder.file("c.bin"));
  FolderFiles files = token_files(folder.path().string(), TokenType::u16);
  EXPECT_EQ(files.taken, (std::vector<std::string>{folder.file("b_000000.bin"), folder.file("b_000001.bin")}));
  std::sort(files.passed_over.begin(), files.passed_over.end());
  EXPECT_EQ(files.passed_over,
            (DataNotes{hidden + " (hidden)", page + " (text)", folder.file("__MACOSX") + " (a folder)",
                       packed + " (a zip archive, like .npz and PyTorch's .pt)", folder.file("c.bin") + " (a link)",
                       pickle + " (not token ids by its suffix)", script + " (not token ids by its suffix)"}));
  const TokenStream text(folder.path().string(), TokenType::u8, 256);
  const DataNotes not_text = text.passed_over();
  EXPECT_NE(std::find(not_text.begin(), not_text.end(), DataNote(packed + " (a zip archive, like .npz and PyTorch\'s .pt)")),
            not_text.end());
  const std::vector<std::tuple<std::string, std::string, std::string>> others = {
      {"more.tok", ids, "'b_000000.bin' holds ids of 16 bits in *.bin, 'more.tok' ids of 16 bits in *.tok"},
      {"c.npy", npy_of("<u2", 8, ids), "'c.npy' npy ids of 16 bits in *.npy"},
      {"a.bin", llmc(20240520, 1, 8, ids), "'a.bin' holds llm.c ids of 16 bits in *.bin, 'b_000000.bin' ids of 16 bits"}};
  for (const auto& [name, bytes, says] : others) {
    const std::string path = folder.write(name, bytes);
    expect_input_error([&] { ids_in(folder.path().string()); }, {folder.path().string() + ": its files differ in kind", says});
    std::filesystem::remove(path);
  }
  const TempFolder split, none;
  for (const char* name : {"x.000", "x.001"}) split.write(name, ids);
  EXPECT_EQ(ids_in(split.path().string()).size(), 16u);
  none.write("a.txt", "no ids");
  expect_input_error([&] { ids_in(none.path().string()); },
                     {"holds no tokens", "there is " + none.file("a.txt") + " (not token ids by its suffix"});
}

/// A shard that was not fetched, or not unpacked, would be missing from the set.
TEST(TokenFolders, RejectShardsOfAnotherKind) {
  const std::string ids = ids_as<uint16_t>(counting(8)), lfs = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\n";
  struct Row {
    std::string data, other, bytes, says;
    TokenType type = TokenType::u16;
  };
  const std::vector<Row> rows = {
      {"a.bin", "b.bin", lfs, "it is a Git LFS pointer, not the file itself, but 'a.bin' there is data; fetch it with `git"},
      {"b.BIN", "a.bin", "<html><body>404</body></html>", "it is an HTML page"},
      {"a.bin", "b.bin", "<?xml version=\"1.0\"?><Error><Code>NoSuchKey</Code></Error>", "it is XML"},
      {"a.000", "a.001", std::string("\x1f\x8b\x08\0", 4) + ids, "it is compressed with gzip"},
      {"a.txt", "b.txt", lfs, "it is a Git LFS pointer", TokenType::u8},
      {"a.txt", "b.txt", std::string("\x1f\x8b\x08\0", 4) + ids, "it is compressed with gzip", TokenType::u8},
  };
  for (const Row& row : rows) {
    const TempFolder folder;
    folder.write(row.data, ids);
    folder.write("c.zip", "PK\3\4....");
    const std::string other = folder.write(row.other, row.bytes);
    expect_input_error([&] { ids_in(folder.path().string(), row.type); }, {other + ": ", row.says, "or remove it"});
    std::filesystem::remove(other);
    EXPECT_NO_THROW(ids_in(folder.path().string(), row.type));
  }
  const TempFolder folder;  // fortune's indexes
  for (const char* name : {"a", "b.dat"}) folder.write(name, "A text that is long enough to be known as one.\n");
  folder.write("a.dat", std::string("\0\0\0\2", 4));
  const std::string index = folder.write("c.dat", std::string("\0\0\0\2", 4));
  const FolderFiles files = token_files(folder.path().string(), TokenType::u8);
  EXPECT_EQ(files.taken, (std::vector<std::string>{folder.file("a"), folder.file("b.dat")}));
  EXPECT_EQ(files.passed_over, (DataNotes{index + " (not text)"}));
}

TEST(FolderFiles, PatternsOfParts) {
  const std::pair<const char*, const char*> rows[] = {{"x-train-00001.jsonl", "x-train-*.jsonl"},
                                                      {"train-00000-of-00003.parquet", "train-*.parquet"},
                                                      {"001-valid.jsonl", "*-valid.jsonl"},
                                                      {"c4.test.tar", "c*.test.tar"},
                                                      {"train", "train"}};
  for (const auto& [name, pattern] : rows) EXPECT_EQ(part_pattern(name), pattern);
}

TEST(TokenFolders, TrainingAndEvaluationPartsAreNotOneSet) {
  const std::string ids = ids_as<uint16_t>(counting(8));
  const std::vector<std::pair<std::string, std::string>> parts = {{"train.bin", "val.bin"},
                                                                  {"fineweb_train_000001.bin", "fineweb_val_000000.bin"},
                                                                  {"train", "test"},
                                                                  {"x-training.bin", "x-valid.bin"},
                                                                  {"Train.bin", "DEV.bin"}};
  for (const auto& [training, evaluation] : parts) {
    const TempFolder folder;
    folder.write(training, ids);
    EXPECT_NO_THROW(ids_in(folder.path().string()));
    folder.write(evaluation, ids);
    expect_input_error([&] { ids_in(folder.path().string()); },
                       {"it holds '" + training + "' for training and '" + evaluation + "' for evaluation",
                        "set data.path = \"" + folder.file(training) + "\", and name '" + evaluation + "' in [[evaluation]]"});
    expect_input_error([&] { ids_in(folder.path().string(), TokenType::u8); },
                       {"it holds '" + training + "' for training and '" + evaluation + "' for evaluation"});
    folder.write("more_" + training, ids);
    expect_input_error([&] { ids_in(folder.path().string()); },
                       {"move them into separate folders (data.path = \"" + folder.file("train\""),
                        "in [[evaluation]] path = \"" + folder.file("val\"")});
  }
  const TempFolder folder;
  for (const char* name : {"train.py", "test.py", "latest.txt", "training-data.txt", "contest.txt"})
    folder.write(name, "some text");
  EXPECT_EQ(ids_in(folder.path().string(), TokenType::u8).size(), 45u);
}

}  // namespace
}  // namespace weft::token_files_test
