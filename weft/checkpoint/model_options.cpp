#include "weft/checkpoint/model_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "weft/base/error.h"
#include "weft/base/printable.h"

namespace weft {

namespace {

using OptionsJson = nlohmann::ordered_json;

constexpr const char* kMostTokens = "context";  // limits sample length only; not compared
constexpr const char* kGraph = "graph";         // the digest of an exported model's file, which model.path names

}  // namespace

std::string model_options_text(const std::vector<ModelOption>& options) {
  OptionsJson json = OptionsJson::object();
  for (const ModelOption& option : options) json[option.name] = option.value;
  return json.dump(-1, ' ', false, OptionsJson::error_handler_t::replace);
}

std::vector<ModelOption> parse_model_options(const std::string& text, const std::string& where) {
  const OptionsJson json = OptionsJson::parse(text, nullptr, /*allow_exceptions=*/false);
  const bool good = json.is_object() && std::all_of(json.begin(), json.end(), [](const auto& v) { return v.is_string(); });
  if (!good) throw InputError(fmt::format("{}: its model options are damaged: {}", where, shortened(text)));
  std::vector<ModelOption> options;
  for (const auto& [name, value] : json.items()) options.push_back({name, value.get<std::string>()});
  return options;
}

std::map<std::string, std::string> weights_metadata(const std::vector<ModelOption>& options) {
  std::map<std::string, std::string> metadata = {{"format", "pt"}};
  if (!options.empty()) metadata[kModelMetadata] = model_options_text(options);
  return metadata;
}

bool shows_in_tensors(const std::string& option) {
  static const std::set<std::string> known = {"layers",   "depth",      "width",          "ffn", "vocabulary", "classes",
                                              "channels", "image_size", "tied_embeddings"};
  return known.count(option) > 0;
}

std::vector<std::string> option_differences(const std::vector<ModelOption>& there, const std::vector<ModelOption>& here,
                                            bool without_shapes) {
  std::vector<std::string> lines;
  if (there.empty() || here.empty()) return lines;
  for (const auto& [name, value] : there) {
    if (name == kMostTokens || (without_shapes && shows_in_tensors(name))) continue;
    const auto own =
        std::find_if(here.begin(), here.end(), [&name = name](const ModelOption& option) { return option.name == name; });
    if (own == here.end()) {
      lines.push_back(fmt::format("model.{} is {} there, not an option of this model", name, value));
    } else if (own->value != value) {
      lines.push_back(name == kGraph
                          ? fmt::format("model.path has another graph: its digest is {} there, {} here", value, own->value)
                          : fmt::format("model.{} is {} there, {} here", name, value, own->value));
    }
    if (name == "name" && !lines.empty()) break;  // another kind of model: the rest is not comparable
  }
  return lines;
}

std::string option_value(const std::vector<ModelOption>& options, const std::string& name) {
  for (const ModelOption& option : options) {
    if (option.name == name) return option.value;
  }
  return {};
}

}  // namespace weft
