#include "weft/checkpoint/weights/model_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>

#include "weft/base/file_error.h"
#include "weft/base/input_file.h"
#include "weft/base/printable.h"
#include "weft/checkpoint/model_options.h"
#include "weft/checkpoint/other_file.h"
#include "weft/checkpoint/weights/config_keys.h"

namespace weft {
namespace {

using ConfigJson = nlohmann::json;

constexpr int64_t kMostConfigBytes = int64_t{10} << 20;

/// Returns a value in ModelOption's form: numbers as short as possible, "10000" for 10000.0.
std::string text_of(const ConfigJson& value) {
  if (value.is_number_float()) return fmt::format("{}", value.get<double>());
  if (value.is_string()) return value.get<std::string>();
  return value.dump(-1, ' ', false, ConfigJson::error_handler_t::replace);
}

/// Parses the number in an option's text, which has the form of a recipe's value.
double number_of(const std::string& text) {
  double value = 0.0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

class Comparer {
 public:
  Comparer(const ConfigJson& config, const ConfigFamily& family, const std::vector<ModelOption>& model, bool without_shapes)
      : config_(config), family_(family), model_(model), without_shapes_(without_shapes) {}

  ConfigComparison result() {
    for (const ConfigOption& same : family_.same) compare(same);
    for (const FixedConfigKey& key : family_.fixed) compare(key);
    for (const FixedConfigKey& key : neutral_config_keys()) compare(key);
    if (std::string_view(family_.name) == "llama") {
      compare_rotation();
      compare_heads();
      compare_window();
    } else {
      compare_inner_width();
    }
    compare_length();
    list_unknown();
    return std::move(result_);
  }

 private:
  /// Returns the value of a key and records the key as compared; null if absent.
  const ConfigJson& value_of(const std::string& key) {
    static const ConfigJson kNone;
    asked_.insert(key);
    const auto found = config_.find(key);
    return found == config_.end() ? kNone : *found;
  }
  std::string own(const std::string& option) const { return option_value(model_, option); }

  void differs(const std::string& text) { result_.differences.push_back(text); }
  void lacks(const std::string& key, const ConfigJson& value) {
    differs(fmt::format("{} = {}, which model \"{}\" does not compute", key, shortened(value.dump(), 80), family_.name));
  }

  void compare(const ConfigOption& same) {
    const ConfigJson& value = value_of(same.key);
    const std::string there = value.is_null() ? same.absent : text_of(value);
    if (there.empty() || (without_shapes_ && shows_in_tensors(same.option))) return;
    compare_option(same.key, there, same.option);
  }
  void compare_option(const std::string& key, const std::string& there, const char* option) {
    const std::string here = own(option);
    if (there != here)
      differs(fmt::format("{} = {}, model.{} is {} (set model.{} = {})", key, there, option, here, option, there));
  }

  void compare(const FixedConfigKey& key) {
    const ConfigJson& value = value_of(key.key);
    if (value.is_null()) return;
    const auto same = [&value](const char* text) { return ConfigJson::parse(text) == value; };
    if (std::none_of(key.values.begin(), key.values.end(), same)) lacks(key.key, value);
  }

  /// Compares base and scaling of rotary angles, given in rope_parameters or in rope_theta and rope_scaling.
  void compare_rotation() {
    std::string theta = "10000";
    if (const ConfigJson& value = value_of("rope_theta"); !value.is_null()) theta = text_of(value);
    for (const char* key : {"rope_scaling", "rope_parameters"}) {
      const ConfigJson& value = value_of(key);
      if (value.is_null()) continue;
      if (!value.is_object()) {
        lacks(key, value);
        continue;
      }
      if (value.contains("rope_theta")) theta = text_of(value.at("rope_theta"));
      const ConfigJson type = value.value("rope_type", value.value("type", ConfigJson("default")));
      bool plain = type == "default";
      for (const auto& [name, entry] : value.items()) {
        plain = plain && (name == "rope_theta" || name == "rope_type" || name == "type" ||
                          (name == "partial_rotary_factor" && entry == 1.0));
      }
      if (!plain) lacks(key, value);
    }
    compare_option("rope_theta", theta, "rope_theta");
  }

  void compare_heads() {
    const ConfigJson& value = value_of("head_dim");
    if (value.is_null()) return;
    const double here = number_of(own("width")) / std::max(1.0, number_of(own("heads")));
    if (value.is_number() && value.get<double>() == here) return;
    differs(fmt::format("head_dim = {}, model.width / model.heads is {}", shortened(value.dump(), 40), here));
  }

  /// Compares the attention window: one at least as long as any sample equals full attention.
  void compare_window() {
    for (const auto& layer : value_of("layer_types")) {
      if (layer == "full_attention" || layer == "sliding_attention") continue;
      return lacks("layer_types", value_of("layer_types"));
    }
    const bool is_off = value_of("use_sliding_window") == false;
    value_of("max_window_layers");
    const ConfigJson& value = value_of("sliding_window");
    const bool is_mistral = config_.value("model_type", "") == "mistral" && !config_.contains("sliding_window");
    const double window = is_mistral ? 4096.0 : value.is_number() ? value.get<double>() : 0.0;
    if (is_off || window <= 0.0 || number_of(own("context")) <= window) return;
    differs(fmt::format("sliding_window = {}, which model \"{}\" does not compute (model.context <= {} is the same)", window,
                        family_.name, window));
  }

  void compare_inner_width() {
    const ConfigJson& value = value_of("n_inner");
    if (value.is_null() || (value.is_number() && value.get<double>() == 4.0 * number_of(own("width")))) return;
    lacks("n_inner", value);
  }

  void compare_length() {
    for (const char* key : family_.most_tokens) {
      const ConfigJson& value = value_of(key);
      if (!value.is_number() || number_of(own("context")) <= value.get<double>()) continue;
      result_.notes.push_back(fmt::format("{} = {}, less than model.context = {}", key, text_of(value), own("context")));
    }
  }

  void list_unknown() {
    std::vector<std::string> unknown;
    for (const auto& [key, value] : config_.items()) {
      if (asked_.count(key) == 0 && !is_harmless_config_key(key) && !value.is_null())
        unknown.push_back(fmt::format("{} = {}", shortened(key, 40), shortened(value.dump(), 40)));
    }
    constexpr size_t kMost = 5;
    const size_t more = unknown.size() > kMost ? unknown.size() - kMost : 0;
    unknown.resize(unknown.size() - more);
    if (unknown.empty()) return;
    result_.notes.push_back(fmt::format("not compared, unknown to weft: {}{}", fmt::join(unknown, ", "),
                                        more > 0 ? fmt::format(" and {} more", more) : ""));
  }

  const ConfigJson& config_;
  const ConfigFamily& family_;
  const std::vector<ModelOption>& model_;
  bool without_shapes_;
  std::set<std::string> asked_;
  ConfigComparison result_;
};

}  // namespace
ConfigComparison compare_config(const std::string& path, const std::vector<ModelOption>& model, bool without_shapes) {
  const std::string name = option_value(model, "name");
  const auto family =
      std::find_if(config_families().begin(), config_families().end(), [&](const ConfigFamily& f) { return name == f.name; });
  if (family == config_families().end()) {
    return {.notes = {fmt::format("{} is not compared: weft reads it for gpt and llama only", path)}};
  }
  const std::string text = read_text_file("the config of the weights", path, kMostConfigBytes);
  const ConfigJson config = ConfigJson::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!config.is_object()) {
    const std::string is = config.is_discarded() ? describe_foreign_file(text.substr(0, kHeadBytes)) : std::string();
    throw FileError(fmt::format("{}: it is {}, or remove it", path,
                                is.empty() || is.starts_with("text") ? "not a JSON object; get it again" : is));
  }
  const auto type = config.find("model_type");
  if (type == config.end() || !type->is_string()) {
    return {.notes = {fmt::format("{} is not compared: it has no \"model_type\"", path)}};
  }
  if (std::find(family->model_types.begin(), family->model_types.end(), type->get<std::string>()) ==
      family->model_types.end()) {
    return {.differences = {fmt::format("model_type = {}, which model \"{}\" does not compute (supported: {})",
                                        shortened(type->dump(), 80), name, fmt::join(family->model_types, ", "))}};
  }
  return Comparer(config, *family, model, without_shapes).result();
}

}  // namespace weft
