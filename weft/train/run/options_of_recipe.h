// What a recipe says, as the options of those who do it.
#pragma once

#include <chrono>
#include <vector>

#include "weft/comm/mesh.h"
#include "weft/comm/world.h"
#include "weft/data/loader.h"
#include "weft/plan/layout/resolve.h"
#include "weft/recipe/recipe.h"
#include "weft/train/run/run_lengths.h"
#include "weft/train/trainer/trainer.h"

namespace weft {

/// Threads of a rank: the recipe's; one in a reproducible run, whose bits depend on it; OMP_NUM_THREADS where a launcher set
/// it; else this rank's share of the cores.
int threads_of(const Recipe& recipe, const World& world);

/// The deadline of every wait.
std::chrono::milliseconds timeout_of(const Recipe& recipe);

/// The axes of the mesh that the layout's ranks are arranged on.
std::vector<AxisSize> mesh_axes(const ResolvedLayout& layout);

/// The options of the loader of the rank that is number `shard` of those that read data.
LoaderOptions loader_options(const Recipe& recipe, const ResolvedLayout& layout, int shard);

/// The learning rate of every step, scaled to the batch as the recipe says.
LearningRate learning_rate_of(const Recipe& recipe, const RunLengths& lengths);
/// Where it is scaled, and the batch grows: the peaks of the phases before the last.
std::vector<RatePhase> rate_phases_of(const Recipe& recipe);

/// How model.weights are taken: model.weight_names and model.weights_skip. Reads the file of names.
WeightsOptions weights_options(const ModelRecipe& model);

/// How the recipe's rate was scaled: "0.1 x 2048 / 256 (linear)"; empty where it was not.
std::string learning_rate_rule(const Recipe& recipe);

/// The trainer's options, without the program, which is a plan's, and the learning rate, which is the optimizer's till the data
/// is known.
TrainerOptions trainer_options(const Recipe& recipe, const ResolvedLayout& layout, at::Device device);

}  // namespace weft
