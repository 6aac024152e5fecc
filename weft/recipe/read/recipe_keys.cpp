#include "weft/recipe/read/recipe_keys.h"

#include <fmt/format.h>

#include <iterator>
#include <limits>
#include <utility>

#include "weft/models/resnet.h"
#include "weft/nn/block_layout.h"
#include "weft/optim/learning_rate.h"
#include "weft/program/program.h"
#include "weft/recipe/build/build_model.h"
#include "weft/recipe/build/build_optimizer.h"
#include "weft/recipe/data_names.h"
#include "weft/recipe/read/ramp_keys.h"
#include "weft/recipe/read/section_keys.h"

namespace weft {

namespace {

using Keys = std::vector<FileKey>;

Keys batch_keys(BatchRecipe& b) {
  return {
      {"batch", "global", &b.global, "samples a step, over all ranks", from(1), {}, true},
      {"batch", "micro", &b.micro,
       "samples a forward; left out: global / data-parallel ranks (or / slots; with a pipeline, a part of that)", from(1)},
      {"batch", "reference", &b.reference, "global batch that optimizer.lr was found for; read with optimizer.scale_lr",
       from(0)},
  };
}

/// Of all optimizers: which one, and its rate.
Keys optimizer_keys(OptimizerRecipe& o) {
  return {
      {"optimizer", "name", &o.name, "which optimizer", {}, optimizer_names()},
      {"optimizer", "lr", &o.lr, "learning rate at its peak", above(0)},
      {"optimizer", "scale_lr", &o.scale_lr, "lr times batch.global / batch.reference, or its root", {}, kRateScalings.all()},
      {"optimizer",
       "warmup_from",
       &o.warmup_from,
       "where the warm-up begins; reference: at lr before it is scaled",
       {},
       {"zero", "reference"}},
      {"optimizer", "warmup", &o.warmup, "linear warm-up, whose last step has lr", from(0)},
      {"optimizer", "decay", &o.decay, "schedule after the warm-up", {}, kDecays.all()},
      {"optimizer", "final_lr", &o.final_lr, "linear, cosine: share of lr at the last step", from(0, 1)},
      {"optimizer", "decay_every", &o.decay_every, "step decay: between drops", from(0)},
      {"optimizer",
       "decay_factor",
       &o.decay_factor,
       "step decay: factor of each drop",
       {.min = 0.0, .max = 1.0, .open_min = true}},
  };
}

/// Of the optimizers that their texts name, and what is done about their moves.
Keys move_keys(OptimizerRecipe& o) {
  return {
      {"optimizer",
       "weight_decay",
       &o.weight_decay,
       "decoupled (adamw, lion, muon, adafactor), part of the move (lamb), or added to gradients (the others)",
       {.min = 0.0}},
      {"optimizer", "beta1", &o.beta1, "adamw, lamb, lion, muon; left out: 0.9", zero_to_below_one()},
      {"optimizer", "beta2", &o.beta2, "adamw, lamb, lion, muon; left out: 0.999, lion's 0.99", zero_to_below_one()},
      {"optimizer", "alpha", &o.alpha, "rmsprop; left out: 0.99", zero_to_below_one()},
      {"optimizer", "eps", &o.eps, "but for sgd, lion; left out: 1e-8, lamb 1e-6, adagrad 1e-10, adafactor 1.2e-7", above(0)},
      {"optimizer", "momentum", &o.momentum, "sgd, lars, muon (0.95), rmsprop (0); left out: 0.9", zero_to_below_one()},
      {"optimizer", "nesterov", &o.nesterov, "sgd, lars, muon; left out: false, muon's true"},
      {"optimizer", "trust", &o.trust, "lars: factor of the trust ratio; left out: 0.001", above(0)},
      {"optimizer", "trust_limit", &o.trust_limit, "lars, lamb: largest trust ratio; 0: no limit", {.min = 0.0}},
      {"optimizer", "matrix_rate", &o.matrix_rate, "muon: how the rate of a matrix follows its shape", {}, kMatrixRates.all()},
      {"optimizer", "ns_steps", &o.ns_steps, "muon: Newton-Schulz steps", from(1, 99)},
      {"optimizer", "ns_eps", &o.ns_eps, "muon: smallest norm that a matrix is divided by", above(0)},
      {"optimizer", "adam_lr", &o.adam_lr, "muon: AdamW's rate beside lr; left out: 0.0003", {.min = 0.0}},
      {"optimizer", "beta2_decay", &o.beta2_decay, "adafactor: how fast means forget; left out: -0.8", from(-10, 0)},
      {"optimizer", "min_rms", &o.min_rms, "adafactor: smallest rms of weights; left out: 0.001", {.min = 0.0}},
      {"optimizer", "update_clip", &o.update_clip, "adafactor: largest rms of a move; left out: 1", {.min = 1.0}},
      {"optimizer", "clip", &o.clip, "largest global gradient norm; 0: no clipping", {.min = 0.0}},
      {"optimizer", "ema", &o.ema, "what a moving average of the weights keeps of itself in a step; 0: none",
       zero_to_below_one()},
      {"optimizer", "ema_warmup", &o.ema_warmup, "at most (1 + n) / (10 + n) of it after n steps"},
  };
}

Keys run_keys(RunRecipe& r) {
  return {
      {"run", "steps", &r.steps, "how long it is, in updates; or run.epochs, run.samples or run.tokens", from(1)},
      {"run", "epochs", &r.epochs, "in passes over the training data", above(0)},
      {"run", "samples", &r.samples, "in samples trained on", from(1, 1e15)},
      {"run", "tokens", &r.tokens, "in tokens trained on", from(1, 1e15)},
      {"run", "evaluate_every", &r.evaluate_every, "between evaluations; 0: only at the end", from(0)},
      {"run",
       "evaluate",
       &r.evaluate,
       "with optimizer.ema, what is evaluated; both: the average first, which decides",
       {},
       {"ema", "weights", "both"}},
      {"run", "target", &r.target,
       "\"accuracy >= 0.9\" or \"loss <= 2.1\": the run ends at the first evaluation that reaches it"},
      {"run", "seed", &r.seed, "of initialisation, data order and dropout", {.min = 0.0}},
      {"run", "threads", &r.threads,
       "a rank; left out: OMP_NUM_THREADS if set, else cores / ranks; 1 with reproducible_slots or _tp", from(1, 4096)},
      {"run", "reproducible_slots", &r.reproducible_slots, "0: off; a power of two that the ranks divide", from(0, kMostSlots)},
      {"run", "reproducible_tp", &r.reproducible_tp, "0: off; a power of two that layout.tp divides", from(0, kMostSlots)},
      {"run", "noise_scale", &r.noise_scale, "measure the gradient noise scale: the critical batch size"},
      {"run", "device", &r.device, "where tensors live", {}, {"auto", "cpu", "cuda"}},
      {"run",
       "timeout_s",
       &r.timeout_s,
       "how long ranks wait for one another: in a collective, and to start, in seconds",
       {.min = 0.0, .max = 1e6, .open_min = true}},
      {"run", "ports", &r.ports, "\"20000-20100\": of these are all that weft listens on; left out: WEFT_PORTS, or any"},
      {"run", "restarts", &r.restarts, "how often ranks that failed are started again, from the newest state", from(0, 1e6)},
      {"run", "name", &r.name, "of the run, in its checkpoints; left out: the recipe's file name"},
      {"run", "resume", &r.resume, "\"auto\": from the newest checkpoint in save.folder, if any; \"none\"; or a checkpoint"},
  };
}

Keys save_keys(SaveRecipe& s) {
  return {
      {"save", "folder", &s.folder, "of checkpoints: a path, or a URL of an object store; left out: none are saved"},
      {"save", "every", &s.every, "between two; 0: at the end alone", from(0), {}, false, true},
      {"save", "keep", &s.keep, "newest checkpoints that stay; 0: all", from(0, 1e6)},
      {"save", "keep_every", &s.keep_every, "those stay besides; 0: none", from(0), {}, false, true},
      {"save",
       "keep_best",
       &s.keep_best,
       "the one with the best of it stays besides",
       {},
       {"none", "evaluation loss", "evaluation accuracy"}},
      {"save", "upload", &s.upload, "a second place, as an object store, that each checkpoint is copied to behind training"},
      {"save", "on_end", &s.on_end, "after the last step too"},
      {"save", "memory_every", &s.memory_every, "run.restarts: between copies of the state in the launcher's memory; 0: none",
       from(0)},
      {"save",
       "deadline_s",
       &s.deadline_s,
       "what a run has for saving once it is asked to end, in seconds",
       {.min = 0.0, .max = 1e6, .open_min = true}},
  };
}

Keys evaluation_keys(EvaluationRecipe& e, const std::string& section) {
  const bool is_read = section == "evaluation";  // and not one that is there already
  return {
      {section, "name", &e.name, "of a further set to evaluate on, for people", {}, {}, is_read},
      {section, "path", &e.path, "its file or folder, of the kind that data.name says; all of it counts", {}, {}, is_read},
  };
}

}  // namespace

std::vector<FileKey> group_keys(ParameterRule& g, const std::string& section) {
  const bool is_read = section == "optimizer.groups";  // and not one that is there already
  return {
      {section, "names", &g.names, "full names of parameters, as a shell's pattern: \"h.0.*\"", {}, {}, is_read},
      {section, "lr_factor", &g.lr_factor, "times the learning rate, of those", from(0.0, 1e6)},
      {section, "weight_decay", &g.weight_decay, "in place of optimizer.weight_decay, of those, biases and norms too",
       from(0.0, 1e6)},
      {section, "muon", &g.muon, "muon: those are hidden matrices, or take AdamW"},
      {section, "frozen", &g.frozen, "those keep their values"},
  };
}

std::vector<RepeatedSection> repeated_recipe_sections(Recipe& recipe) {
  MixPart part;
  EvaluationRecipe set;
  ParameterRule group;
  BatchPhase phase;
  const auto next_part = [&recipe] { return mix_keys(recipe.data.mix.emplace_back(), "data.mix"); };
  const auto next_set = [&recipe] { return evaluation_keys(recipe.evaluations.emplace_back(), "evaluation"); };
  const auto next_group = [&recipe] { return group_keys(recipe.optimizer.groups.emplace_back(), "optimizer.groups"); };
  const auto next_phase = [&recipe] { return ramp_keys(recipe.batch.ramp.emplace_back(), "batch.ramp"); };
  return {{.section = "data.mix", .known = mix_keys(part, "data.mix"), .next = next_part},
          {.section = "evaluation", .known = evaluation_keys(set, "evaluation"), .next = next_set},
          {.section = "optimizer.groups", .known = group_keys(group, "optimizer.groups"), .next = next_group},
          {.section = "batch.ramp", .known = ramp_keys(phase, "batch.ramp"), .next = next_phase}};
}

std::vector<FileKey> recipe_keys(Recipe& recipe) {
  Keys keys;
  const auto add = [&keys](Keys more) { std::move(more.begin(), more.end(), std::back_inserter(keys)); };
  add(model_keys(recipe.model));
  add(data_keys(recipe.data));
  add(batch_keys(recipe.batch));
  add(layout_keys(recipe.layout));
  add(optimizer_keys(recipe.optimizer));
  add(move_keys(recipe.optimizer));
  add(run_keys(recipe.run));
  add(save_keys(recipe.save));
  for (size_t i = 0; i < recipe.data.mix.size(); ++i) add(mix_keys(recipe.data.mix[i], fmt::format("data.mix.{}", i + 1)));
  for (size_t i = 0; i < recipe.optimizer.groups.size(); ++i) {
    add(group_keys(recipe.optimizer.groups[i], fmt::format("optimizer.groups.{}", i + 1)));
  }
  for (size_t i = 0; i < recipe.evaluations.size(); ++i) {
    add(evaluation_keys(recipe.evaluations[i], fmt::format("evaluation.{}", i + 1)));
  }
  add(ramp_keys(recipe.batch.ramp));
  return keys;
}

}  // namespace weft
