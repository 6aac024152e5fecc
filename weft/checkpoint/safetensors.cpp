#include "weft/checkpoint/safetensors.h"

#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <functional>
#include <numeric>
#include <system_error>

#include "weft/base/error.h"
#include "weft/base/input_file.h"
#include "weft/checkpoint/other_file.h"
#include "weft/checkpoint/safetensors_header.h"

namespace weft {

/// Open file to read from; errors name it.
class SafetensorsReader {
 public:
  explicit SafetensorsReader(const std::string& path) : path_(path), file_(open_input(path)) {
    if (!file_.reason.empty()) fail(file_.reason);
  }

  int64_t size() const { return file_.bytes; }

  void read(int64_t offset, int64_t bytes, void* out) const {
    const int64_t got = read_input(file_, offset, out, bytes);
    if (got < 0) fail(std::system_category().message(errno));
    if (got < bytes) throw InputError(fmt::format("{}: truncated while it was read; get or save it again", path_));
  }

 private:
  [[noreturn]] void fail(const std::string& reason) const {
    throw InputError(fmt::format("{}: cannot read it: {}; name a file of weights", path_, reason));
  }

  std::string path_;
  InputFile file_;
};

namespace {

static_assert(std::endian::native == std::endian::little, "values are written as they are in memory");

constexpr int64_t kLargestHeader = 100'000'000;  // the limit of the format's other readers

/// Returns the tensors in file order, and their places in `header`.
std::vector<NamedTensor> lay_out(const std::string& path, std::vector<NamedTensor> tensors, SafetensorsHeader& header) {
  for (const NamedTensor& t : tensors) {
    if (!t.tensor.defined()) throw InputError(fmt::format("{}: cannot save tensor \"{}\": it is undefined", path, t.name));
    if (safetensors_type(t.tensor.scalar_type()) == nullptr) {
      throw InputError(fmt::format("{}: cannot save tensor \"{}\": safetensors has no type for {}; convert it to float32", path,
                                   t.name, c10::toString(t.tensor.scalar_type())));
    }
  }
  std::sort(tensors.begin(), tensors.end(), [](const NamedTensor& a, const NamedTensor& b) {
    const auto a_size = a.tensor.element_size(), b_size = b.tensor.element_size();
    return a_size != b_size ? a_size > b_size : a.name < b.name;
  });
  int64_t at = 0;
  for (const NamedTensor& t : tensors) {
    const int64_t bytes = t.tensor.numel() * t.tensor.element_size();
    header.tensors.push_back({t.name, t.tensor.scalar_type(), t.tensor.sizes().vec(), at, at + bytes});
    at += bytes;
  }
  return tensors;
}

/// Throws InputError that names the kind of the file, if its first bytes show another.
void refuse_other_file(const SafetensorsReader& file, const std::string& path) {
  std::string head(static_cast<size_t>(std::min<int64_t>(file.size(), kHeadBytes)), '\0');
  file.read(0, static_cast<int64_t>(head.size()), head.data());
  const std::string what = describe_foreign_file(head);
  if (!what.empty()) throw InputError(fmt::format("{}: not a safetensors file but {}", path, what));
}

/// Returns the header; sets `data_begin` to where the values begin.
SafetensorsHeader read_header_of(const SafetensorsReader& file, const std::string& path, int64_t& data_begin) {
  uint64_t length = 0;
  if (file.size() < 8) {
    refuse_other_file(file, path);
    throw InputError(fmt::format("{}: {} bytes are too few for a safetensors file; get or save it again", path, file.size()));
  }
  file.read(0, 8, &length);
  if (length > static_cast<uint64_t>(std::min(file.size() - 8, kLargestHeader))) {
    refuse_other_file(file, path);
    throw InputError(
        fmt::format("{}: not a safetensors file, or truncated: it says its header has {} bytes, the file has {}; get "
                    "or save it again",
                    path, length, file.size()));
  }
  std::string json(length, '\0');
  file.read(8, static_cast<int64_t>(length), json.data());
  data_begin = 8 + static_cast<int64_t>(length);
  return read_header(json, file.size() - data_begin, path);
}

}  // namespace

void save_safetensors(const std::string& path, const std::vector<NamedTensor>& tensors,
                      const std::map<std::string, std::string>& metadata) {
  SafetensorsHeader header{.tensors = {}, .metadata = metadata};
  const std::vector<NamedTensor> ordered = lay_out(path, tensors, header);
  const std::string json = write_header(header, path);
  if (static_cast<int64_t>(json.size()) > kLargestHeader) {
    throw InputError(
        fmt::format("{}: cannot save it: names and metadata take {} bytes, the format allows {}; save fewer tensors", path,
                    json.size(), kLargestHeader));
  }
  AtomicFile file(path);
  const uint64_t length = json.size();
  file.write(&length, sizeof length);
  file.write(json.data(), json.size());
  for (const NamedTensor& t : ordered) {
    const at::Tensor values = t.tensor.detach().to(at::kCPU).contiguous();
    file.write(values.const_data_ptr(), values.nbytes());
  }
  file.commit();
}

struct SafetensorsFile::State {
  explicit State(const std::string& path) : path(path), file(path), header(read_header_of(file, path, data_begin)) {}
  const StoredTensor& stored(const std::string& name) const {
    const auto& tensors = header.tensors;  // in name order
    const auto found =
        std::lower_bound(tensors.begin(), tensors.end(), name,
                         [](const StoredTensor& tensor, const std::string& wanted) { return tensor.name < wanted; });
    if (found == tensors.end() || found->name != name) throw InputError(fmt::format("it has no tensor \"{}\"", name));
    return *found;
  }

  std::string path;
  SafetensorsReader file;
  int64_t data_begin = 0;
  SafetensorsHeader header;
};

SafetensorsFile::SafetensorsFile(const std::string& path) : state_(std::make_unique<State>(path)) {}
SafetensorsFile::~SafetensorsFile() = default;
SafetensorsFile::SafetensorsFile(SafetensorsFile&&) noexcept = default;

std::vector<std::string> SafetensorsFile::names() const {
  std::vector<std::string> names;
  for (const StoredTensor& stored : state_->header.tensors) names.push_back(stored.name);
  return names;
}

const std::vector<int64_t>& SafetensorsFile::shape(const std::string& name) const { return state_->stored(name).shape; }
const std::map<std::string, std::string>& SafetensorsFile::metadata() const { return state_->header.metadata; }

at::Tensor SafetensorsFile::read(const std::string& name) const {
  const std::vector<int64_t>& sizes = shape(name);
  return read(name, 0, std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<>())).view(sizes);
}

at::Tensor SafetensorsFile::read(const std::string& name, int64_t begin, int64_t numel) const {
  const StoredTensor& stored = state_->stored(name);
  if (!stored.other_type.empty()) {
    throw InputError(fmt::format("{}: tensor \"{}\" has type {}, which weft does not read; convert it to F32", state_->path,
                                 name, stored.other_type));
  }
  const auto element = static_cast<int64_t>(c10::elementSize(stored.type));
  at::Tensor tensor = at::empty({numel}, stored.type);
  state_->file.read(state_->data_begin + stored.begin + begin * element, numel * element, tensor.mutable_data_ptr());
  return tensor;
}

std::vector<NamedTensor> load_safetensors(const std::string& path) {
  const SafetensorsFile file(path);
  std::vector<NamedTensor> out;
  for (const std::string& name : file.names()) out.push_back({name, file.read(name)});
  return out;
}

std::map<std::string, std::string> load_safetensors_metadata(const std::string& path) {
  const SafetensorsReader file(path);
  int64_t data_begin = 0;
  return read_header_of(file, path, data_begin).metadata;
}

}  // namespace weft
