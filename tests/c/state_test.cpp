// What weft.h hands out and takes back: arrays in any order and type, predictions, weights, checkpoints.
#include <gtest/gtest.h>
#include <weft.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "tests/c/made.h"

namespace weft::c_test {
namespace {

/// Values of sample, row and column that tell an order of elements from another.
float value_at(int64_t sample, int64_t row, int64_t column) {
  return static_cast<float>(sample * 16 + row * 4 + column) / 64.0f;
}

/// Trains three steps on an array whose elements are where the strides say; returns the losses.
template <class T, class Id>
std::vector<double> losses(std::vector<int64_t> strides, bool is_borrowed) {
  const Made made;
  Array<T> input({4, 1, 4, 4});
  Array<Id> target({4});
  if (strides.empty()) strides = {16, 16, 4, 1};
  for (int64_t i = 0; i < 64; ++i) {
    input.memory[i / 16 * strides[0] + i / 4 % 4 * strides[2] + i % 4 * strides[3]] = value_at(i / 16, i / 4 % 4, i % 4);
  }
  for (Id i = 0; i < 4; ++i) target.memory[i] = i % 3;
  input.strides = strides.data();
  input.borrowed = target.borrowed = is_borrowed ? 1 : 0;
  std::vector<double> found;
  for (int step = 0; step < 3; ++step) {
    weft_step result;
    EXPECT_EQ(weft_trainer_step(made.trainer, &input, 1, &target, &result), WEFT_OK) << weft_last_error();
    found.push_back(result.loss);
  }
  return found;
}

TEST(State, ArraysInAnyOrderAndType) {
  const std::vector<double> expected = losses<float, int64_t>({}, false);
  EXPECT_NE(expected[0], expected[2]);
  EXPECT_EQ((losses<float, int64_t>({}, true)), expected);
  EXPECT_EQ((losses<float, int64_t>({1, 1, 4, 16}, true)), expected);  // the sample runs fastest
  EXPECT_EQ((losses<double, int32_t>({}, true)), expected);
  EXPECT_EQ((losses<double, int32_t>({16, 16, 1, 4}, false)), expected);
}

using Weights = std::map<std::string, std::vector<float>>;

Weights weights_of(weft_trainer* trainer) {
  Weights weights;
  const auto visit = [](void* context, const char* name, const weft_array* value) {
    int64_t count = 1;
    for (int32_t i = 0; i < value->dims; ++i) count *= value->shape[i];
    const auto* first = static_cast<const float*>(value->data);
    (*static_cast<Weights*>(context))[name].assign(first, first + count);
  };
  EXPECT_EQ(weft_trainer_visit_weights(trainer, visit, &weights), WEFT_OK) << weft_last_error();
  return weights;
}

std::vector<double> predict(weft_trainer* trainer) {
  Array<float> input({5, 1, 4, 4}, 0.5f);
  Array<double> output({5, 3}, 0.0);
  EXPECT_EQ(weft_trainer_predict(trainer, &input, 1, &output, 1), WEFT_OK) << weft_last_error();
  return output.memory;
}

TEST(State, CheckpointsHoldWeightsAndKeptArrays) {
  const std::string folder = testing::TempDir() + "weft-c-state";
  std::filesystem::remove_all(folder);
  Array<float> input({4, 1, 4, 4});
  Array<int64_t> target({4});
  Array<int64_t> position({2}, 41);
  Weights weights;
  std::vector<double> predicted;
  {
    const Made made;
    ASSERT_EQ(weft_trainer_keep(made.trainer, "position", &position), WEFT_OK) << weft_last_error();
    ASSERT_EQ(weft_trainer_step(made.trainer, &input, 1, &target, nullptr), WEFT_OK) << weft_last_error();
    position.memory[0] = 42, position.memory[1] = 43;  // in place
    ASSERT_EQ(weft_trainer_save(made.trainer, folder.c_str(), 0), WEFT_OK) << weft_last_error();
    EXPECT_EQ(weft_trainer_save(made.trainer, folder.c_str(), 0), WEFT_INPUT_ERROR);  // it is there
    EXPECT_EQ(weft_trainer_save(made.trainer, folder.c_str(), 1), WEFT_OK) << weft_last_error();
    weights = weights_of(made.trainer);
    predicted = predict(made.trainer);
  }
  const Made made;
  EXPECT_NE(weights_of(made.trainer), weights);
  Array<int64_t> later({2}, 0);
  int64_t step = 0;
  EXPECT_EQ(weft_trainer_load(made.trainer, folder.c_str(), &step), WEFT_INPUT_ERROR);  // 'position' is not kept
  const Made again;
  ASSERT_EQ(weft_trainer_keep(again.trainer, "position", &later), WEFT_OK) << weft_last_error();
  ASSERT_EQ(weft_trainer_load(again.trainer, folder.c_str(), &step), WEFT_OK) << weft_last_error();
  EXPECT_EQ(step, 1);
  EXPECT_EQ(later.memory, (std::vector<int64_t>{42, 43}));
  EXPECT_EQ(weights_of(again.trainer), weights);
  EXPECT_EQ(predict(again.trainer), predicted);
  const Made third;
  EXPECT_EQ(weft_trainer_load_weights(third.trainer, folder.c_str()), WEFT_OK) << weft_last_error();
  EXPECT_EQ(weights_of(third.trainer), weights);
  std::filesystem::remove_all(folder);
}

TEST(State, LogNamesWhatIsNotRead) {
  std::vector<std::string> lines;
  const std::string recipe =
      std::string(kRecipe) + "data = { name = \"images\", path = \"/none\" }\nsave = { folder = \"/none\" }\n";
  const Made made(
      recipe.c_str(),
      [](void* context, const char* line) { static_cast<std::vector<std::string>*>(context)->emplace_back(line); }, &lines);
  EXPECT_EQ(lines, std::vector<std::string>{
                       "not read from the recipe: [data], [save] (the program passes data, evaluates and saves)"});
}

}  // namespace
}  // namespace weft::c_test
