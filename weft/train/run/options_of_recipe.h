// Converts a recipe to the options of the components.
#pragma once

#include <chrono>
#include <vector>

#include "weft/comm/mesh.h"
#include "weft/comm/world.h"
#include "weft/data/loader.h"
#include "weft/plan/layout/plan.h"
#include "weft/recipe/recipe.h"
#include "weft/train/run/run_lengths.h"
#include "weft/train/trainer/trainer.h"

namespace weft {

/// Threads per rank: the recipe's; one in a reproducible run, whose bits depend on it; OMP_NUM_THREADS if a launcher set it;
/// else this rank's share of the cores.
int threads_of(const Recipe& recipe, const World& world);

/// Deadline of every wait.
std::chrono::milliseconds timeout_of(const Recipe& recipe);

/// The device of this rank by run.device and layout.backend (train/process/device.h).
at::Device device_of(const Recipe& recipe, const World& world);

/// Axes of the mesh for the layout's ranks.
std::vector<AxisSize> mesh_axes(const ResolvedLayout& layout);

/// Loader options of data rank `shard`.
LoaderOptions loader_options(const Recipe& recipe, const ResolvedLayout& layout, int shard);

/// Learning rate of every step, scaled to the batch by the recipe's rule.
LearningRate learning_rate_of(const Recipe& recipe, const RunLengths& lengths);
/// Peak learning rates of the phases before the last, for a scaled rate with a growing batch.
std::vector<RatePhase> rate_phases_of(const Recipe& recipe);

/// Options for loading model.weights: model.weight_names and model.weights_skip. Reads the file of names.
WeightsOptions weights_options(const ModelRecipe& model);

/// Describes the scaling of the recipe's rate: "0.1 x 2048 / 256 (linear)"; empty without scaling.
std::string learning_rate_rule(const Recipe& recipe);

/// The trainer's options, without the program, which is in the plan. The learning rate is the optimizer's until the data is
/// known.
TrainerOptions trainer_options(const Recipe& recipe, const ResolvedLayout& layout, at::Device device);

/// The trainer's options with the programs of the recipe's plan, the ramp and the schedule of a run of these lengths.
TrainerOptions trainer_options(const Recipe& recipe, const Plan& plan, const RunLengths& lengths, at::Device device);

}  // namespace weft
