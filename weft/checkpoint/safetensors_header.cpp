#include "weft/checkpoint/safetensors_header.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "weft/base/error.h"

namespace weft {
namespace {

using Json = nlohmann::json;

constexpr std::pair<at::ScalarType, const char*> kTypes[] = {
    {at::kDouble, "F64"}, {at::kFloat, "F32"}, {at::kHalf, "F16"},         {at::kBFloat16, "BF16"},
    {at::kLong, "I64"},   {at::kInt, "I32"},   {at::kShort, "I16"},        {at::kChar, "I8"},
    {at::kByte, "U8"},    {at::kBool, "BOOL"}, {at::kComplexFloat, "C64"},
};

constexpr const char* kMetadata = "__metadata__";

[[noreturn]] void malformed(const std::string& path, const std::string& what) {
  throw InputError(fmt::format("{}: not a valid safetensors file: {}; get or save it again", path, what));
}

/// Name from a file, quoted and shortened to fit one line of an error.
std::string shown(const std::string& name) {
  const std::string quoted = Json(name).dump(-1, ' ', true, Json::error_handler_t::replace);
  return quoted.size() <= 200 ? quoted : quoted.substr(0, 200) + "...";
}

int64_t whole_number(const Json& value, const std::string& path, const std::string& name) {
  constexpr uint64_t kLargest = uint64_t{1} << 62;
  if (!value.is_number_unsigned() || value.get<uint64_t>() > kLargest) {
    malformed(path, fmt::format("tensor {} has a size or offset that is not a whole number", shown(name)));
  }
  return value.get<int64_t>();
}

/// Accepts types that weft lacks: tensors of these may accompany wanted ones, and only reading one is an error.
void parse_type(const Json& entry, const std::string& path, StoredTensor& out) {
  const auto found = entry.find("dtype");
  if (found == entry.end() || !found->is_string()) malformed(path, fmt::format("tensor {} has no dtype", shown(out.name)));
  if (const auto type = type_of_safetensors(found->get_ref<const std::string&>())) {
    out.type = *type;
  } else {
    out.other_type = shown(found->get<std::string>());
  }
}

StoredTensor parse_tensor(const std::string& name, const Json& entry, const std::string& path) {
  StoredTensor out;
  out.name = name;
  if (!entry.is_object()) malformed(path, fmt::format("tensor {} is not a JSON object", shown(name)));
  parse_type(entry, path, out);
  const auto shape = entry.find("shape"), offsets = entry.find("data_offsets");
  if (shape == entry.end() || !shape->is_array()) malformed(path, fmt::format("tensor {} has no shape", shown(name)));
  if (offsets == entry.end() || !offsets->is_array() || offsets->size() != 2) {
    malformed(path, fmt::format("tensor {} has no data_offsets", shown(name)));
  }
  out.begin = whole_number((*offsets)[0], path, name);
  out.end = whole_number((*offsets)[1], path, name);
  const auto element = static_cast<int64_t>(c10::elementSize(out.type));
  int64_t bytes = element, bound = element;  // counts sizes of 0 as 1, so that strides cannot overflow either
  for (const Json& size : *shape) {
    out.shape.push_back(whole_number(size, path, name));
    if (__builtin_mul_overflow(bound, std::max<int64_t>(out.shape.back(), 1), &bound)) {
      malformed(path, fmt::format("tensor {} is too large", shown(name)));
    }
    bytes *= out.shape.back();
  }
  if (out.end < out.begin || (out.other_type.empty() && out.end - out.begin != bytes)) {
    malformed(path, fmt::format("tensor {} of {} bytes has data_offsets [{}, {})", shown(name), bytes, out.begin, out.end));
  }
  return out;
}

std::map<std::string, std::string> parse_metadata(const Json& entry, const std::string& path) {
  std::map<std::string, std::string> out;
  if (entry.is_null()) return out;
  if (!entry.is_object()) malformed(path, "its metadata is not a JSON object");
  for (const auto& [key, value] : entry.items()) {
    if (!value.is_string()) malformed(path, fmt::format("its metadata {} is not a string", shown(key)));
    out[key] = value.get<std::string>();
  }
  return out;
}

void check_coverage(const std::vector<StoredTensor>& tensors, int64_t data_bytes, const std::string& path) {
  std::vector<std::pair<int64_t, int64_t>> ranges;
  ranges.reserve(tensors.size());
  for (const StoredTensor& tensor : tensors) ranges.emplace_back(tensor.begin, tensor.end);
  std::sort(ranges.begin(), ranges.end());
  int64_t at = 0;
  for (const auto& [begin, end] : ranges) {
    if (begin != at)
      malformed(path, fmt::format("its tensors leave a gap or overlap at byte {} of the data", std::min(begin, at)));
    at = end;
  }
  if (at > data_bytes) {
    throw InputError(fmt::format("{}: truncated: its header says {} bytes of values, it has {}; get or save it again", path, at,
                                 data_bytes));
  }
  if (at < data_bytes) malformed(path, fmt::format("{} bytes follow the last tensor", data_bytes - at));
}

}  // namespace

std::optional<at::ScalarType> type_of_safetensors(std::string_view name) {
  for (const auto& [type, text] : kTypes) {
    if (name == text) return type;
  }
  return std::nullopt;
}

const char* safetensors_type(at::ScalarType type) {
  for (const auto& [known, text] : kTypes) {
    if (known == type) return text;
  }
  return nullptr;
}

std::string write_header(const SafetensorsHeader& header, const std::string& path) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  if (!header.metadata.empty()) json[kMetadata] = header.metadata;
  std::set<std::string> names;
  for (const StoredTensor& tensor : header.tensors) {
    if (tensor.name.empty() || tensor.name == kMetadata) {
      throw InputError(fmt::format("{}: cannot save a tensor named \"{}\"; rename it", path, tensor.name));
    }
    if (!names.insert(tensor.name).second) {
      throw InputError(fmt::format("{}: cannot save two tensors named {}; rename one", path, shown(tensor.name)));
    }
    json[tensor.name] = {
        {"dtype", safetensors_type(tensor.type)}, {"shape", tensor.shape}, {"data_offsets", {tensor.begin, tensor.end}}};
  }
  std::string text;
  try {
    text = json.dump();
  } catch (const nlohmann::json::type_error&) {
    throw InputError(fmt::format("{}: cannot save: a tensor's name or the metadata is not UTF-8; rename it", path));
  }
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
}

SafetensorsHeader read_header(const std::string& json, int64_t data_bytes, const std::string& path) {
  const Json parsed = Json::parse(json, nullptr, false);
  if (!parsed.is_object()) malformed(path, "its header is not a JSON object");
  SafetensorsHeader out;
  for (const auto& [name, entry] : parsed.items()) {
    if (name == kMetadata) {
      out.metadata = parse_metadata(entry, path);
    } else {
      out.tensors.push_back(parse_tensor(name, entry, path));
    }
  }
  check_coverage(out.tensors, data_bytes, path);
  return out;
}

}  // namespace weft
