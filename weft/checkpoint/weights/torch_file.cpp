#include "weft/checkpoint/weights/torch_file.h"

#include <ATen/core/ivalue.h>
#include <c10/util/Exception.h>
#include <caffe2/serialize/inline_container.h>
#include <fmt/format.h>
#include <torch/csrc/jit/serialization/unpickler.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <optional>
#include <tuple>

#include "weft/base/error.h"
#include "weft/base/printable.h"
#include "weft/checkpoint/weights/plain_pickle.h"

namespace weft {
namespace {

/// The entries, without the metadata that Python's state dicts have beside them (plain_pickle.h).
std::map<std::string, at::Tensor> tensors_of(const c10::IValue& read) {
  const bool has_state = read.isTuple() && read.toTupleRef().elements().size() == 2;
  const c10::IValue& value = has_state ? read.toTupleRef().elements()[0] : read;
  if (!value.isGenericDict()) throw InputError(fmt::format("it holds a {}", value.tagKind()));
  std::map<std::string, at::Tensor> tensors;
  for (const auto& entry : value.toGenericDict()) {
    if (!entry.key().isString()) throw InputError("a key is no text");
    const std::string& name = entry.key().toStringRef();
    if (!entry.value().isTensor()) throw InputError(fmt::format("'{}' is no tensor but a {}", name, entry.value().tagKind()));
    tensors[name] = entry.value().toTensor();
  }
  return tensors;
}

/// The bytes of each record that was read, by where they are.
using RecordSizes = std::map<const void*, size_t>;

/// Whether the elements that the tensor tells of lie in its record. The unpickler believes what the pickle says.
bool lies_within(const at::Tensor& tensor, const RecordSizes& records) {
  const auto record = records.find(tensor.storage().data());
  if (tensor.numel() == 0) return true;
  if (record == records.end()) return false;
  const auto bytes = static_cast<__int128>(record->second), width = static_cast<__int128>(tensor.element_size());
  __int128 last = tensor.storage_offset();
  for (int64_t d = 0; d < tensor.dim(); ++d) {
    if (tensor.size(d) < 0 || tensor.stride(d) < 0) return false;
    last += static_cast<__int128>(tensor.size(d) - 1) * tensor.stride(d);
  }
  return tensor.storage_offset() >= 0 && (last + 1) * width <= bytes &&
         static_cast<__int128>(tensor.storage().nbytes()) <= bytes;
}

c10::IValue unpickle(caffe2::serialize::PyTorchStreamReader& archive, RecordSizes& records) {
  const auto [bytes, size] = archive.getRecord("data.pkl");
  const std::string pickle = with_plain_dicts({static_cast<const char*>(bytes.get()), size});
  size_t at = 0;
  const auto read = [&](char* buffer, size_t wanted) {
    const size_t count = std::min(wanted, pickle.size() - at);
    std::memcpy(buffer, pickle.data() + at, count);
    at += count;
    return count;
  };
  const auto record = [&](const std::string& name) {
    auto [data, bytes_there] = archive.getRecord("data/" + name);
    records[data.get()] = bytes_there;
    return std::move(data);
  };
  torch::jit::Unpickler unpickler(read, nullptr, nullptr, record, at::Device(at::kCPU));  // wherever it was saved
  unpickler.set_version(archive.version());
  return unpickler.parse_ivalue();
}

}  // namespace

std::map<std::string, at::Tensor> read_torch_file(const std::string& path) {
  std::string reason;
  try {
    caffe2::serialize::PyTorchStreamReader archive(path);
    RecordSizes records;
    std::map<std::string, at::Tensor> tensors = tensors_of(unpickle(archive, records));
    for (const auto& [name, tensor] : tensors) {
      if (!lies_within(tensor, records))
        throw InputError(fmt::format("'{}' has more elements than its record", shortened(name)));
    }
    return tensors;
  } catch (const c10::Error& error) {
    reason = error.what_without_backtrace();
  } catch (const std::exception& error) {
    reason = error.what();
  }
  throw InputError(
      fmt::format("{}: cannot read it as a state dict of torch.save(): {}; save model.state_dict(), or safetensors", path,
                  reason.substr(0, reason.find('\n'))));
}

}  // namespace weft
