#include "weft/checkpoint/safetensors.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "tests/data/expect_input_error.h"
#include "tests/data/temp_folder.h"

namespace weft {
namespace {

using test::expect_input_error;
using test::read_file;
using test::TempFolder;

std::string bytes(const at::Tensor& tensor) {
  const at::Tensor values = tensor.contiguous();
  return {static_cast<const char*>(values.const_data_ptr()), values.nbytes()};
}

/// Any bit pattern is a value that must come back, NaNs included.
at::Tensor patterned(std::vector<int64_t> shape, at::ScalarType type) {
  at::Tensor out = at::empty(shape, type);
  auto* data = static_cast<uint8_t*>(out.mutable_data_ptr());
  for (size_t i = 0; i < out.nbytes(); ++i) data[i] = static_cast<uint8_t>(type == at::kBool ? i % 2 : i * 151 + 7);
  return out;
}

TEST(Safetensors, RestoresEveryTypeAndShapeBitForBit) {
  const TempFolder folder;
  const std::string path = folder.file("all.safetensors");
  std::vector<NamedTensor> saved;
  for (const auto type : {at::kDouble, at::kFloat, at::kHalf, at::kBFloat16, at::kLong, at::kInt, at::kShort, at::kChar,
                          at::kByte, at::kBool, at::kComplexFloat}) {
    int64_t number = 0;
    for (const std::vector<int64_t>& shape : std::vector<std::vector<int64_t>>{{}, {0}, {3, 0, 2}, {7}, {3, 5}, {2, 3, 1, 5}}) {
      saved.push_back({std::string(c10::toString(type)) + "." + std::to_string(number++), patterned(shape, type)});
    }
  }
  const std::map<std::string, std::string> metadata = {{"format", "pt"}, {"note", "quotes \" and\nlines, \xc3\xa9"}};
  save_safetensors(path, saved, metadata);
  EXPECT_EQ(load_safetensors_metadata(path), metadata);
  const auto loaded = load_safetensors(path);
  ASSERT_EQ(loaded.size(), saved.size());
  std::sort(saved.begin(), saved.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  for (size_t i = 0; i < saved.size(); ++i) {
    EXPECT_EQ(loaded[i].name, saved[i].name);
    EXPECT_EQ(loaded[i].tensor.sizes(), saved[i].tensor.sizes());
    EXPECT_EQ(loaded[i].tensor.scalar_type(), saved[i].tensor.scalar_type());
    EXPECT_EQ(bytes(loaded[i].tensor), bytes(saved[i].tensor)) << saved[i].name;
  }
}

TEST(Safetensors, HasTheLayoutOfTheFormat) {
  const TempFolder folder;
  const std::string path = folder.file("x");
  save_safetensors(path, {{"b", at::full({3}, 1, at::kByte)}, {"a", at::ones({2}, at::kFloat)}});
  const std::string text = read_file(path);
  uint64_t length = 0;
  std::memcpy(&length, text.data(), 8);
  EXPECT_EQ(length % 8, 0u);
  const std::string header = text.substr(8, length);
  EXPECT_EQ(header.substr(0, header.find_last_not_of(' ') + 1),
            R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"U8","shape":[3],"data_offsets":[8,11]}})");
  EXPECT_EQ(text.substr(8 + length), std::string("\0\0\x80\x3f\0\0\x80\x3f\1\1\1", 11));
}

TEST(Safetensors, StridesViewsAndGradientsDoNotMatter) {
  const TempFolder folder;
  const at::Tensor base = at::arange(24, at::kFloat).view({4, 6});
  const std::vector<NamedTensor> plain = {{"t", base.t().contiguous()}, {"v", base.narrow(1, 2, 3).contiguous()}};
  const std::vector<NamedTensor> viewed = {{"v", base.narrow(1, 2, 3)}, {"t", base.t().detach().set_requires_grad(true)}};
  save_safetensors(folder.file("plain"), plain);
  save_safetensors(folder.file("viewed"), viewed);
  EXPECT_EQ(read_file(folder.file("plain")), read_file(folder.file("viewed")));
}

TEST(Safetensors, WritesAFileWithoutTensors) {
  const TempFolder folder;
  save_safetensors(folder.file("empty"), {});
  EXPECT_TRUE(load_safetensors(folder.file("empty")).empty());
  EXPECT_TRUE(load_safetensors_metadata(folder.file("empty")).empty());
}

TEST(Safetensors, ReplacesTheOldFileOnlyWhenItSucceeds) {
  const TempFolder folder;
  const std::string path = folder.file("x");
  save_safetensors(path, {{"a", at::ones({2}, at::kFloat)}});
  const std::string old = read_file(path);
  expect_input_error([&] { save_safetensors(path, {{"a", at::Tensor()}}); }, {path, "\"a\"", "undefined"});
  expect_input_error(
      [&] {
        save_safetensors(path, {{"a", at::zeros({1}, at::kComplexDouble)}});
      },
      {path, "\"a\"", "ComplexDouble", "float32"});
  EXPECT_EQ(read_file(path), old);
  EXPECT_EQ(folder.names(), std::vector<std::string>{"x"});
  save_safetensors(path, {{"a", at::zeros({2}, at::kFloat)}});
  EXPECT_NE(read_file(path), old);
}

TEST(Safetensors, RefusesBadNames) {
  const TempFolder folder;
  const std::string path = folder.file("x");
  const at::Tensor t = at::ones({1}, at::kFloat);
  expect_input_error([&] { save_safetensors(path, {{"w", t}, {"w", t}}); }, {path, "two tensors", "\"w\""});
  expect_input_error([&] { save_safetensors(path, {{"", t}}); }, {path, "\"\""});
  expect_input_error([&] { save_safetensors(path, {{"__metadata__", t}}); }, {path, "__metadata__"});
  expect_input_error([&] { save_safetensors(path, {{"\xff", t}}); }, {path, "UTF-8"});
  expect_input_error([&] { save_safetensors(path, {{"w", t}}, {{"key", "\xff"}}); }, {path, "UTF-8"});
  expect_input_error([&] { save_safetensors(folder.file("no/x"), {{"w", t}}); }, {folder.file("no"), "does not exist"});
  EXPECT_TRUE(folder.names().empty());
}

std::string file_of(const std::string& header, const std::string& data) {
  const uint64_t length = header.size();
  std::string out(8, '\0');
  std::memcpy(out.data(), &length, 8);
  return out + header + data;
}

TEST(Safetensors, EveryBadFileIsOneClearLine) {
  const std::string four(4, 'x');
  const auto one = [](const std::string& entry) { return R"({"w":)" + entry + "}"; };
  struct Row {
    std::string content;
    std::vector<std::string> pieces;
  };
  const std::vector<Row> table = {
      {"", {"empty"}},
      {"\1\2\3\4\5\6\7", {"7 bytes"}},
      {std::string(8, '\xff'), {"its header has 18446744073709551615 bytes", "the file has 8"}},
      {file_of("{}", "").substr(0, 9), {"its header has 2 bytes", "the file has 9"}},
      {file_of("{\n", ""), {"not a JSON object"}},
      {file_of("[1]", ""), {"not a JSON object"}},
      {file_of("{}", "x"), {"1 bytes follow"}},
      {file_of(one("3"), ""), {"\"w\"", "not a JSON object"}},
      {file_of(one(R"({"shape":[1],"data_offsets":[0,4]})"), four), {"\"w\"", "no dtype"}},
      {file_of(one(R"({"dtype":"F8_E5M2","shape":[4],"data_offsets":[0,4]})"), four), {"\"w\"", "F8_E5M2", "does not read"}},
      {file_of(one(R"({"dtype":"F32","data_offsets":[0,4]})"), four), {"\"w\"", "no shape"}},
      {file_of(one(R"({"dtype":"F32","shape":[1]})"), four), {"\"w\"", "no data_offsets"}},
      {file_of(one(R"({"dtype":"F32","shape":[1],"data_offsets":[0,4,8]})"), four), {"\"w\"", "no data_offsets"}},
      {file_of(one(R"({"dtype":"F32","shape":[-1],"data_offsets":[0,4]})"), four), {"\"w\"", "whole number"}},
      {file_of(one(R"({"dtype":"F32","shape":[1.5],"data_offsets":[0,4]})"), four), {"\"w\"", "whole number"}},
      {file_of(one(R"({"dtype":"F32","shape":[1],"data_offsets":[-4,0]})"), four), {"\"w\"", "whole number"}},
      {file_of(one(R"({"dtype":"F32","shape":[2],"data_offsets":[0,4]})"), four), {"\"w\"", "8 bytes", "[0, 4)"}},
      {file_of(one(R"({"dtype":"F32","shape":[0],"data_offsets":[4,0]})"), four), {"\"w\"", "[4, 0)"}},
      {file_of(one(R"({"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]})"), four), {"\"w\"", "too large"}},
      {file_of(one(R"({"dtype":"F32","shape":[0,4294967296,4294967296],"data_offsets":[0,0]})"), ""), {"\"w\"", "too large"}},
      {file_of(one(R"({"dtype":"F32","shape":[1000],"data_offsets":[0,4000]})"), four),
       {"truncated", "4000 bytes", "it has 4"}},
      {file_of(one(R"({"dtype":"U8","shape":[2],"data_offsets":[2,4]})"), four), {"gap or overlap", "byte 0"}},
      {file_of(R"({"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},"b":{"dtype":"U8","shape":[2],"data_offsets":[2,4]}})",
               four),
       {"gap or overlap", "byte 2"}},
      {file_of(R"({"__metadata__":{"a":1}})", ""), {"metadata", "\"a\"", "not a string"}},
      {file_of(R"({"__metadata__":[]})", ""), {"metadata", "not a JSON object"}},
      {file_of(R"({"line\nbreak":3})", ""), {"line\\nbreak"}},
  };
  for (const Row& row : table) {
    const TempFolder folder;
    const std::string path = folder.write("bad", row.content);
    auto pieces = row.pieces;
    pieces.push_back(path);
    expect_input_error([&] { load_safetensors(path); }, pieces);
  }
  const TempFolder folder;
  expect_input_error([&] { load_safetensors(folder.file("missing")); }, {folder.file("missing"), "No such file"});
  expect_input_error([&] { load_safetensors(folder.path().string()); }, {"not a regular file"});
}

/// Types that weft lacks, next to others: only reading them is an error. Metadata may be null.
TEST(Safetensors, ReadsFilesThatAlsoHaveUnsupportedTypes) {
  const TempFolder folder;
  const std::string path = folder.write(
      "a",
      file_of(R"({"__metadata__":null,"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
              R"("b":{"dtype":"U16","shape":[2],"data_offsets":[4,8]},"c":{"dtype":"F4","shape":[8],"data_offsets":[8,12]}})",
              std::string(12, '\0')));
  const SafetensorsFile file(path);
  EXPECT_EQ(file.names(), (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_EQ(file.shape("c"), (std::vector<int64_t>{8}));
  EXPECT_EQ(file.read("a").item<float>(), 0.0F);
  EXPECT_TRUE(file.metadata().empty());
  expect_input_error([&] { file.read("b"); }, {path, "\"b\"", "U16", "does not read"});
}

TEST(Safetensors, EveryTruncationIsDetected) {
  const TempFolder folder;
  const std::string path = folder.file("x");
  save_safetensors(path, {{"a", at::ones({2}, at::kFloat)}, {"b", at::ones({3}, at::kByte)}}, {{"k", "v"}});
  const std::string whole = read_file(path);
  for (size_t length = 0; length < whole.size(); ++length) {
    folder.write("cut", whole.substr(0, length));
    expect_input_error([&] { load_safetensors(folder.file("cut")); }, {folder.file("cut")});
  }
}

}  // namespace
}  // namespace weft
