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

/// Keys under which training programs save the model's state dict among other entries, in order of search: Lightning and
/// torchvision's references, nanoGPT and timm, DeepSpeed.
constexpr const char* kNests[] = {"state_dict", "model_state_dict", "model", "module", "net", "network", "weights"};

/// Returns the dict, without the metadata of Python's state dicts (plain_pickle.h); nullptr for another value.
const c10::IValue* dict_in(const c10::IValue& read) {
  const bool has_state = read.isTuple() && read.toTupleRef().elements().size() == 2;
  const c10::IValue& value = has_state ? read.toTupleRef().elements()[0] : read;
  return value.isGenericDict() ? &value : nullptr;
}

/// Returns a dict's tensors by name. Other values (counters, `None`) do not belong to a model.
std::map<std::string, at::Tensor> tensors_of(const c10::IValue& dict) {
  std::map<std::string, at::Tensor> tensors;
  for (const auto& entry : dict.toGenericDict()) {
    if (entry.key().isString() && entry.value().isTensor()) tensors[entry.key().toStringRef()] = entry.value().toTensor();
  }
  return tensors;
}

std::string keys_of(const c10::IValue& dict) {
  constexpr size_t kMost = 6;
  std::string text;
  size_t count = 0;
  for (const auto& entry : dict.toGenericDict()) {
    if (++count > kMost) continue;
    text += fmt::format("{}'{}'", text.empty() ? "" : ", ",
                        entry.key().isString() ? shortened(entry.key().toStringRef(), 40) : entry.key().tagKind());
  }
  if (count == 0) return "nothing";
  return count > kMost ? fmt::format("{} and {} more", text, count - kMost) : text;
}

/// Finds the state dict in `dict`, at most `deepest` dicts down; no tensors if there is no state dict.
TorchFile state_dict_in(const c10::IValue& dict, int deepest = 3) {
  const auto entries = dict.toGenericDict();
  for (const char* nest : kNests) {
    const auto found = entries.find(std::string(nest));
    const c10::IValue* inner = deepest > 0 && found != entries.end() ? dict_in(found->value()) : nullptr;
    if (inner == nullptr) continue;
    TorchFile file = state_dict_in(*inner, deepest - 1);
    if (file.tensors.empty()) continue;
    file.nest = file.nest.empty() ? nest : fmt::format("{}.{}", nest, file.nest);
    return file;
  }
  return {.tensors = tensors_of(dict)};
}

/// Says what stands in place of a dict. Objects were made tuples (plain_pickle.h).
std::string what_is(const c10::IValue& read) {
  return read.isTuple() ? "it holds a Python object, such as a whole module"
                        : fmt::format("it holds a value of type {}", read.tagKind());
}

TorchFile state_dict_of(const c10::IValue& read) {
  const c10::IValue* dict = dict_in(read);
  if (dict == nullptr) throw InputError(what_is(read));
  TorchFile file = state_dict_in(*dict);
  if (file.tensors.empty()) throw InputError(fmt::format("it holds no named tensor, only {}", keys_of(*dict)));
  return file;
}

/// Size in bytes of each record read, by its address.
using RecordSizes = std::map<const void*, size_t>;

/// True if the tensor's elements lie in its record. The unpickler trusts sizes, strides and offset in the pickle.
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
  torch::jit::Unpickler unpickler(read, nullptr, nullptr, record, at::Device(at::kCPU));  // whatever device it was saved from
  unpickler.set_version(archive.version());
  return unpickler.parse_ivalue();
}

}  // namespace

TorchFile read_torch_file(const std::string& path) {
  std::string reason;
  bool is_archive = false;
  try {
    caffe2::serialize::PyTorchStreamReader archive(path);
    is_archive = true;
    RecordSizes records;
    if (archive.hasRecord("constants.pkl")) throw InputError("it is a TorchScript program");
    TorchFile file = state_dict_of(unpickle(archive, records));
    for (const auto& [name, tensor] : file.tensors) {
      if (!lies_within(tensor, records))
        throw InputError(fmt::format("'{}' has more elements than its record", shortened(name)));
    }
    return file;
  } catch (const c10::Error& error) {
    reason = error.what_without_backtrace();
  } catch (const std::exception& error) {
    reason = error.what();
  }
  if (!is_archive) {
    throw InputError(
        fmt::format("{}: a zip archive without a state dict of torch.save(), or truncated; unpack it and name "
                    "the file inside, or get it again",
                    path));
  }
  throw InputError(
      fmt::format("{}: cannot read it as a state dict of torch.save(): {}; save only the state dict, "
                  "torch.save(torch.load(f, weights_only=False).state_dict(), g) for a whole module, or safetensors",
                  path, reason.substr(0, reason.find('\n'))));
}

}  // namespace weft
