#include "weft/data/arrays/array_set.h"

#include <ATen/ops/empty.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <deque>
#include <filesystem>
#include <optional>
#include <utility>

#include "weft/base/error.h"
#include "weft/base/file_kind.h"
#include "weft/base/printable.h"
#include "weft/data/files/file_set.h"
#include "weft/data/files/npy_header.h"

namespace weft {
namespace {

constexpr std::pair<const char*, at::ScalarType> kNpyTypes[] = {
    {"'<f4'", at::kFloat}, {"'<f8'", at::kDouble}, {"'<i4'", at::kInt}, {"'<i8'", at::kLong}};

constexpr const char *kSuffix = ".npy", *kTargets = "targets";

const char* name_of(at::ScalarType type) { return at::isFloatingType(type) ? "float32" : "int64"; }

/// Rows of one file.
class NpyRows {
 public:
  /// `like` is what rows must be.
  NpyRows(const std::string& folder, const ArrayFile& needed, const std::string& all)
      : path_((std::filesystem::path(folder) / (needed.name + kSuffix)).string()), like_(needed.like) {
    InputFile file = open_input(path_);
    if (!file.reason.empty()) {
      throw InputError(fmt::format("{}: cannot open it: {}; data.path is a folder with {}", path_, file.reason, all));
    }
    const std::string head = read_head(path_, file);
    if (!is_npy(head)) refuse_kind(head);
    const NpyHeader header = npy_header(path_, head);
    check_type(header);
    check_shape(header);
    offset_ = header.offset;
    size_ = header.shape.front();
    row_bytes_ = static_cast<int64_t>(c10::elementSize(type_));
    for (const int64_t size : like_.sizes().slice(1)) row_bytes_ *= size;
    const int64_t said = offset_ + size_ * row_bytes_;
    if (file.bytes != said) {
      throw InputError(fmt::format("{}: its NumPy header says {} bytes, but it has {}; {}", path_, said, file.bytes,
                                   file.bytes < said ? "it is truncated, get it again" : "it is damaged, get it again"));
    }
    files_.add(path_, std::move(file));
  }

  int64_t size() const { return size_; }
  const std::string& path() const { return path_; }

  /// The rows with these indices, each from `first` on; neighbours are read at once.
  at::Tensor read(const std::vector<int64_t>& indices, int64_t first) const {
    std::vector<int64_t> sizes = like_.sizes().vec();
    sizes[0] = std::ssize(indices);
    const at::Tensor rows = at::empty(sizes, at::TensorOptions(type_));
    auto* to = static_cast<char*>(rows.mutable_data_ptr());
    for (size_t i = 0, next = 0; i < indices.size(); i = next) {
      for (next = i + 1; next < indices.size() && indices[next] == indices[next - 1] + 1;) ++next;
      const int64_t bytes = static_cast<int64_t>(next - i) * row_bytes_;
      files_.read(0, offset_ + (first + indices[i]) * row_bytes_, to, bytes);
      to += bytes;
    }
    return rows.to(like_.scalar_type());
  }

 private:
  [[noreturn]] void refuse_kind(const std::string& head) const {
    const FileKind kind = file_kind(head);
    throw InputError(fmt::format("{}: it is {}, but a NumPy array is expected; write it with numpy.save()", path_,
                                 kind ? kind.what : "no .npy file"));
  }

  void check_type(const NpyHeader& header) {
    for (const auto& [text, type] : kNpyTypes) {
      if (header.type != text || at::isFloatingType(type) != like_.is_floating_point()) continue;
      type_ = type;
      return;
    }
    const char* const needed = name_of(like_.scalar_type());
    throw InputError(fmt::format("{}: a NumPy array of type {}, but the model needs {}; save it with array.astype(numpy.{})",
                                 path_, shortened(header.type, 100), needed, needed));
  }

  void check_shape(const NpyHeader& header) const {
    const at::IntArrayRef found = header.shape, needed = like_.sizes().slice(1);
    if (found.empty() || found.slice(1) != needed) {
      throw InputError(fmt::format("{}: a NumPy array of shape ({}), but the model needs (samples{}{})", path_,
                                   fmt::join(found, ", "), needed.empty() ? "" : ", ", fmt::join(needed, ", ")));
    }
    if (header.is_fortran && found.size() > 1) {
      throw InputError(fmt::format("{}: a NumPy array in Fortran's order; save it with numpy.ascontiguousarray(array)", path_));
    }
  }

  std::string path_;
  at::Tensor like_;
  at::ScalarType type_ = at::kFloat;
  int64_t offset_ = 0, size_ = 0, row_bytes_ = 0;
  FileSet files_;
};

class ArraySet final : public Dataset {
 public:
  ArraySet(const std::string& folder, const std::vector<ArrayFile>& inputs, const at::Tensor& target, ArrayPart part) {
    std::string files;
    for (const ArrayFile& input : inputs) files += fmt::format("{}{}, ", input.name, kSuffix);
    files = fmt::format("{} and {}{}", files.substr(0, files.size() - 2), kTargets, kSuffix);
    for (const ArrayFile& input : inputs) inputs_.emplace_back(folder, input, files);
    targets_.emplace(folder, ArrayFile{kTargets, target}, files);
    for (const NpyRows& rows : inputs_) {
      if (rows.size() == targets_->size()) continue;
      throw InputError(fmt::format("{} has {} samples but {} has {}; save all from the same samples", rows.path(), rows.size(),
                                   targets_->path(), targets_->size()));
    }
    const auto all = static_cast<double>(targets_->size());
    first_ = static_cast<int64_t>(part.begin * all);
    size_ = static_cast<int64_t>(part.end * all) - first_;
    if (size_ > 0) return;
    throw InputError(
        fmt::format("{}: {} samples leave none for {}; change data.evaluation, or name a folder with "
                    "data.evaluation_path",
                    folder, targets_->size(), part.begin > 0.0 ? "evaluation" : "training"));
  }

  int64_t size() const override { return size_; }
  Batch get(const std::vector<int64_t>& indices, int64_t /*epoch*/) const override {
    Batch batch{.inputs = {}, .target = targets_->read(indices, first_)};
    for (const NpyRows& rows : inputs_) batch.inputs.push_back(rows.read(indices, first_));
    return batch;
  }

 private:
  std::deque<NpyRows> inputs_;
  std::optional<NpyRows> targets_;
  int64_t first_ = 0, size_ = 0;
};

}  // namespace

std::shared_ptr<Dataset> open_arrays(const std::string& folder, const std::vector<ArrayFile>& inputs, const at::Tensor& target,
                                     ArrayPart part) {
  return std::make_shared<ArraySet>(folder, inputs, target, part);
}

}  // namespace weft
