#include "weft/checkpoint/weights/exported_file.h"

#include <ATen/ops/clamp.h>
#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include "weft/base/file_error.h"
#include "weft/base/printable.h"
#include "weft/checkpoint/weights/exported_json.h"

namespace weft {
namespace {

using ExportedJson = nlohmann::ordered_json;

constexpr const char* kProgram = "models/model.json";
constexpr int64_t kMostProgramBytes = int64_t{1} << 30;

std::vector<int64_t> plain_sizes(const ExportedJson& sizes) {
  std::vector<int64_t> result;
  for (const ExportedJson& size : sizes) result.push_back(exported_integer(size.at("as_int")));
  return result;
}

bool is_contiguous(const std::vector<int64_t>& shape, const std::vector<int64_t>& strides) {
  __int128 expected = 1;
  if (strides.size() != shape.size()) return false;
  for (size_t d = shape.size(); d-- > 0;) {
    if (shape[d] > 1 && strides[d] != expected) return false;
    expected *= shape[d] > 0 ? shape[d] : 1;
  }
  return true;
}

/// Throws for a tensor whose elements are not those of its record, in order.
ExportedTensor tensor_from(const std::string& what, const std::string& folder, const ExportedJson& entry) {
  constexpr int64_t kStrided = 7;
  const ExportedJson& meta = entry.at("tensor_meta");
  const std::optional<at::ScalarType> type = exported_type(exported_integer(meta.at("dtype")));
  if (entry.at("use_pickle").get<bool>() || !type || exported_integer(meta.at("layout")) != kStrided) {
    throw FileError(fmt::format("{} is no plain tensor, or of a type that weft lacks; export a model of plain tensors", what));
  }
  ExportedTensor tensor{.record = folder + entry.at("path_name").get<std::string>(),
                        .type = *type,
                        .shape = plain_sizes(meta.at("sizes")),
                        .is_parameter = entry.at("is_param").get<bool>(),
                        .is_trained = entry.at("is_param").get<bool>() && meta.at("requires_grad").get<bool>()};
  if (!is_contiguous(tensor.shape, plain_sizes(meta.at("strides"))) || meta.at("storage_offset").at("as_int") != 0) {
    throw FileError(
        fmt::format("{} is a view of other memory; make it contiguous before exporting: "
                    "p.data = p.data.contiguous().clone()",
                    what));
  }
  return tensor;
}

}  // namespace

std::optional<at::ScalarType> exported_type(int64_t number) {
  constexpr at::ScalarType kTypes[] = {at::kByte,          at::kChar,  at::kShort,   at::kInt,         at::kLong,
                                       at::kHalf,          at::kFloat, at::kDouble,  at::kComplexHalf, at::kComplexFloat,
                                       at::kComplexDouble, at::kBool,  at::kBFloat16};  // from 1 on
  if (number < 1 || number > static_cast<int64_t>(std::size(kTypes))) return std::nullopt;
  return kTypes[number - 1];
}

bool is_exported_file(const std::string& path) {
  try {
    return ZipFile(path).has(kProgram);
  } catch (const FileError&) {
    return path.ends_with(".pt2");
  }
}

ExportedFile::ExportedFile(const std::string& path) : archive_(path) {
  constexpr int64_t kMostMarkBytes = 64;
  if (!archive_.has(kProgram)) {
    throw FileError(fmt::format("{}: it holds no exported program ({}); write it with torch.export.save()", path, kProgram));
  }
  if (archive_.has("byteorder") && archive_.read_text("byteorder", kMostMarkBytes) != "little") {
    throw FileError(fmt::format("{}: its numbers are not little-endian; export it on another machine", path));
  }
  weights_ = read_config("data/weights/", "model_weights_config.json");
  constants_ = read_config("data/constants/", "model_constants_config.json");
}

const ExportedTensor* find(const ExportedTensors& tensors, const std::string& name) {
  for (const auto& [key, tensor] : tensors) {
    if (key == name) return &tensor;
  }
  return nullptr;
}

ExportedTensors ExportedFile::read_config(const std::string& folder, const std::string& name) {
  ExportedTensors tensors;
  if (!archive_.has(folder + name)) return tensors;
  const std::string text = archive_.read_text(folder + name, kMostProgramBytes);
  try {
    const ExportedJson json = parse_exported<ExportedJson>(text);
    for (const auto& [key, entry] : json.at("config").items()) {
      const std::string what = fmt::format("{}: '{}'", path(), shortened(key));
      tensors.emplace_back(key, tensor_from(what, folder, entry));
      check(what, tensors.back().second);
    }
  } catch (const ExportedJson::exception& error) {
    throw FileError(fmt::format("{}: {}{} is damaged ({}); export it again", path(), folder, name, shortened(error.what())));
  }
  return tensors;
}

void ExportedFile::check(const std::string& name, const ExportedTensor& tensor) const {
  constexpr __int128 kMostBytes = __int128{1} << 60;
  auto bytes = static_cast<__int128>(c10::elementSize(tensor.type)), extent = bytes;
  for (const int64_t size : tensor.shape) {
    if (size < 0 || (extent *= std::max<int64_t>(size, 1)) > kMostBytes)
      throw FileError(fmt::format("{} has an absurd shape; export it again", name));
    bytes *= size;
  }
  if (archive_.has(tensor.record) && archive_.size(tensor.record) == static_cast<int64_t>(bytes)) return;
  throw FileError(fmt::format(
      "{} needs {} bytes, but its record '{}' {}; export it again", name, static_cast<int64_t>(bytes), shortened(tensor.record),
      archive_.has(tensor.record) ? fmt::format("has {}", archive_.size(tensor.record)) : "is missing"));
}

std::string ExportedFile::program() { return archive_.read_text(kProgram, kMostProgramBytes); }

at::Tensor ExportedFile::read(const ExportedTensor& tensor) {
  at::Tensor values = at::empty(tensor.shape, at::TensorOptions(tensor.type).device(at::kCPU));
  archive_.read(tensor.record, values.mutable_data_ptr());
  if (tensor.type == at::kBool) values.view(at::kByte).clamp_max_(1);  // a bool of another byte has no meaning
  return values;
}

}  // namespace weft
