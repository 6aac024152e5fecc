#include "weft/recipe/read/recipe_checks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "weft/base/error.h"
#include "weft/base/math.h"
#include "weft/base/port_range.h"
#include "weft/base/printable.h"
#include "weft/base/units.h"
#include "weft/checkpoint/storage/open_storage.h"
#include "weft/recipe/build/build_model.h"
#include "weft/recipe/build/build_optimizer.h"
#include "weft/recipe/build/data_checks.h"
#include "weft/recipe/data_names.h"
#include "weft/recipe/read/key_rules.h"
#include "weft/recipe/read/recipe_values.h"
#include "weft/recipe/read/section_keys.h"
#include "weft/recipe/recipe_failure.h"
#include "weft/recipe/run_target.h"
#include "weft/recipe/stages_by_hand.h"

namespace weft {

namespace {

void check_groups(const Recipe& recipe) {
  for (const ParameterRule& group : recipe.optimizer.groups) {
    if (group.names.empty()) fail(recipe, "[[optimizer.groups]]: names is empty; give full names, such as \"h.0.*\"");
    if (group.muon && recipe.optimizer.name != "muon") {
      fail(recipe, "optimizer.groups.muon is read only with optimizer.name = \"muon\" (here: \"{}\"); leave it out",
           shortened(recipe.optimizer.name));
    }
  }
}

/// A textbook form fixes how the ranks of pp are used.
void check_style(const Recipe& recipe) {
  const LayoutRecipe& layout = recipe.layout;
  if (layout.style == "mesh" || layout.style == "auto") return;
  const LayoutRecipe unset;
  const bool is_master = layout.style == "master";
  const std::pair<const char*, bool> keys[] = {{"schedule", layout.schedule != unset.schedule},
                                               {"stage_gb", layout.stage_gb != unset.stage_gb},
                                               {"stages", is_master && layout.stages != unset.stages},
                                               {"profile", is_master && !layout.profile.empty()}};
  for (const auto& [key, is_set] : keys) {
    if (is_set) fail(recipe, "layout.{} is not read with layout.style = \"{}\"; leave one of them out", key, layout.style);
  }
}

/// Rejects keys that are read only with some values of another key, if that key has a different value.
void check_layout_keys(const Recipe& recipe) {
  const LayoutRecipe& layout = recipe.layout;
  const LayoutRecipe unset;
  const struct {
    const char* key;
    bool is_set;
    const char* reader;
    const std::string& found;
    std::vector<std::string> needed;
  } rules[] = {
      {"chunks", layout.chunks != unset.chunks, "schedule", layout.schedule, {"interleaved"}},
      {"schedule_activations",
       layout.schedule_activations != unset.schedule_activations,
       "schedule",
       layout.schedule,
       {"auto"}},
      {"schedule_file", layout.schedule_file != unset.schedule_file, "schedule", layout.schedule, {"csv"}},
      {"stage_gb", layout.stage_gb != unset.stage_gb, "stages", layout.stages, {"auto"}},
      {"reshard_after_forward", !layout.reshard_after_forward, "shard_level", layout.shard_level, {"parameters"}},
      {"prefetch", layout.prefetch != unset.prefetch, "shard_level", layout.shard_level, {"gradients", "parameters"}},
      {"gathered_mb", layout.gathered_mb != unset.gathered_mb, "shard_level", layout.shard_level, {"parameters"}},
      {"bucket_mb", layout.bucket_mb != unset.bucket_mb, "shard_level", layout.shard_level, {"none"}},
      {"recompute_every", layout.recompute_every != unset.recompute_every, "recompute", layout.recompute, {"blocks"}},
  };
  for (const auto& [key, is_set, reader, found, needed] : rules) {
    if (!is_set || std::count(needed.begin(), needed.end(), found) > 0) continue;
    fail(recipe, "layout.{} is read only with layout.{} = \"{}\" (here: \"{}\"); set that too, or leave it out", key, reader,
         fmt::join(needed, "\" or \""), found);
  }
  check_style(recipe);
  if (layout.schedule == "csv" && layout.schedule_file.empty()) {
    fail(recipe, "layout.schedule = \"csv\" needs layout.schedule_file");
  }
  try {
    stages_by_hand(layout.stages);
  } catch (const InputError& error) {
    fail(recipe, "{}", error.what());
  }
}

void check_optimizer(const Recipe& recipe) {
  const OptimizerRecipe& optimizer = recipe.optimizer;
  const bool scales = optimizer.scale_lr != "none";
  if (scales && recipe.batch.reference == 0) {
    fail(recipe, "optimizer.scale_lr = \"{}\" needs batch.reference, the global batch that optimizer.lr was found for",
         optimizer.scale_lr);
  }
  if (!scales && recipe.batch.reference > 0) {
    fail(recipe,
         "batch.reference is read only with optimizer.scale_lr = \"linear\" or \"sqrt\" (here: \"none\"); set that too, or "
         "leave it out");
  }
  if (optimizer.warmup_from == "reference" && (!scales || !optimizer.warmup)) {
    fail(recipe, "optimizer.warmup_from = \"reference\" needs optimizer.scale_lr and optimizer.warmup");
  }
  if (optimizer.decay == "step" && !optimizer.decay_every) {
    fail(recipe, "optimizer.decay = \"step\" needs optimizer.decay_every, the steps or epochs between drops");
  }
  try {
    check_optimizer(optimizer_of(optimizer));
  } catch (const InputError& error) {
    fail(recipe, "{}", error.what());
  }
}

/// The mesh decides whether phases divide over ranks and micro-batches; other code checks that.
void check_ramp(const Recipe& recipe) {
  const BatchRamp& ramp = recipe.batch.ramp;
  if (ramp.empty()) return;
  if (!recipe.batch.micro) {
    fail(recipe, "batch.ramp needs batch.micro: all phases use the same samples per forward");
  }
  int64_t steps = 0;
  for (size_t i = 0; i < ramp.size(); ++i) {
    const bool is_last = i + 1 == ramp.size();
    const int64_t next = is_last ? recipe.batch.global : ramp[i + 1].global_batch;
    steps += ramp[i].steps;
    if (ramp[i].global_batch <= next) continue;
    fail(recipe, "batch.ramp, phase {}: global = {} is more than {} = {}; the batch may only grow", i + 1, ramp[i].global_batch,
         is_last ? "batch.global" : "the next phase's global", next);
  }
  if (recipe.run.steps && *recipe.run.steps <= steps) {
    fail(recipe, "run.steps = {} ends before the {} of batch.ramp have reached batch.global", *recipe.run.steps,
         counted(steps, "step"));
  }
  if (recipe.layout.pp > 1 && (recipe.layout.schedule == "auto" || recipe.layout.schedule == "csv")) {
    fail(recipe, "batch.ramp with layout.schedule = \"{}\", which is made for a fixed number of micro-batches; choose another",
         recipe.layout.schedule);
  }
  const RunLength& drops = recipe.optimizer.decay_every;
  if (drops && drops.unit != LengthUnit::steps) {
    fail(recipe, "batch.ramp with optimizer.decay_every = \"{}\", which differs in steps between phases; give it in steps",
         run_length_text(drops));
  }
}

void check_target(const Recipe& recipe) {
  try {
    parse_run_target(recipe.run.target);
  } catch (const InputError& error) {
    fail(recipe, "run.target = {}", error.what());
  }
  if (recipe.run.graph && recipe.run.histograms_every) {
    fail(recipe, "run.histograms_every with run.graph: a replayed step keeps no gradients; leave one of them out");
  }
  if (!recipe.run.target.empty() && !recipe.run.evaluate_every) {
    fail(recipe, "run.target = \"{}\" needs run.evaluate_every: evaluations decide whether it is reached", recipe.run.target);
  }
}

/// Checks the choice of evaluated weights.
void check_evaluated(const Recipe& recipe) {
  if (recipe.optimizer.ema > 0.0 || recipe.run.evaluate == RunRecipe().evaluate) return;
  fail(recipe, "run.evaluate = \"{}\" is read only with optimizer.ema; set that too, or leave it out", recipe.run.evaluate);
}

void check_ports(const Recipe& recipe) {
  const std::string& ports = recipe.run.ports;
  if (ports.empty()) return;
  if (!parse_port_range(ports)) {
    fail(recipe, "run.ports = \"{}\": expected the first and the last port, from 1024 to 65535, as in \"20000-20100\"", ports);
  }
  if (recipe.layout.backend == "nccl" || (recipe.layout.backend == "auto" && recipe.run.device == "cuda")) {
    fail(recipe,
         "run.ports does not limit NCCL, which takes any port; leave it out, and narrow the system's range on each host: "
         "sysctl net.ipv4.ip_local_port_range");
  }
}

void check_run(const Recipe& recipe) {
  check_target(recipe);
  check_ports(recipe);
  check_evaluated(recipe);
  const int64_t slots = recipe.run.reproducible_slots;
  if (slots > 0 && !is_power_of_two(slots)) {
    const int64_t power = floor_power_of_two(slots);
    const bool above = power * 2 <= kMostSlots;
    fail(recipe, "run.reproducible_slots = {} must be a power of two; the nearest {} {}{}", slots, above ? "are" : "is", power,
         above ? fmt::format(" and {}", power * 2) : "");
  }
  if (recipe.batch.micro && *recipe.batch.micro > recipe.batch.global) {
    fail(recipe, "batch.micro = {} is more than batch.global = {}", *recipe.batch.micro, recipe.batch.global);
  }
  if (recipe.layout.backend == "nccl" && recipe.run.device == "cpu") {
    fail(recipe, "layout.backend = \"nccl\" moves tensors of GPUs, but run.device = \"cpu\"");
  }
  if (recipe.layout.across_hosts != "exact" && (recipe.layout.backend != "auto" || recipe.run.device == "cuda")) {
    fail(recipe, "layout.across_hosts = \"{}\" is for layout.backend = \"auto\" on CPUs, but {}", recipe.layout.across_hosts,
         recipe.run.device == "cuda" ? "run.device = \"cuda\"" : fmt::format("layout.backend = \"{}\"", recipe.layout.backend));
  }
}

/// Checks lengths as far as possible before the data is known; run_lengths() checks the rest.
void check_lengths(const Recipe& recipe) {
  const RunRecipe& run = recipe.run;
  const std::pair<const char*, bool> keys[] = {{"run.steps", run.steps.has_value()},
                                               {"run.epochs", run.epochs.has_value()},
                                               {"run.samples", run.samples.has_value()},
                                               {"run.tokens", run.tokens.has_value()}};
  std::vector<std::string> found;
  for (const auto& [key, is_used] : keys) {
    if (is_used) found.emplace_back(key);
  }
  if (found.empty()) fail(recipe, "the length of the run is missing: set run.steps, run.epochs, run.samples or run.tokens");
  if (found.size() > 1) fail(recipe, "{} each give the length of the run; keep one of them", fmt::join(found, " and "));
  const std::pair<const char*, RunLength> lengths[] = {{found.front().c_str(), length_of(run)},
                                                       {"run.evaluate_every", run.evaluate_every},
                                                       {"optimizer.warmup", recipe.optimizer.warmup},
                                                       {"optimizer.decay_every", recipe.optimizer.decay_every},
                                                       {"save.every", recipe.save.every},
                                                       {"save.keep_every", recipe.save.keep_every},
                                                       {"save.memory_every", recipe.save.memory_every}};
  for (const auto& [key, length] : lengths) {
    if (length && length.unit == LengthUnit::tokens && !reads_tokens(recipe.model)) {
      fail(recipe, "{} counts tokens, which model \"{}\" does not read", key, recipe.model.name);
    }
  }
  const RunLength &warmup = recipe.optimizer.warmup, whole = length_of(run);
  if (warmup && warmup.unit == whole.unit && warmup.amount >= whole.amount) {
    fail(recipe, "optimizer.warmup = {} does not end within {} = {}; shorten the warm-up (optimizer.warmup=0: none)",
         run_length_text(warmup), found.front(), whole.amount);
  }
}

/// Checks the texts that each checkpoint's index stores.
void check_texts(const Recipe& recipe) {
  std::map<std::string, std::string> texts = recipe_values(recipe);
  texts["the recipe's path"] = recipe.path;
  for (const auto& [key, text] : texts) {
    if (printable(text) == text) continue;
    fail(recipe, "{} = '{}' has control characters, or is not UTF-8, which a checkpoint's index cannot store; use another name",
         key, shortened(text));
  }
}

void check_evaluations(const Recipe& recipe) {
  if (!recipe.evaluations.empty() && recipe.data.name == kMixName) {
    fail(recipe, "[[evaluation]] needs a data.name that is a kind of file, not \"{}\"; leave it out", kMixName);
  }
  std::vector<std::string> names;
  for (const EvaluationRecipe& set : recipe.evaluations) {
    if (set.name.empty() || set.path.empty()) fail(recipe, "evaluation.name and evaluation.path cannot be empty");
    if (printable(set.name) != set.name) fail(recipe, "evaluation.name = '{}' has control characters", shortened(set.name));
    if (recipe.run.evaluate == "both" && set.name.ends_with("not averaged")) {
      fail(recipe, "evaluation.name = '{}' is taken by run.evaluate = \"both\"; use another name", shortened(set.name));
    }
    if (std::count(names.begin(), names.end(), set.name) > 0)
      fail(recipe, "two evaluation sets are called '{}'; give each its own name", shortened(set.name));
    names.push_back(set.name);
  }
}

void check_save(const Recipe& recipe) {
  const SaveRecipe& save = recipe.save;
  if (!save.folder.empty()) check_texts(recipe);
  const SaveRecipe unset;
  const bool is_set = save.every || save.keep != unset.keep || save.keep_every || save.keep_best != unset.keep_best ||
                      save.on_end != unset.on_end || save.upload != unset.upload;
  if (is_set && save.folder.empty()) fail(recipe, "[save] without save.folder: name a folder for the checkpoints");
  if (save.keep_best != unset.keep_best && !recipe.run.evaluate_every) {
    fail(recipe, "save.keep_best = \"{}\" needs run.evaluate_every", save.keep_best);
  }
  if (!save.upload.empty() && storage_place(save.upload) == storage_place(save.folder))
    fail(recipe, "save.upload equals save.folder; name another location");
  if (recipe.run.resume.empty()) fail(recipe, "run.resume is empty: \"auto\", \"none\" or a checkpoint's folder");
}

}  // namespace

void check_recipe(const Recipe& recipe) {
  check_groups(recipe);
  check_model_and_data(recipe);
  check_layout_keys(recipe);
  check_lengths(recipe);
  check_optimizer(recipe);
  check_run(recipe);
  check_ramp(recipe);
  check_evaluations(recipe);
  check_save(recipe);
  check_keys_are_read(recipe);
}

}  // namespace weft
