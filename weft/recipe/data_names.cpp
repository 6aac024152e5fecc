#include "weft/recipe/data_names.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "weft/base/error.h"
#include "weft/base/printable.h"

namespace weft {

namespace {

constexpr NamedData kData[] = {
    {.name = "fashion-mnist", .is_images = true, .channels = 1},
    {.name = "images", .is_images = true, .channels = 1, .needs_path = true},
    {.name = "cifar10", .is_images = true, .channels = 3, .needs_path = true},
    {.name = "cifar100", .is_images = true, .channels = 3, .needs_path = true},
    {.name = "image-folder", .is_images = true, .needs_path = true},
    {.name = "webdataset", .is_images = true, .needs_path = true, .is_files = true},
    {.name = kParquetName, .is_tokens = true, .is_images = true, .needs_path = true, .is_files = true, .has_columns = true},
    {.name = "text", .is_tokens = true},
    {.name = "tokens", .is_tokens = true, .needs_path = true},
    {.name = kJsonName, .is_tokens = true, .needs_path = true, .is_files = true, .has_columns = true},
    {.name = kArraysName, .is_arrays = true, .needs_path = true, .is_files = true},
    {.name = kMixName}};

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
