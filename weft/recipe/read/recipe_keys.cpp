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
      {"batch", "global", &b.global, "samples per step, over all ranks", from(1), {}, true},
      {"batch", "micro", &b.micro,
       "samples per forward; left out: global / data-parallel ranks (or / slots; with a pipeline, part of that)", from(1)},
      {"batch", "reference", &b.reference, "global batch that optimizer.lr was found for; read with optimizer.scale_lr",
       from(0)},
  };
}

/// Keys of every optimizer: its name and its rate.
Keys optimizer_keys(OptimizerRecipe& o) {
  return {
      {"optimizer", "name", &o.name, "which optimizer", {}, optimizer_names()},
      {"optimizer", "lr", &o.lr, "learning rate at its peak", above(0)},
      {"optimizer", "scale_lr", &o.scale_lr, "lr times batch.global / batch.reference, or its root", {}, kRateScalings.all()},
      {"optimizer",
       "warmup_from",
       &o.warmup_from,
       "where the warm-up starts; reference: at the unscaled lr",
       {},
       {"zero", "reference"}},
      {"optimizer", "warmup", &o.warmup, "linear warm-up, whose last step has lr", from(0)},
      {"optimizer", "decay", &o.decay, "schedule after the warm-up", {}, kDecays.all()},
      {"optimizer", "final_lr", &o.final_lr, "linear, cosine: share of lr at the last step", from(0, 1)},
      {"optimizer", "decay_every", &o.decay_every, "step decay: interval between drops", from(0)},
      {"optimizer",
       "decay_factor",
       &o.decay_factor,
       "step decay: factor of each drop",
       {.min = 0.0, .max = 1.0, .open_min = true}},
  };
}

/// Keys for the optimizers named in their texts, and for clipping and averaging.
Keys move_keys(OptimizerRecipe& o) {
  return {
      {"optimizer",
       "weight_decay",
       &o.weight_decay,
       "decoupled (adamw, lion, muon, adafactor), part of the update (lamb), or added to gradients (the others)",
       {.min = 0.0}},
      {"optimizer", "beta1", &o.beta1, "adamw, lamb, lion, muon; left out: 0.9", zero_to_below_one()},
      {"optimizer", "beta2", &o.beta2, "adamw, lamb, lion, muon; left out: 0.999, lion's 0.99", zero_to_below_one()},
      {"optimizer", "alpha", &o.alpha, "rmsprop; left out: 0.99", zero_to_below_one()},
      {"optimizer", "eps", &o.eps, "all but sgd, lion; left out: 1e-8, lamb 1e-6, adagrad 1e-10, adafactor 1.2e-7", above(0)},
      {"optimizer", "momentum", &o.momentum, "sgd, lars, muon (0.95), rmsprop (0); left out: 0.9", zero_to_below_one()},
      {"optimizer", "nesterov", &o.nesterov, "sgd, lars, muon; left out: false, muon's true"},
      {"optimizer", "trust", &o.trust, "lars: factor of the trust ratio; left out: 0.001", above(0)},
      {"optimizer", "trust_limit", &o.trust_limit, "lars, lamb: largest trust ratio; 0: no limit", {.min = 0.0}},
      {"optimizer", "matrix_rate", &o.matrix_rate, "muon: how the rate of a matrix follows its shape", {}, kMatrixRates.all()},
      {"optimizer", "ns_steps", &o.ns_steps, "muon: Newton-Schulz steps", from(1, 99)},
      {"optimizer", "ns_eps", &o.ns_eps, "muon: smallest norm that a matrix is divided by", above(0)},
      {"optimizer", "adam_lr", &o.adam_lr, "muon: learning rate of its AdamW; left out: 0.0003", {.min = 0.0}},
      {"optimizer", "beta2_decay", &o.beta2_decay, "adafactor: decay exponent of its means; left out: -0.8", from(-10, 0)},
      {"optimizer", "min_rms", &o.min_rms, "adafactor: smallest rms of weights; left out: 0.001", {.min = 0.0}},
      {"optimizer", "update_clip", &o.update_clip, "adafactor: largest rms of an update; left out: 1", {.min = 1.0}},
      {"optimizer", "clip", &o.clip, "largest global gradient norm; 0: no clipping", {.min = 0.0}},
      {"optimizer", "ema", &o.ema, "decay per step of a moving average of the weights; 0: no average", zero_to_below_one()},
      {"optimizer", "ema_warmup", &o.ema_warmup, "limit ema to (1 + n) / (10 + n) after n steps"},
  };
}

Keys run_keys(RunRecipe& r) {
  return {
      {"run", "steps", &r.steps, "length in updates; or run.epochs, run.samples or run.tokens", from(1)},
      {"run", "epochs", &r.epochs, "length in passes over the training data", above(0)},
      {"run", "samples", &r.samples, "length in training samples", from(1, 1e15)},
      {"run", "tokens", &r.tokens, "length in training tokens", from(1, 1e15)},
      {"run", "evaluate_every", &r.evaluate_every, "interval between evaluations; 0: only at the end", from(0)},
      {"run",
       "evaluate",
       &r.evaluate,
       "with optimizer.ema: evaluated weights; both: the average first, and it decides",
       {},
       {"ema", "weights", "both"}},
      {"run", "target", &r.target,
       "\"accuracy >= 0.9\" or \"loss <= 2.1\": the run ends at the first evaluation that reaches it"},
      {"run", "seed", &r.seed, "for initialisation, data order and dropout", {.min = 0.0}},
      {"run", "threads", &r.threads,
       "per rank; left out: OMP_NUM_THREADS if set, else cores / ranks; 1 with reproducible_slots or _tp", from(1, 4096)},
      {"run", "reproducible_slots", &r.reproducible_slots, "0: off; a power of two that the ranks divide", from(0, kMostSlots)},
      {"run", "reproducible_tp", &r.reproducible_tp, "0: off; a power of two that layout.tp divides", from(0, kMostSlots)},
      {"run", "noise_scale", &r.noise_scale, "measure the gradient noise scale: the critical batch size"},
      {"run",
       "device",
       &r.device,
       "device of the tensors; `\"auto\"`: GPUs where LibTorch sees any",
       {},
       {"auto", "cpu", "cuda"}},
      {"run", "hardware", &r.hardware,
       "a hardware file, or a shipped one's name: layout = \"auto\" plans by it, and the final table shows what it predicts"},
      {"run", "graph", &r.graph, "on a GPU: capture a step, after two, and replay it: one launch per step"},
      {"run",
       "timeout_s",
       &r.timeout_s,
       "longest wait for other ranks, in a collective and to start, in seconds",
       {.min = 0.0, .max = 1e6, .open_min = true}},
      {"run", "ports", &r.ports, "\"20000-20100\": range of all ports weft listens on; left out: WEFT_PORTS, or any"},
      {"run", "restarts", &r.restarts, "how often failed ranks are restarted, from the newest state", from(0, 1e6)},
      {"run", "name", &r.name, "name of the run in its checkpoints; left out: the recipe's file name"},
      {"run", "folder", &r.folder, "folder for the records of the run (docs/records.md); left out: save.folder"},
      {"run", "log_every", &r.log_every, "interval between records of steps", above(0), {}, false, true},
      {"run", "tensorboard", &r.tensorboard, "also keep records for TensorBoard, in tensorboard/ of the folder"},
      {"run", "csv", &r.csv, "also keep records as metrics.csv and evaluations.csv"},
      {"run", "histograms_every", &r.histograms_every,
       "interval between histograms of weights and gradients for TensorBoard; left out: none", above(0)},
      {"run", "audit_every", &r.audit_every,
       "interval between audits of copies, state and sums (docs/stopped.md); left out: none", above(0)},
      {"run",
       "stop_on",
       &r.stop_on,
       "what ends the run with an error: a loss that diverges, what an audit finds, or either",
       {},
       {"none", "divergence", "audit", "any"}},
      {"run", "resume", &r.resume, "\"auto\": from the newest checkpoint in save.folder, if any; \"none\"; or a checkpoint"},
  };
}

Keys save_keys(SaveRecipe& s) {
  return {
      {"save", "folder", &s.folder, "checkpoint folder: a path or an object-store URL; left out: no checkpoints"},
      {"save", "every", &s.every, "interval between checkpoints; 0: only at the end", from(0), {}, false, true},
      {"save", "keep", &s.keep, "number of newest checkpoints kept; 0: all", from(0, 1e6)},
      {"save", "keep_every", &s.keep_every, "checkpoints at these intervals are kept too; 0: off", from(0), {}, false, true},
      {"save",
       "keep_best",
       &s.keep_best,
       "the best checkpoint by this is kept too",
       {},
       {"none", "evaluation loss", "evaluation accuracy"}},
      {"save", "upload", &s.upload, "a second place, such as an object store, to copy each checkpoint to in the background"},
      {"save", "on_end", &s.on_end, "save after the last step too"},
      {"save", "memory_every", &s.memory_every, "run.restarts: interval between state copies in the launcher's memory; 0: none",
       from(0)},
      {"save",
       "deadline_s",
       &s.deadline_s,
       "time to save after a request to end, in seconds",
       {.min = 0.0, .max = 1e6, .open_min = true}},
  };
}

Keys evaluation_keys(EvaluationRecipe& e, const std::string& section) {
  const bool is_read = section == "evaluation";  // false for an existing section
  return {
      {section, "name", &e.name, "printed name of a further evaluation set", {}, {}, is_read},
      {section, "path", &e.path, "its file or folder, of the kind data.name names; all of it is used", {}, {}, is_read},
  };
}

}  // namespace

std::vector<FileKey> group_keys(ParameterRule& g, const std::string& section) {
  const bool is_read = section == "optimizer.groups";  // false for an existing group
  return {
      {section, "names", &g.names, "full names of parameters, as a shell's pattern: \"h.0.*\"", {}, {}, is_read},
      {section, "lr_factor", &g.lr_factor, "factor on the group's learning rate", from(0.0, 1e6)},
      {section, "weight_decay", &g.weight_decay, "replaces optimizer.weight_decay for the group, biases and norms too",
       from(0.0, 1e6)},
      {section, "muon", &g.muon, "muon: true: treated as hidden matrices; false: AdamW"},
      {section, "frozen", &g.frozen, "the group's parameters keep their values"},
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
