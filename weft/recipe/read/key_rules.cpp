#include "weft/recipe/read/key_rules.h"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <map>

#include "weft/recipe/build/build_model.h"
#include "weft/recipe/data_names.h"
#include "weft/recipe/read/recipe_paths.h"
#include "weft/recipe/read/recipe_values.h"
#include "weft/recipe/recipe_failure.h"

namespace weft {
namespace {

using R = const Recipe&;

bool is_exported(R r) { return r.model.name == kExportedName; }
bool is_of_images(R r) { return !reads_tokens(r.model) && !reads_arrays(r.model); }

bool is_of_labels(R r) { return !reads_tokens(r.model) && has_classes(r.model); }

/// Returns true if the data, or any part of a mixture, satisfies `is`.
template <class Is>
bool any_data(R r, const Is& is) {
  if (r.data.name != kMixName) return is(r.data.name, r.data.evaluation_path);
  return std::any_of(r.data.mix.begin(), r.data.mix.end(),
                     [&](const MixPart& part) { return is(part.name, part.evaluation_path); });
}

bool has_columns(R r) {
  return any_data(r, [](const std::string& name, const std::string&) { return named_data(name).has_columns; });
}

bool has_image_files(R r) { return is_of_images(r) && named_data(r.data.name).channels == 0; }
bool has_axes(R r) { return r.layout.style == "mesh" || r.layout.style == "auto"; }
bool has_folder(R r) { return !r.save.folder.empty(); }
bool keeps_records(R r) { return !records_place(r).empty(); }
bool keeps_files(R r) { return !records_folder(r).empty(); }
bool is_sharded(R r, std::string_view least) {
  return r.layout.shard_level == "parameters" || (least == "gradients" && r.layout.shard_level == least);
}

constexpr Unread kRefused = Unread::refused, kStands = Unread::stands, kPlanned = Unread::planned;

constexpr KeyRule kModelRules[] = {
    {"model.name"},
    {"model.path", kRefused, "model.name = \"exported\"", is_exported},
    {"model.blocks", kRefused, "model.name = \"exported\"", is_exported},
    {"model.inputs", kRefused, "model.name = \"exported\"", is_exported},
    {"model.loss", kRefused, "model.name = \"exported\"", is_exported},
    {"model.layers", kStands},
    {"model.heads", kStands},
    {"model.kv_heads", kStands},
    {"model.width", kStands},
    {"model.ffn", kStands},
    {"model.context", kStands},
    {"model.vocabulary", kStands},
    {"model.depth", kStands},
    {"model.norm", kStands},
    {"model.zero_init_residual", kStands},
    {"model.channels", kStands},
    {"model.image_size", kStands},
    {"model.classes", kStands},
    {"model.class_weights", kRefused, "images or arrays, and the cross entropy", is_of_labels},
    {"model.label_smoothing", kRefused, "images or arrays, and the cross entropy", is_of_labels},
    {"model.tied_embeddings", kStands},
    {"model.dropout", kStands},
    {"model.rope_theta", kStands},
    {"model.norm_eps", kStands},
    {"model.weights"},
    {"model.weight_names", kRefused, "model.weights", [](R r) { return !r.model.weights.empty(); }},
    {"model.weights_skip", kRefused, "model.weights", [](R r) { return !r.model.weights.empty(); }},
};

constexpr KeyRule kDataRules[] = {
    {"data.name"},
    {"data.path", kRefused, "a data.name other than \"mix\"", [](R r) { return r.data.name != kMixName; }},
    {"data.evaluation_path", kRefused, "data.name = \"webdataset\", \"parquet\", \"jsonl\" or \"arrays\"",
     [](R r) { return named_data(r.data.name).is_files; }},
    {"data.tokenizer", kRefused, "data.name = \"tokens\"", [](R r) { return r.data.name == "tokens"; }},
    {"data.column", kRefused, "data.name = \"jsonl\" or \"parquet\"",
     [](R r) { return r.data.name != kMixName && has_columns(r); }},
    {"data.label_column", kRefused, "images of data.name = \"parquet\"",
     [](R r) {
       return is_of_images(r) && any_data(r, [](const std::string& name, const std::string&) { return name == kParquetName; });
     }},
    {"data.shuffle_mb", kRefused, "data.name = \"jsonl\" or \"parquet\"", has_columns},
    {"data.pack", kRefused, "tokens", [](R r) { return reads_tokens(r.model); }},
    {"data.document_end", kRefused, "data.name = \"tokens\" and data.pack = \"documents\"",
     [](R r) { return r.data.name == "tokens" && r.data.pack == "documents"; }},
    {"data.workers"},
    {"data.skip_bad", kRefused, "images, or data.name = \"jsonl\" or \"parquet\"",
     [](R r) { return is_of_images(r) || has_columns(r); }},
    {"data.crop_padding", kRefused, "images", is_of_images},
    {"data.flip", kRefused, "images", is_of_images},
    {"data.least_area", kRefused, "images", is_of_images},
    {"data.alpha", kRefused, "image files", has_image_files},
    {"data.exif_rotation", kRefused, "image files", has_image_files},
    {"data.mixup", kRefused, "images and the cross entropy", [](R r) { return is_of_images(r) && has_classes(r.model); }},
    {"data.evaluation", kRefused, "data without data.evaluation_path",
     [](R r) { return is_of_images(r) || any_data(r, [](const auto&, const std::string& path) { return path.empty(); }); }},
    {"data.mix.name"},
    {"data.mix.path"},
    {"data.mix.evaluation_path", kRefused, "a part that reads data.evaluation_path"},
    {"data.mix.tokenizer", kRefused, "a part that reads data.tokenizer"},
    {"data.mix.column", kRefused, "a part that reads data.column"},
    {"data.mix.document_end", kRefused, "a part that reads data.document_end"},
    {"data.mix.weight"},
    {"batch.global"},
    {"batch.micro"},
    {"batch.reference", kRefused, "optimizer.scale_lr", [](R r) { return r.optimizer.scale_lr != "none"; }},
    {"batch.ramp.global"},
    {"batch.ramp.steps"},
    {"evaluation.name", kRefused, "a data.name other than \"mix\"", [](R r) { return r.data.name != kMixName; }},
    {"evaluation.path", kRefused, "a data.name other than \"mix\"", [](R r) { return r.data.name != kMixName; }},
};

constexpr KeyRule kLayoutRules[] = {
    {"layout.style"},
    {"layout.dp"},
    {"layout.pp"},
    {"layout.schedule", kRefused, "layout.style = \"mesh\" or \"auto\"", has_axes},
    {"layout.chunks", kRefused, "layout.schedule = \"interleaved\"", [](R r) { return r.layout.schedule == "interleaved"; }},
    {"layout.stages", kRefused, "a layout.style other than \"master\"", [](R r) { return r.layout.style != "master"; }},
    {"layout.stage_gb", kRefused, "layout.stages = \"auto\"", [](R r) { return r.layout.stages == "auto" && has_axes(r); }},
    {"layout.schedule_activations", kRefused, "layout.schedule = \"auto\"", [](R r) { return r.layout.schedule == "auto"; }},
    {"layout.schedule_file", kRefused, "layout.schedule = \"csv\"", [](R r) { return r.layout.schedule == "csv"; }},
    {"layout.profile", kRefused, "a layout.style other than \"master\"", [](R r) { return r.layout.style != "master"; }},
    {"layout.shard"},
    {"layout.shard_level"},
    {"layout.reshard_after_forward", kRefused, "layout.shard_level = \"parameters\"",
     [](R r) { return is_sharded(r, "parameters"); }},
    {"layout.inner_shards", kPlanned, "layout.shard_level = \"parameters\"",
     [](R r) { return is_sharded(r, "parameters") && r.layout.reshard_after_forward; }},
    {"layout.prefetch", kRefused, "layout.shard_level = \"gradients\" or \"parameters\"",
     [](R r) { return is_sharded(r, "gradients"); }},
    {"layout.gathered_mb", kRefused, "layout.shard_level = \"parameters\"", [](R r) { return is_sharded(r, "parameters"); }},
    {"layout.recompute"},
    {"layout.recompute_every", kRefused, "layout.recompute = \"blocks\"", [](R r) { return r.layout.recompute == "blocks"; }},
    {"layout.loss_chunk", kRefused, "tokens", [](R r) { return reads_tokens(r.model); }},
    {"layout.precision"},
    {"layout.reduction"},
    {"layout.offload_optimizer"},
    {"layout.offload_parameters", kPlanned, "layout.shard_level = \"parameters\"",
     [](R r) { return is_sharded(r, "parameters"); }},
    {"layout.offload_activations", kPlanned, "layout.recompute = \"blocks\"",
     [](R r) { return r.layout.recompute == "blocks"; }},
    {"layout.offload_folder", kStands},
    {"layout.cp"},
    {"layout.tp"},
    {"layout.context_attention", kStands},
    {"layout.sync_batch_norm", kPlanned, "a model that has BatchNorm",
     [](R r) { return r.model.name == "resnet" && r.model.norm == "batch"; }},
    {"layout.sequence_parallel", kStands},
    {"layout.tp_chunks", kStands},
    {"layout.backend"},
    {"layout.across_hosts", kRefused, "layout.backend = \"auto\" on CPUs",
     [](R r) { return r.layout.backend == "auto" && r.run.device != "cuda"; }},
    {"layout.bucket_mb", kRefused, "layout.shard_level = \"none\"", [](R r) { return r.layout.shard_level == "none"; }},
};

constexpr KeyRule kOptimizerRules[] = {
    {"optimizer.name"},
    {"optimizer.lr"},
    {"optimizer.scale_lr"},
    {"optimizer.warmup_from", kRefused, "optimizer.scale_lr and optimizer.warmup",
     [](R r) { return r.optimizer.scale_lr != "none" && static_cast<bool>(r.optimizer.warmup); }},
    {"optimizer.warmup"},
    {"optimizer.decay"},
    {"optimizer.final_lr", kStands},
    {"optimizer.decay_every", kStands},
    {"optimizer.decay_factor", kStands},
    {"optimizer.weight_decay"},
    {"optimizer.beta1", kStands},
    {"optimizer.beta2", kStands},
    {"optimizer.alpha", kStands},
    {"optimizer.eps", kStands},
    {"optimizer.momentum", kStands},
    {"optimizer.nesterov", kStands},
    {"optimizer.trust", kStands},
    {"optimizer.trust_limit", kStands},
    {"optimizer.matrix_rate", kStands},
    {"optimizer.ns_steps", kStands},
    {"optimizer.ns_eps", kStands},
    {"optimizer.adam_lr", kStands},
    {"optimizer.beta2_decay", kStands},
    {"optimizer.min_rms", kStands},
    {"optimizer.update_clip", kStands},
    {"optimizer.groups.names"},
    {"optimizer.groups.lr_factor"},
    {"optimizer.groups.weight_decay"},
    {"optimizer.groups.muon", kRefused, "optimizer.name = \"muon\"", [](R r) { return r.optimizer.name == "muon"; }},
    {"optimizer.groups.frozen"},
    {"optimizer.clip"},
    {"optimizer.ema"},
    {"optimizer.ema_warmup", kRefused, "optimizer.ema", [](R r) { return r.optimizer.ema > 0.0; }},
};

constexpr KeyRule kRunRules[] = {
    {"run.steps"},
    {"run.epochs"},
    {"run.samples"},
    {"run.tokens"},
    {"run.evaluate_every"},
    {"run.evaluate", kRefused, "optimizer.ema", [](R r) { return r.optimizer.ema > 0.0; }},
    {"run.target", kRefused, "run.evaluate_every", [](R r) { return static_cast<bool>(r.run.evaluate_every); }},
    {"run.seed"},
    {"run.threads"},
    {"run.reproducible_slots"},
    {"run.reproducible_tp"},
    {"run.noise_scale"},
    {"run.device"},
    {"run.hardware"},
    {"run.graph"},
    {"run.timeout_s"},
    {"run.ports"},
    {"run.restarts"},
    {"run.name"},
    {"run.folder"},
    {"run.log_every", kRefused, "run.folder or save.folder", keeps_records},
    {"run.tensorboard", kRefused, "run.folder or save.folder on disk", keeps_files},
    {"run.csv", kRefused, "run.folder or save.folder on disk", keeps_files},
    {"run.histograms_every", kRefused, "run.tensorboard", [](R r) { return r.run.tensorboard && keeps_files(r); }},
    {"run.audit_every"},
    {"run.stop_on"},
    {"run.resume"},
    {"save.folder"},
    {"save.every", kRefused, "save.folder", has_folder},
    {"save.keep", kRefused, "save.folder", has_folder},
    {"save.keep_every", kRefused, "save.folder and a save.keep above 0", [](R r) { return has_folder(r) && r.save.keep > 0; }},
    {"save.keep_best", kRefused, "save.folder and a save.keep above 0", [](R r) { return has_folder(r) && r.save.keep > 0; }},
    {"save.upload", kRefused, "save.folder", has_folder},
    {"save.on_end", kRefused, "save.folder", has_folder},
    {"save.memory_every"},  // with restarts, also a command-line option: whoever starts the run checks it
    {"save.deadline_s", kRefused, "save.folder", has_folder},
};

/// Turns "data.mix.2.path" into "data.mix.path".
std::string without_numbers(std::string_view key) {
  std::string plain;
  for (size_t begin = 0; begin <= key.size();) {
    const size_t end = std::min(key.find('.', begin), key.size());
    const std::string_view part = key.substr(begin, end - begin);
    const bool is_number =
        !part.empty() && std::all_of(part.begin(), part.end(), [](unsigned char c) { return std::isdigit(c); });
    if (!is_number && !plain.empty()) plain += '.';
    if (!is_number) plain += part;
    begin = end + 1;
  }
  return plain;
}

}  // namespace

const KeyRule* key_rule(std::string_view key) {
  const std::string plain = without_numbers(key);
  const KeyRule* found = nullptr;
  const auto look_in = [&](const auto& rules) {
    for (const KeyRule& rule : rules) {
      if (rule.key == plain) found = &rule;
    }
  };
  look_in(kModelRules);
  look_in(kDataRules);
  look_in(kLayoutRules);
  look_in(kOptimizerRules);
  look_in(kRunRules);
  return found;
}

std::vector<std::string> unread_keys(const Recipe& recipe) {
  static const std::map<std::string, std::string> unset = recipe_values(Recipe());
  std::vector<std::string> keys;
  for (const auto& [key, value] : recipe_values(recipe)) {
    const auto left_out = unset.find(key);
    if (left_out == unset.end() || left_out->second == value) continue;  // the key of a part is checked with the part
    const KeyRule* const rule = key_rule(key);
    if (rule == nullptr || rule->is_read == nullptr) continue;
    const bool is_refused = rule->unread == Unread::refused || rule->unread == Unread::planned;
    if (is_refused && !rule->is_read(recipe)) keys.push_back(key);
  }
  return keys;
}

void check_keys_are_read(const Recipe& recipe) {
  for (const std::string& key : unread_keys(recipe)) {
    const KeyRule& rule = *key_rule(key);
    if (rule.unread != Unread::refused) continue;
    fail(recipe, "{} is read only with {}; set that too, or leave it out", key, rule.readers);
  }
}

}  // namespace weft
