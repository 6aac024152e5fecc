// Trains a recipe through weft.h on the batches of the recipe's own data, and then with train(): the losses must have the same
// bits. Also loads the checkpoint of each with the other. usage: same_bits RECIPE FOLDER, on any number of ranks.
#include <ATen/core/Tensor.h>
#include <fmt/format.h>
#include <weft.h>

#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <string>
#include <vector>

#include "weft/base/input_file.h"
#include "weft/checkpoint/format/checkpoint_folder.h"
#include "weft/recipe.h"
#include "weft/trainer.h"

namespace {

struct Array : weft_array {
  explicit Array(const at::Tensor& x) : weft_array{}, held(x) {
    data = held.mutable_data_ptr();
    shape = held.sizes().data();
    strides = held.strides().data();
    dims = static_cast<int32_t>(held.dim());
    type = held.scalar_type() == at::kFloat ? WEFT_FLOAT32 : WEFT_INT64;
    borrowed = 1;
  }
  at::Tensor held;
};

void check(int status) {
  if (status == WEFT_OK) return;
  std::fprintf(stderr, "%s\n", weft_last_error());
  std::exit(1);
}

/// Trains through weft.h; returns the loss of each step.
std::vector<double> train_by_c(const weft::Recipe& recipe, const std::string& text, const std::string& checkpoint) {
  weft_world* world = nullptr;
  weft_trainer* trainer = nullptr;
  int64_t first = 0, count = 0;
  check(weft_world_from_environment(60, &world));
  check(weft_trainer_make(world, text.c_str(), nullptr, nullptr, &trainer));
  check(weft_trainer_share(trainer, &first, &count));
  const weft::Datasets data = weft::open_data(recipe);
  weft::Loader loader(data.training, weft::sampler_of(*data.training, recipe.run.seed),
                      {.global_batch = recipe.batch.global,
                       .micro_batch = count,
                       .shard = static_cast<int>(first / count),
                       .num_shards = static_cast<int>(recipe.batch.global / count)});
  std::vector<double> losses;
  for (int64_t step = 0; step < *recipe.run.steps; ++step) {
    const weft::Batch batch = loader.next();
    const Array input(batch.inputs.at(0)), target(batch.target);
    weft_step result;
    check(weft_trainer_step(trainer, &input, 1, &target, &result));
    losses.push_back(result.loss);
  }
  check(weft_trainer_save(trainer, checkpoint.c_str(), 0));
  weft_trainer_free(trainer);
  weft_world_free(world);
  return losses;
}

/// Loads a checkpoint of train() through weft.h; returns its number of steps.
int64_t load_by_c(const std::string& text, const std::string& checkpoint) {
  weft_world* world = nullptr;
  weft_trainer* trainer = nullptr;
  int64_t step = 0;
  check(weft_world_from_environment(60, &world));
  check(weft_trainer_make(world, text.c_str(), nullptr, nullptr, &trainer));
  check(weft_trainer_load(trainer, checkpoint.c_str(), &step));
  weft_trainer_free(trainer);
  weft_world_free(world);
  return step;
}

int compare(const std::string& path, const std::string& folder) {
  const std::string text = weft::read_text_file("recipe", path, 1 << 20);
  const weft::Recipe recipe = weft::load_recipe(path, {fmt::format("save.folder=\"{}/train\"", folder)});
  const std::vector<double> by_c = train_by_c(recipe, text, folder + "/c");

  std::vector<double> by_train;
  const weft::World world = weft::World::from_environment();
  weft::train(recipe, world, {.on_step = [&](const weft::StepReport& report) { by_train.push_back(report.loss); }});
  const int64_t steps = load_by_c(text, fmt::format("{}/train/{}", folder, weft::checkpoint_name(*recipe.run.steps)));
  weft::Recipe longer = weft::load_recipe(path, {fmt::format("run.steps={}", *recipe.run.steps + 1)});
  longer.run.resume = folder + "/c";
  const weft::FinalReport report = weft::train(longer, weft::World::from_environment());
  if (steps != *recipe.run.steps || report.resumed_from != steps) {
    std::fprintf(stderr, "C loads step %d, train() resumes from %d\n", int(steps), int(report.resumed_from));
    return 1;
  }
  if (world.rank() > 0) return 0;
  for (size_t i = 0; i < by_train.size(); ++i) std::printf("%s %a %a\n", i == 0 ? "losses" : "      ", by_c.at(i), by_train[i]);
  return by_c == by_train && static_cast<int64_t>(by_c.size()) == steps ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  try {
    return compare(argv[1], argv[2]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
