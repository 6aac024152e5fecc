// Samples from .npy files: their values and types, their parts, and what is refused.
#include "weft/data/arrays/array_set.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include "tests/data/expect_input_error.h"
#include "tests/data/npy_file.h"
#include "tests/data/temp_folder.h"

namespace weft::array_set_test {
namespace {

using test::expect_input_error;
using test::npy;
using test::npy_of;
using test::TempFolder;

std::string bytes_of(const at::Tensor& x) {
  return {static_cast<const char*>(x.contiguous().const_data_ptr()), static_cast<size_t>(x.nbytes())};
}

at::Tensor counting(int64_t samples, at::ScalarType type) {
  return at::arange(samples * 6, at::TensorOptions(type)).view({samples, 2, 3});
}

at::Tensor like(at::ScalarType type, std::vector<int64_t> sizes) { return at::empty(sizes, at::TensorOptions(type)); }

const at::Tensor kTarget = like(at::kLong, {1});

std::vector<ArrayFile> inputs_like(at::ScalarType type) { return {{"inputs", like(type, {1, 2, 3})}}; }

TEST(ArraySet, SamplesAreThoseOfTheFilesInAnyTypeAndVersion) {
  const struct {
    std::string type;
    at::ScalarType stored, needed;
    char version;
  } cases[] = {{"<f4", at::kFloat, at::kFloat, 1},
               {"<f8", at::kDouble, at::kFloat, 2},
               {"<i4", at::kInt, at::kLong, 3},
               {"<i8", at::kLong, at::kLong, 1}};
  for (const auto& c : cases) {
    const TempFolder folder;
    folder.write("inputs.npy", npy_of(c.type, "10, 2, 3", bytes_of(counting(10, c.stored)), c.version));
    folder.write("targets.npy", npy_of("<i8", "10,", bytes_of(at::arange(10))));
    const auto open = [&](ArrayPart part) { return open_arrays(folder.path(), inputs_like(c.needed), kTarget, part); };
    EXPECT_EQ(open({0.0, 0.9})->size(), 9);
    const std::shared_ptr<Dataset> rest = open({0.5, 1.0});
    ASSERT_EQ(rest->size(), 5);
    const Batch batch = rest->get({3, 4, 0, 0, 1}, 0);
    const at::Tensor chosen = at::tensor({8, 9, 5, 5, 6}, at::kLong);
    EXPECT_TRUE(at::equal(batch.inputs.at(0), counting(10, c.needed).index_select(0, chosen))) << c.type;
    EXPECT_TRUE(at::equal(batch.target, chosen));
  }
}

TEST(ArraySet, SeveralInputsAreInTheOrderAskedFor) {
  const TempFolder folder;
  folder.write("time.npy", npy_of("<i8", "10,", bytes_of(at::arange(10))));
  folder.write("field.npy", npy_of("<f4", "10, 2, 3", bytes_of(counting(10, at::kFloat))));
  folder.write("targets.npy", npy_of("<i8", "10,", bytes_of(at::arange(10))));
  const std::vector<ArrayFile> files = {{"field", like(at::kFloat, {1, 2, 3})}, {"time", like(at::kLong, {1})}};
  const Batch batch = open_arrays(folder.path(), files, kTarget, {0.5, 1.0})->get({4, 0}, 0);
  ASSERT_EQ(batch.inputs.size(), 2u);
  EXPECT_TRUE(at::equal(batch.inputs[0], counting(10, at::kFloat).index_select(0, at::tensor({9, 5}, at::kLong))));
  EXPECT_TRUE(at::equal(batch.inputs[1], at::tensor({9, 5}, at::kLong)));
  folder.write("time.npy", npy_of("<i8", "9,", bytes_of(at::arange(9))));
  expect_input_error([&] { open_arrays(folder.path(), files, kTarget); }, {"time.npy has 9 samples but", "targets.npy has 10"});
}

TEST(ArraySet, OtherFilesAreRefused) {
  const std::string values = bytes_of(counting(2, at::kFloat)), good = npy_of("<f4", "2, 2, 3", values);
  const struct {
    std::string inputs, says;
  } cases[] = {
      {npy_of("<i4", "2, 2, 3", values),
       "of type '<i4', but the model needs float32; save it with array.astype(numpy.float32)"},
      {npy_of(">f4", "2, 2, 3", values), "of type '>f4', but"},
      {npy_of("|O", "2, 2, 3", values), "of type '|O', but"},
      {npy_of("<f4", "2, 3, 2", values), "of shape (2, 3, 2), but the model needs (samples, 2, 3)"},
      {npy_of("<f4", "", values.substr(0, 4)), "of shape (), but"},
      {npy_of("<f4", "2, 2, -3", values), "header is damaged"},
      {npy_of("<f4", "2, 2, 99999999999999999999", values), "header is damaged"},
      {npy_of("<f4", "72057594037927936, 2, 3", values), "header is damaged"},
      {npy_of("<f4", "1000000000000000, 2, 3", values), "it is truncated"},
      {npy_of("<f4", "2, 2, 3", values.substr(1)), "its NumPy header says 176 bytes, but it has 175; it is truncated"},
      {npy_of("<f4", "2, 2, 3", values + "x"), "it is damaged, get it again"},
      {npy_of("<f4", "3, 2, 3", values + values.substr(24)), "inputs.npy has 3 samples but"},
      {npy("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 2, 3), }", values), "in Fortran's order; save it with"},
      {npy("{'descr': '<f4', 'shape': (2, 2, 3) }" + std::string(2000, ' '), values), "too long for plain numbers"},
      {"\x80\4\x95\x20 a pickle, not an array", "a NumPy array is expected; write it with numpy.save()"},
      {"", "it is no .npy file"},
  };
  const TempFolder folder;
  folder.write("targets.npy", npy_of("<i8", "2,", std::string(16, '\0')));
  const auto open = [&](ArrayPart part = {}) { open_arrays(folder.path(), inputs_like(at::kFloat), kTarget, part); };
  expect_input_error(open,
                     {"inputs.npy: cannot open it: No such file", "data.path is a folder with inputs.npy and targets.npy"});
  for (const auto& c : cases) {
    folder.write("inputs.npy", c.inputs);
    expect_input_error(open, {folder.file("inputs.npy"), c.says});
  }
  folder.write("inputs.npy", good);
  open();
  expect_input_error([&] { open({0.0, 0.4}); }, {"2 samples leave none for training; change data.evaluation"});
}

}  // namespace
}  // namespace weft::array_set_test
