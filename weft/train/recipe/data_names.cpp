#include "weft/train/recipe/data_names.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "weft/base/error.h"
#include "weft/base/printable.h"

namespace weft {

namespace {

constexpr NamedData kData[] = {{"fashion-mnist", false, 1, false}, {"images", false, 1, true},
                               {"cifar10", false, 3, true},        {"cifar100", false, 3, true},
                               {"image-folder", false, 0, true},   {"webdataset", false, 0, true},
                               {"text", true, 0, false},           {"tokens", true, 0, true},
                               {"jsonl", true, 0, true},           {kMixName, false, 0, false}};

}  // namespace

std::vector<std::string> data_names() {
  std::vector<std::string> names;
  for (const NamedData& data : kData) names.emplace_back(data.name);
  return names;
}

const NamedData& named_data(const std::string& name) {
  for (const NamedData& data : kData) {
    if (data.name == name) return data;
  }
  throw InputError(fmt::format("data.name is '{}'; it must be one of {}", shortened(name), fmt::join(data_names(), ", ")));
}

}  // namespace weft
