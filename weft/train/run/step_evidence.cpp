#include "weft/train/run/step_evidence.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "weft/base/error.h"
#include "weft/checkpoint/atomic_file.h"
#include "weft/checkpoint/format/checkpoint_folder.h"
#include "weft/checkpoint/safetensors.h"
#include "weft/comm/world_hosts.h"
#include "weft/data/loader.h"
#include "weft/recipe/read/recipe_paths.h"

namespace weft {

namespace {

std::string json_of(const BadStep& bad) {
  nlohmann::json json = {{"step", bad.step() + 1}, {"error", bad.wrong()}, {"findings", nlohmann::json::array()}};
  for (const Finding& finding : bad.findings()) json["findings"].push_back(nlohmann::json::parse(finding_json(finding)));
  return json.dump(2) + "\n";
}

/// The micro-batch that the finding is of, or this rank's first.
void save_batch(const std::string& path, const BadStep& bad, const std::vector<Batch>& taken) {
  const int64_t sample = bad.finding()->sample;
  auto found = std::find_if(taken.begin(), taken.end(), [sample](const Batch& batch) {
    const int64_t size = batch.target.defined() && batch.target.dim() > 0 ? batch.target.size(0) : 1;
    return sample >= batch.first_sample && sample < batch.first_sample + size;
  });
  if (found == taken.end()) found = taken.begin();
  std::vector<NamedTensor> tensors;
  for (size_t i = 0; i < found->inputs.size(); ++i) {
    if (found->inputs[i].defined()) tensors.push_back({fmt::format("input.{}", i), found->inputs[i]});
  }
  if (found->target.defined()) tensors.push_back({"target", found->target});
  save_safetensors(path, tensors, {{"first_sample", std::to_string(found->first_sample)}});
}

/// Removes what earlier failures left, but not of the same step: a failed step is kept once.
void remove_others(const std::filesystem::path& folder) {
  std::error_code code;
  for (const auto& entry : std::filesystem::directory_iterator(folder.parent_path(), code)) {
    const bool is_other = checkpoint_step(entry.path().filename().string()) && entry.path() != folder;
    if (is_other) std::filesystem::remove_all(entry.path(), code);
  }
}

/// Writes what one rank writes; returns why it could not.
std::string write_own(const std::string& folder, const World& world, const BadStep& bad, const std::vector<Batch>& taken) {
  const int first = bad.finding() ? bad.finding()->rank : 0;
  try {
    if (world.rank() == 0 || world.rank() == first) std::filesystem::create_directories(folder);
    if (world.rank() == first && bad.finding() && !taken.empty()) save_batch(folder + "/" + kBatchFile, bad, taken);
    if (world.rank() == 0) {
      remove_others(folder);
      write_file(folder + "/" + kFindingFile, json_of(bad));
    }
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

}  // namespace

std::string failed_folder(const Recipe& recipe) {
  const std::string folder = records_folder(recipe);
  return folder.empty() ? "" : (std::filesystem::path(folder) / kFailedFolder).string();
}

std::string keep_evidence(const Recipe& recipe, const World& world, Trainer& trainer, const BadStep& bad,
                          const std::vector<Batch>& taken, std::optional<int64_t> saved_step) {
  const std::string above = failed_folder(recipe);
  if (above.empty()) return "";
  const std::string name = checkpoint_name(bad.step() + 1), folder = above + "/" + name;
  const std::string own = write_own(folder, world, bad, taken);
  std::string text = fmt::format("evidence in {}", folder);
  if (!own.empty()) text = fmt::format("evidence not kept: {}", own);
  const std::vector<std::string> hosts = hosts_of(world);
  const bool is_one_host = std::set<std::string>(hosts.begin(), hosts.end()).size() < 2;
  const bool is_shared = is_one_host || above == (std::filesystem::path(recipe.save.folder) / kFailedFolder).string();
  bool is_saved = saved_step == bad.step();
  try {
    if (is_saved && trainer.is_saving()) trainer.finish_save();
  } catch (const std::exception&) {
    is_saved = false;
  }
  if (is_saved || !is_shared) return text;
  try {
    trainer.save(folder + "/" + checkpoint_name(bad.step()), {.replace = true});
  } catch (const std::exception& error) {
    text += fmt::format("; the state before the step is not kept: {}", error.what());
  }
  return text;
}

std::function<std::string(int64_t position)> sample_names(const std::shared_ptr<const Dataset>& data, uint64_t seed) {
  return [sampler = sampler_of(*data, seed)](int64_t position) {
    return fmt::format("sample {} of the data", sampler.sample(position));
  };
}

std::vector<std::pair<std::string, std::string>> finding_details(const BadStep& bad) {
  std::vector<std::pair<std::string, std::string>> details = {{"kind", "not_finite"},
                                                              {"failed_step", std::to_string(bad.step() + 1)}};
  if (!bad.finding()) return details;
  const nlohmann::json finding = nlohmann::json::parse(finding_json(*bad.finding()));
  for (const auto& [key, value] : finding.items()) {
    const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
    if (!text.empty() && text != "-1" && text != "[]" && key != "text") details.emplace_back("finding." + key, text);
  }
  return details;
}

}  // namespace weft
