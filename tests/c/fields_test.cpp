// A regression through weft.h: a model of a file, whose inputs and targets are arrays of floats of its own shapes.
#include <gtest/gtest.h>
#include <weft.h>

#include <cmath>
#include <string>
#include <vector>

#include "tests/c/made.h"

namespace weft::c_test {
namespace {

constexpr int64_t kSamples = 4, kPoints = 12;

std::string recipe(const std::string& loss = ", loss = 'mean_squares'", const std::string& program = "fields") {
  return "model = { name = 'exported', path = '" WEFT_SOURCE "/tests/exported/programs/" + program +
         ".pt2', inputs = 'arrays'" + loss +
         " }\nbatch = { global = 4, micro = 2 }\noptimizer = { name = 'sgd', lr = 0.5 }\nrun = { steps = 100, threads = 1 }\n";
}

template <class T>
struct Batch {
  explicit Batch(int64_t samples = kSamples) : input({samples, 3, kPoints}), target({samples, 2, kPoints}) {
    for (size_t i = 0; i < input.memory.size(); ++i) input.memory[i] = static_cast<T>(std::sin(0.7 * static_cast<double>(i)));
    for (size_t i = 0; i < target.memory.size(); ++i) target.memory[i] = static_cast<T>(0.01 * static_cast<double>(i % 50));
  }
  Array<T> input, target;
};

/// Mean of the squared differences of what the model predicts.
double mean_squares(const Made& made, const Batch<float>& batch) {
  Array<float> outputs({kSamples, 2, kPoints});
  EXPECT_EQ(weft_trainer_predict(made.trainer, &batch.input, 1, &outputs, 1), WEFT_OK) << weft_last_error();
  double sum = 0.0;
  for (size_t i = 0; i < outputs.memory.size(); ++i) sum += std::pow(outputs.memory[i] - batch.target.memory[i], 2);
  return sum / static_cast<double>(outputs.memory.size());
}

TEST(Fields, LearnsAndEvaluatesMeanSquaresOfFloats) {
  const Made made(recipe().c_str());
  const Batch<float> batch;
  const double before = mean_squares(made, batch);
  weft_evaluation whole;
  ASSERT_EQ(weft_trainer_evaluate(made.trainer, &batch.input, 1, &batch.target, &whole), WEFT_OK) << weft_last_error();
  EXPECT_NEAR(whole.loss, before, 1e-6 * before);
  EXPECT_EQ(whole.targets, kSamples * 2 * kPoints);
  EXPECT_EQ(whole.hits, 0);
  for (int i = 0; i < 20; ++i) {
    weft_step step;
    ASSERT_EQ(weft_trainer_step(made.trainer, &batch.input, 1, &batch.target, &step), WEFT_OK) << weft_last_error();
    EXPECT_EQ(step.targets, kSamples * 2 * kPoints);
    if (i == 0) {
      EXPECT_NEAR(step.loss, before, 1e-6 * before);
    }
  }
  EXPECT_LT(mean_squares(made, batch), 0.5 * before);
}

TEST(Fields, OtherTypesAreConverted) {
  const auto loss = [](const auto& batch) {
    const Made made(recipe().c_str());
    weft_step step;
    EXPECT_EQ(weft_trainer_step(made.trainer, &batch.input, 1, &batch.target, &step), WEFT_OK) << weft_last_error();
    return step.loss;
  };
  EXPECT_EQ(loss(Batch<double>()), loss(Batch<float>()));
}

TEST(Fields, OtherShapesAreRefused) {
  const Made made(recipe().c_str());
  const Batch<float> batch;
  const Array<float> short_input({kSamples, 3, kPoints - 1}), flat_target({kSamples, 2 * kPoints});
  const Array<int64_t> labels({kSamples, 2, kPoints});
  const struct {
    const weft_array *input, *target;
    std::string text;
  } cases[] = {
      {&short_input, &batch.target, "input 0 has the shape [4, 3, 11]; it must be [4, 3, 12]"},
      {&batch.input, &flat_target, "target has the shape [4, 24]; it must be [4, 2, 12]"},
      {&batch.input, &labels, "target is int64; it must be float32"},
  };
  for (const auto& c : cases) {
    weft_step step;
    EXPECT_EQ(weft_trainer_step(made.trainer, c.input, 1, c.target, &step), WEFT_INPUT_ERROR);
    EXPECT_NE(std::string(weft_last_error()).find(c.text), std::string::npos) << weft_last_error();
  }
}

TEST(Fields, SeveralInputsAreInTheFilesOrder) {
  const Made made(recipe(", loss = 'mean_squares'", "guided").c_str());
  const Array<float> field({kSamples, 3, kPoints}), mask({kSamples, kPoints}, 0.0F), target({kSamples, 2, kPoints});
  const Array<int32_t> kind({kSamples});
  const weft_array inputs[] = {field, kind, mask}, swapped[] = {field, mask, kind};
  weft_step step;
  ASSERT_EQ(weft_trainer_step(made.trainer, inputs, 3, &target, &step), WEFT_OK) << weft_last_error();
  Array<float> outputs({kSamples, 2, kPoints});
  ASSERT_EQ(weft_trainer_predict(made.trainer, inputs, 3, &outputs, 1), WEFT_OK) << weft_last_error();
  EXPECT_EQ(outputs.memory.front(), outputs.memory[kPoints - 1]) << "masked: the last layer's bias everywhere";
  EXPECT_EQ(weft_trainer_step(made.trainer, inputs, 1, &target, &step), WEFT_INPUT_ERROR);
  EXPECT_STREQ(weft_last_error(),
               "weft_trainer_step: num_inputs is 1; the model takes 3: input 0 ('field'), input 1 ('kind'), input 2 ('mask')");
  EXPECT_EQ(weft_trainer_step(made.trainer, swapped, 3, &target, &step), WEFT_INPUT_ERROR);
  EXPECT_STREQ(weft_last_error(), "weft_trainer_step: input 1 ('kind') has the shape [4, 12]; it must be [4]");
}

TEST(Fields, TheCrossEntropyTakesClassesOfTheLastDimension) {
  const Made made(recipe("").c_str());
  const Batch<float> batch;
  const Array<int64_t> labels({kSamples, 2}, 7);
  weft_step step;
  ASSERT_EQ(weft_trainer_step(made.trainer, &batch.input, 1, &labels, &step), WEFT_OK) << weft_last_error();
  EXPECT_EQ(step.targets, kSamples * 2);
  EXPECT_NEAR(step.loss, std::log(kPoints), 1.0);
}

}  // namespace
}  // namespace weft::c_test
