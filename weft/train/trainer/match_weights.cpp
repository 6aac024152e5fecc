#include "weft/train/trainer/match_weights.h"

#include <ATen/ops/equal.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fnmatch.h>

#include <algorithm>
#include <set>
#include <string_view>

#include "weft/base/error.h"
#include "weft/base/printable.h"
#include "weft/base/units.h"
#include "weft/checkpoint/model_options.h"
#include "weft/checkpoint/weights/model_config.h"

namespace weft {
namespace {

constexpr std::string_view kOtherClasses =
    "with other classes or another vocabulary, model.weights_skip keeps such tensors random";

std::string shape_text(const std::vector<int64_t>& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

/// Joins the first few lines as clauses of one.
std::string clauses(std::vector<std::string> lines) {
  constexpr size_t kMost = 4;
  const size_t more = lines.size() > kMost ? lines.size() - kMost : 0;
  lines.resize(lines.size() - more);
  return fmt::format("{}{}", fmt::join(lines, "; "), more > 0 ? fmt::format("; and {} more", more) : "");
}

std::string parent_of(const std::string& name) {
  const size_t dot = name.rfind('.');
  return dot == std::string::npos ? std::string() : name.substr(0, dot);
}

bool fits(const std::string& name, const std::string& pattern) { return fnmatch(pattern.c_str(), name.c_str(), 0) == 0; }

/// A few patterns for model.weights_skip that match all `names` and none of `others`: a name itself, "model.layers.1.*",
/// "*.k.bias"; of patterns that match equally many, the narrowest. Empty if a few are not enough.
std::vector<std::string> patterns_of(std::vector<std::string> names, const std::vector<std::string>& others) {
  constexpr size_t kMost = 6;
  std::vector<std::string> patterns;
  while (!names.empty()) {
    if (patterns.size() == kMost) return {};
    const std::string name = names.front();
    std::vector<std::string> candidates = {name};
    for (size_t dot = name.rfind('.'); dot != std::string::npos && dot > 0; dot = name.rfind('.', dot - 1))
      candidates.push_back(name.substr(0, dot + 1) + "*");
    for (size_t dot = name.find('.'); dot != std::string::npos; dot = name.find('.', dot + 1))
      candidates.push_back(fmt::format("*{}", name.substr(dot)));
    std::string best;
    std::ptrdiff_t most = 0;
    for (const std::string& pattern : candidates) {
      const auto is_hit = [&](const std::string& one) { return fits(one, pattern); };
      const std::ptrdiff_t count = std::count_if(names.begin(), names.end(), is_hit);
      if (count <= most || std::any_of(others.begin(), others.end(), is_hit)) continue;
      best = pattern;
      most = count;
    }
    if (most == 0) return {};
    std::erase_if(names, [&](const std::string& one) { return fits(one, best); });
    patterns.push_back(std::move(best));
  }
  return patterns;
}

class Matcher {
 public:
  Matcher(WeightsFile& file, const std::string& path, const FlatModel& model, const WeightsOptions& options)
      : file_(file), path_(path), model_(model.model()), options_(options), fits_(options.skip.size(), false) {
    for (const Param& param : model.params()) shapes_[param.name] = param.shape;
    for (const ModelBuffer& buffer : model.buffers()) {
      if (!buffer.saved) {
        unsaved_.insert(buffer.name);
        continue;
      }
      shapes_[buffer.name] = buffer.shape;
      if (buffer.counts) may_lack_.insert(buffer.name);  // keeps its value if the file lacks it
    }
    for (const auto& [name, shape] : shapes_) {
      if (const size_t dot = name.find('.'); dot != std::string::npos) trees_.insert(name.substr(0, dot));
    }
    match_.report.notes = file.origin().notes;
  }

  WeightsMatch match() {
    refuse_input_first_matrices();
    compare_saved_options();
    map_names();
    match_parameters();
    sort_out_the_rest();
    for (size_t i = 0; i < fits_.size(); ++i) {
      if (fits_[i]) continue;
      throw InputError(
          fmt::format("model.weights_skip: '{}' matches no parameter of model '{}' and no tensor of {}; the first is '{}'",
                      shortened(options_.skip[i]), model_.name, path_, shapes_.empty() ? "" : shapes_.begin()->first));
    }
    return std::move(match_);
  }

 private:
  [[noreturn]] void fail(const std::string& text) const { throw InputError(fmt::format("{}: {}", path_, text)); }

  /// Hugging Face's GPT-2 uses its own layer, Conv1D, with weights [in, out]: their shape shows it, unless they are square.
  void refuse_input_first_matrices() const {
    constexpr std::string_view kQueryKeyValue = "attn.c_attn.weight";
    const auto turned = [](const std::vector<int64_t>& s, size_t in) { return s.size() == 2 && s[1 - in] == 3 * s[in]; };
    const bool has_such = std::any_of(shapes_.begin(), shapes_.end(), [&](const auto& entry) {
      return entry.first.ends_with(kQueryKeyValue) && turned(entry.second, 1);
    });
    if (!has_such) return;
    for (const std::string& name : file_.names()) {
      if (!name.ends_with(kQueryKeyValue) || !turned(file_.shape(name), 0)) continue;
      fail(
          fmt::format("'{}' is {}: Hugging Face's GPT-2 stores matrices as [in, out], weft as [out, in]; transpose "
                      "attn.c_attn, attn.c_proj, mlp.c_fc and mlp.c_proj of each layer and save them again",
                      name, shape_text(file_.shape(name))));
    }
  }

  void compare_saved_options() {
    const WeightsOrigin& origin = file_.origin();
    const bool without_shapes = !options_.skip.empty();
    std::vector<ModelOption> saved = origin.options;
    std::erase_if(saved, [](const ModelOption& option) { return option.name == "loss"; });  // weights suit any
    const std::vector<std::string> lines = option_differences(saved, model_.options, without_shapes);
    if (!lines.empty()) {
      const bool only_shapes = option_differences(saved, model_.options, true).empty();
      fail(fmt::format("{}: these are the weights of another model; set its options{}", clauses(lines),
                       only_shapes ? fmt::format("; {}", kOtherClasses) : ""));
    }
    if (origin.config.empty()) return;
    ConfigComparison config = compare_config(origin.config, model_.options, without_shapes);
    if (!config.differences.empty()) {
      throw InputError(fmt::format("{}: {}", origin.config, clauses(std::move(config.differences))));
    }
    for (const std::string& note : config.notes) {
      match_.report.notes.push_back(note.starts_with(origin.config) ? note : fmt::format("{}: {}", origin.config, note));
    }
  }

  std::string in_model(const std::string& name) {
    const std::string mapped = options_.names.in_model(name);
    if (mapped != name || shapes_.count(name) > 0) return mapped;
    const std::string plain = without_wrappers(name);
    if (plain != name && ++unwrapped_ == 1) first_unwrapped_ = name;
    return options_.names.in_model(plain);
  }

  void map_names() {
    for (const std::string& name : file_.names()) {
      const auto [entry, is_new] = left_.emplace(in_model(name), name);
      if (is_new) continue;
      fail(
          fmt::format("'{}' and '{}' both become the model's '{}'; fix model.weight_names", entry->second, name, entry->first));
    }
    if (unwrapped_ == 0) return;
    match_.report.notes.push_back(fmt::format("parts that PyTorch wrappers add are ignored in {}, first in '{}'",
                                              counted(unwrapped_, "name"), shortened(first_unwrapped_)));
  }

  bool is_skipped(const std::string& name) {
    bool any = false;
    for (size_t i = 0; i < options_.skip.size(); ++i) {
      if (!fits(name, options_.skip[i])) continue;
      fits_[i] = any = true;
    }
    return any;
  }

  void match_parameters() {
    std::vector<std::string> missing, misshapen;
    for (const auto& [name, shape] : shapes_) {
      const auto found = left_.find(name);
      if (is_skipped(name)) {
        match_.report.skipped.push_back(name);
      } else if (found == left_.end()) {
        if (may_lack_.count(name) == 0) missing.push_back(name);
        continue;
      } else {
        match_.in_file[name] = found->second;
        if (file_.shape(found->second) != shape) misshapen.push_back(shape_difference(name, found->second));
      }
      if (found != left_.end()) left_.erase(found);
    }
    if (!missing.empty()) fail(what_is_missing(missing));
    if (!misshapen.empty()) {
      fail(fmt::format("{}; {}", clauses(misshapen), kOtherClasses));
    }
  }

  std::string shape_difference(const std::string& name, const std::string& theirs) const {
    const std::vector<int64_t>&here = shapes_.at(name), there = file_.shape(theirs);
    const bool turned = here.size() == 2 && there.size() == 2 && here[0] == there[1] && here[1] == there[0];
    return fmt::format("'{}' is {} there, {} in the model{}", name, shape_text(there), shape_text(here),
                       turned ? ", whose matrices are [out, in]" : "");
  }

  std::string what_is_missing(const std::vector<std::string>& missing) const {
    const std::string& first = missing.front();
    const std::string more = missing.size() > 1 ? fmt::format(" and {} more", missing.size() - 1) : "";
    if (first == "lm_head.weight" && option_value(model_.options, "tied_embeddings") == "false") {
      return fmt::format("it has no '{}'{}; if the embeddings are tied, set model.tied_embeddings = true", first, more);
    }
    for (const auto& [name, theirs] : left_) {
      if (!theirs.ends_with("." + first)) continue;
      return fmt::format("it has no '{}'{}, but '{}'; map it with a JSON model.weight_names file: {{\"{}.*\": \"*\"}}", first,
                         more, theirs, theirs.substr(0, theirs.size() - first.size() - 1));
    }
    return fmt::format("it has no '{}'{}; map the names with model.weight_names, or keep it random with model.weights_skip",
                       first, more);
  }

  /// Returns true for derived data that other tools save: batch counters, masks, frequencies of rotary positions.
  bool is_derived(const std::string& name) const {
    const std::string layer = parent_of(name);
    const bool is_mask = (name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias")) &&
                         shapes_.count(layer + ".weight") == 0 && left_.count(layer + ".weight") == 0;
    return is_mask || name.ends_with("num_batches_tracked") || name.ends_with("rotary_emb.inv_freq");
  }

  /// Returns true if the tensor belongs to a layer, or chain of layers, of the model, which would lose its effect. Outside all
  /// of them it may be another head, but a norm or scale cannot be.
  bool is_part_of_model(const std::string& name) const {
    if (const size_t dot = name.find('.'); dot != std::string::npos && trees_.count(name.substr(0, dot)) > 0) return true;
    const std::string layer = parent_of(name);
    const std::string word = layer.empty() ? name : layer;
    if (word.find('.') != std::string::npos) return false;
    const auto has = [&word](const char* part) { return word.find(part) != std::string::npos; };
    return has("norm") || word.starts_with("ln") || has("_ln") || (layer.empty() && (has("scale") || has("bias")));
  }

  /// Returns true for separate logit weights equal to the embeddings, if the model ties them.
  bool is_tied(const std::string& name, const std::string& theirs) {
    if (name != "lm_head.weight" || option_value(model_.options, "tied_embeddings") != "true") return false;
    for (const char* tokens : {"model.embed_tokens.weight", "wte.weight"}) {
      const auto found = match_.in_file.find(tokens);
      if (found == match_.in_file.end()) continue;
      if (file_.shape(theirs) == file_.shape(found->second) && at::equal(file_.read(theirs), file_.read(found->second)))
        return true;
      fail(fmt::format("its '{}' differs from its '{}', which this model ties; set model.tied_embeddings = false", theirs,
                       found->second));
    }
    return false;
  }

  void sort_out_the_rest() {
    std::vector<std::string> lacking, others;
    for (const auto& [name, shape] : shapes_) others.push_back(name);
    for (const auto& [name, theirs] : left_) {
      if (is_skipped(name)) continue;
      const bool lacks = !unsaved_.contains(name) && !is_derived(name) && !is_tied(name, theirs) && is_part_of_model(name);
      (lacks ? lacking : others).push_back(name);
      if (!lacks) match_.report.unused.push_back(theirs);
    }
    if (lacking.empty()) return;
    const std::string more = lacking.size() > 1 ? fmt::format(" and {} more", lacking.size() - 1) : "";
    const std::string first = left_.at(lacking.front());
    const std::vector<std::string> patterns = patterns_of(std::move(lacking), others);
    fail(fmt::format("it has '{}'{}, which model '{}' lacks, so results would differ; {}", first, more, model_.name,
                     patterns.empty() ? "these are the weights of another model; set its options"
                                      : fmt::format("model.weights_skip = \"{}\" leaves it out", fmt::join(patterns, ", "))));
  }

  WeightsFile& file_;
  const std::string& path_;
  const Model& model_;
  const WeightsOptions& options_;
  std::map<std::string, std::vector<int64_t>> shapes_;  ///< of the model's parameters and buffers
  std::set<std::string> may_lack_;                      ///< subset of these
  std::set<std::string> unsaved_;                       ///< buffers that keep their values, whatever the file has
  std::set<std::string> trees_;                         ///< first components of their names
  std::map<std::string, std::string> left_;             ///< by the model's name: tensors not matched so far
  std::vector<bool> fits_;                              ///< by skip pattern
  int64_t unwrapped_ = 0;
  std::string first_unwrapped_;
  WeightsMatch match_;
};

}  // namespace

WeightsMatch match_weights(WeightsFile& file, const std::string& path, const FlatModel& model, const WeightsOptions& options) {
  return Matcher(file, path, model, options).match();
}

}  // namespace weft
