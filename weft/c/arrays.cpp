#include "weft/c/arrays.h"

#include <ATen/Context.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "weft/base/error.h"
#include "weft/c/caller_memory.h"

namespace weft::c {
namespace {

constexpr int kMostDims = 16;
constexpr int64_t kMostBytes = int64_t{1} << 47;  ///< a process's memory on x86-64

constexpr std::pair<int32_t, at::ScalarType> kTypes[] = {
    {WEFT_FLOAT32, at::kFloat}, {WEFT_FLOAT64, at::kDouble}, {WEFT_INT32, at::kInt}, {WEFT_INT64, at::kLong}};

at::ScalarType type_of(const weft_array& array, const std::string& name) {
  for (const auto& [type, scalar] : kTypes) {
    if (type == array.type) return scalar;
  }
  throw InputError(fmt::format("{}: type {} is none of WEFT_FLOAT32, WEFT_FLOAT64, WEFT_INT32, WEFT_INT64", name, array.type));
}

const char* name_of(at::ScalarType type) {
  const char* const names[] = {"float32", "float64", "int32", "int64"};
  for (size_t i = 0; i < std::size(kTypes); ++i) {
    if (kTypes[i].second == type) return names[i];
  }
  return "another type";
}

at::IntArrayRef shape_of(const weft_array& array, const std::string& name) {
  if (array.dims < 0 || array.dims > kMostDims) {
    throw InputError(fmt::format("{} has {} dimensions, at most {} are possible", name, array.dims, kMostDims));
  }
  if (array.dims > 0 && !array.shape) throw InputError(fmt::format("{}: shape is null", name));
  const auto dims = static_cast<size_t>(array.dims);
  const at::IntArrayRef shape(dims > 0 ? readable(array.shape, name + ": shape", dims) : nullptr, dims);
  if (std::any_of(shape.begin(), shape.end(), [](int64_t size) { return size < 0; })) {
    throw InputError(fmt::format("{} has the shape [{}]", name, fmt::join(shape, ", ")));
  }
  return shape;
}

std::vector<int64_t> strides_of(const weft_array& array, at::IntArrayRef shape, const std::string& name) {
  if (array.strides && !shape.empty()) {
    const int64_t* first = readable(array.strides, name + ": strides", shape.size());
    return {first, first + shape.size()};
  }
  std::vector<int64_t> strides(shape.size(), 1);
  for (size_t i = shape.size(); i-- > 1;) {
    if (__builtin_mul_overflow(strides[i], std::max<int64_t>(1, shape[i]), &strides[i - 1])) strides[i - 1] = kMostBytes;
  }
  return strides;
}

/// Bytes from the array's first element to the end of its last. Throws InputError if no memory has them.
int64_t extent_of(at::IntArrayRef shape, const std::vector<int64_t>& strides, int64_t element, const std::string& name) {
  int64_t last = 0;
  for (size_t i = 0; i < shape.size(); ++i) {
    int64_t steps = 0;
    if (strides[i] >= 0 && !__builtin_mul_overflow(shape[i] - 1, strides[i], &steps) &&
        !__builtin_add_overflow(last, steps, &last) && last < kMostBytes / element) {
      continue;
    }
    throw InputError(fmt::format("{}: no memory has the shape [{}] with the strides [{}]", name, fmt::join(shape, ", "),
                                 fmt::join(strides, ", ")));
  }
  return (last + 1) * element;
}

/// The device of this type that has the byte, if one has.
std::optional<at::Device> device_with(char* byte, at::DeviceType type) {
  if (type == at::kCPU) return std::nullopt;
  try {
    return at::globalContext().getDeviceFromPtr(byte, type);
  } catch (const c10::Error&) {
    return std::nullopt;
  }
}

/// Whether the array's memory is the device's, as it says.
bool is_in_device(const weft_array& array, at::Device device, const std::string& name) {
  if (array.memory == WEFT_HOST) return false;
  if (array.memory != WEFT_DEVICE) {
    throw InputError(fmt::format("{}: memory {} is neither WEFT_HOST nor WEFT_DEVICE", name, array.memory));
  }
  if (!device.is_cpu()) return true;
  throw InputError(fmt::format(
      "{} is memory of a device, but this rank trains on the CPU; pass host memory, or set run.device to the device", name));
}

[[noreturn]] void refuse_short(const std::string& name, int64_t bytes) {
  throw InputError(fmt::format("{}: data has fewer than the {} bytes of its shape", name, bytes));
}

void check_on_device(char* begin, int64_t bytes, at::Device device, const std::string& name) {
  const std::optional<at::Device> found = device_with(begin, device.type());
  if (!found) throw InputError(fmt::format("{}: data is no memory of {}, on which this rank trains", name, device.str()));
  if (*found != device) {
    throw InputError(fmt::format("{} is memory of {}, but this rank trains on {}", name, found->str(), device.str()));
  }
  if (device_with(begin + bytes - 1, device.type()) != found) refuse_short(name, bytes);
}

void check_on_host(char* begin, int64_t bytes, at::Device device, const std::string& name) {
  if (is_readable(begin, static_cast<size_t>(bytes))) return;
  if (const auto found = device_with(begin, device.type())) {
    throw InputError(fmt::format("{} is memory of {}; set its member memory to WEFT_DEVICE", name, found->str()));
  }
  refuse_short(name, bytes);
}

}  // namespace

/// Kernels that are queued for the device may still read or write the caller's memory.
void Arrays::wait() noexcept {
  if (!has_device_memory_) return;
  try {
    const c10::impl::VirtualGuardImpl device(device_.type());
    device.synchronizeStream(device.getStream(device_));
  } catch (const std::exception&) {  // of the device, which the next call reports
  }
}

at::Tensor Arrays::memory_of(const weft_array* array, const std::string& name, Use use) {
  if (!array) throw InputError(fmt::format("{} is null", name));
  readable(array, name);
  const at::ScalarType type = type_of(*array, name);
  const at::IntArrayRef shape = shape_of(*array, name);
  const bool in_device = is_in_device(*array, device_, name);
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return at::empty(shape, at::TensorOptions(type));
  const std::vector<int64_t> strides = strides_of(*array, shape, name);
  const auto element = static_cast<int64_t>(c10::elementSize(type));
  const int64_t bytes = extent_of(shape, strides, element, name);
  if (!array->data) throw InputError(fmt::format("{}: data is null", name));
  if (reinterpret_cast<uintptr_t>(array->data) % element != 0) {
    throw InputError(fmt::format("{}: data is not aligned to its elements of {} bytes", name, element));
  }
  (in_device ? check_on_device : check_on_host)(static_cast<char*>(array->data), bytes, device_, name);
  if (use == Use::writes && !in_device && !is_writable(array->data, static_cast<size_t>(bytes))) {
    throw InputError(fmt::format("{}: data is no memory that can be written", name));
  }
  has_device_memory_ |= in_device;
  const at::TensorOptions options = at::TensorOptions(type).device(in_device ? device_ : at::Device(at::kCPU));
  return at::from_blob(array->data, shape, strides, options);
}

at::Tensor Arrays::tensor_of(const weft_array* array, const ExpectedArray& expected) {
  const std::string& name = expected.name;
  if (!array) throw InputError(fmt::format("{} is null", name));
  readable(array, name);
  const at::IntArrayRef shape = shape_of(*array, name);
  std::vector<int64_t> wanted = expected.like.sizes().vec();
  const bool is_any = expected.samples < 0;
  wanted[0] = is_any && !shape.empty() ? shape[0] : expected.samples;
  if (shape != at::IntArrayRef(wanted)) {
    throw InputError(
        fmt::format("{} has the shape [{}]; it must be [{}{}]", name, fmt::join(shape, ", "),
                    is_any ? "samples" : std::to_string(wanted[0]),
                    wanted.size() > 1 ? fmt::format(", {}", fmt::join(wanted.begin() + 1, wanted.end(), ", ")) : ""));
  }
  const at::ScalarType type = type_of(*array, name), needed = expected.like.scalar_type();
  if (at::isFloatingType(type) != at::isFloatingType(needed)) {
    throw InputError(fmt::format("{} is {}; it must be {}", name, name_of(type), name_of(needed)));
  }
  const at::Tensor memory = memory_of(array, name, Use::reads);
  return array->borrowed != 0 && type == needed ? memory
                                                : memory.to(needed, /*non_blocking=*/false, /*copy=*/true).contiguous();
}

std::vector<at::Tensor> Arrays::tensors_of(const weft_array* first, int count, const std::vector<ExpectedArray>& expected) {
  if (count != static_cast<int>(expected.size())) {
    std::string names;
    for (const ExpectedArray& one : expected) names += fmt::format("{}{}", names.empty() ? ": " : ", ", one.name);
    throw InputError(
        fmt::format("num_inputs is {}; the model takes {}{}", count, expected.size(), expected.size() > 1 ? names : ""));
  }
  if (!first) throw InputError("inputs is null");
  std::vector<at::Tensor> tensors;
  for (const ExpectedArray& one : expected) {
    tensors.push_back(tensor_of(first + tensors.size(), one));
    if (tensors.back().size(0) != tensors.front().size(0)) {
      throw InputError(fmt::format("{} has {} samples, input 0 has {}", one.name, tensors.back().size(0), tensors[0].size(0)));
    }
  }
  return tensors;
}

void Arrays::write_to(const weft_array* array, const at::Tensor& value, const std::string& name) {
  const at::Tensor memory = memory_of(array, name, Use::writes);
  if (memory.sizes() != value.sizes()) {
    throw InputError(fmt::format("{} has the shape [{}]; the model's has [{}]", name, fmt::join(memory.sizes(), ", "),
                                 fmt::join(value.sizes(), ", ")));
  }
  if (at::isFloatingType(memory.scalar_type()) != at::isFloatingType(value.scalar_type())) {
    throw InputError(
        fmt::format("{} is {}; the model's is {}", name, name_of(memory.scalar_type()), name_of(value.scalar_type())));
  }
  memory.copy_(value);
}

ArrayView::ArrayView(const at::Tensor& value) : value_(value) {
  const auto* const found =
      std::find_if(std::begin(kTypes), std::end(kTypes), [&](const auto& x) { return x.second == value.scalar_type(); });
  const bool is_known = found != std::end(kTypes);
  const bool is_float = at::isFloatingType(value.scalar_type());
  if (!is_known) value_ = value.to(is_float ? at::kFloat : at::kLong);
  value_ = value_.contiguous();
  array_ = {.data = value_.mutable_data_ptr(),
            .shape = value_.sizes().data(),
            .strides = value_.strides().data(),
            .dims = static_cast<int32_t>(value_.dim()),
            .type = is_known   ? found->first
                    : is_float ? WEFT_FLOAT32
                               : WEFT_INT64,
            .borrowed = 1,
            .memory = WEFT_HOST};
}

}  // namespace weft::c
