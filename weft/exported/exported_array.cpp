#include "weft/exported/exported_array.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "weft/base/error.h"

namespace weft {

std::string text_of(const ExportedArray& array) {
  return fmt::format("{} [{}{}]", c10::toString(array.type), array.shape.empty() ? "samples" : "samples, ",
                     fmt::join(array.shape, ", "));
}

ExportedArray array_of(const ExportedGraph& graph, const std::string& value, const std::string& what, const std::string& call) {
  const auto found = graph.shapes.find(value);
  if (found == graph.shapes.end()) throw InputError(fmt::format("{}: {} has no shape; export it again", graph.path, what));
  const std::vector<ExportedDim>& dims = found->second.dims;
  const std::vector<ExportedDim>& given = graph.shapes.at(graph.inputs.front()).dims;
  if (dims.empty() || dims.front().symbol.empty() || dims.front().symbol != given.front().symbol || dims.front().factor != 1) {
    throw InputError(
        fmt::format("{}: the first dimension of {} is not of the samples; export it as {}", graph.path, what, call));
  }
  ExportedArray array{.type = found->second.type == graph.narrow_type ? at::kFloat : found->second.type, .shape = {}};
  for (size_t d = 1; d < dims.size(); ++d) {
    if (!dims[d].symbol.empty()) {
      throw InputError(
          fmt::format("{}: dimension {} of {} varies; only the samples may: export it as {}", graph.path, d, what, call));
    }
    array.shape.push_back(dims[d].size);
  }
  return array;
}

}  // namespace weft
