// weft.h with arrays in the device's memory: the bits of arrays on the host, the order with the program's own streams, and what
// is refused.
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <gtest/gtest.h>
#include <weft.h>

#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "tests/device/on_device.h"
#include "weft/checked_device.h"

namespace weft::c_arrays_test {
namespace {

constexpr const char* kRecipe = R"(
model = { name = "mlp", layers = 1, width = 4, image_size = 4, classes = 3 }
batch = { global = 8, micro = 2 }
optimizer = { name = "sgd", lr = 0.1 }
run = { steps = 100, threads = 1, device = "DEVICE" }
)";

std::string recipe_on(const std::string& device) {
  std::string text = kRecipe;
  return text.replace(text.find("DEVICE"), 6, device);
}

at::Device device_of(int rank) { return on_device({}).device(rank); }
bool has_devices() { return on_device({}).device != nullptr; }
/// Of the checked device, the bits are the CPU's.
double tolerance() { return is_checked_device() ? 0.0 : 1e-4; }

/// An array that shows a tensor.
struct Array : weft_array {
  explicit Array(at::Tensor x, bool is_borrowed = true) : weft_array{}, held(std::move(x)) {
    data = held.mutable_data_ptr();
    shape = held.sizes().data();
    strides = held.strides().data();
    dims = static_cast<int32_t>(held.dim());
    const at::ScalarType kind = held.scalar_type();
    type = kind == at::kFloat ? WEFT_FLOAT32 : kind == at::kDouble ? WEFT_FLOAT64 : kind == at::kInt ? WEFT_INT32 : WEFT_INT64;
    borrowed = is_borrowed ? 1 : 0;
    memory = held.is_cpu() ? WEFT_HOST : WEFT_DEVICE;
  }
  at::Tensor held;
};

/// A trainer of one rank of a world.
struct Made {
  explicit Made(const std::string& device = "auto", int rank = 0, int size = 1, const char* address = "127.0.0.1:1") {
    EXPECT_EQ(weft_world_join(rank, size, address, 30, &world), WEFT_OK) << weft_last_error();
    EXPECT_EQ(weft_trainer_make(world, recipe_on(device).c_str(), nullptr, nullptr, &trainer), WEFT_OK) << weft_last_error();
  }
  ~Made() {
    weft_trainer_free(trainer);
    weft_world_free(world);
  }
  weft_world* world = nullptr;
  weft_trainer* trainer = nullptr;
};

at::Tensor images(at::Device device, int64_t first = 0, int64_t count = 8) {
  return at::arange(first * 16, (first + count) * 16, at::kFloat).div_(64).view({count, 1, 4, 4}).to(device);
}
at::Tensor labels(at::Device device, int64_t first = 0, int64_t count = 8) {
  return at::arange(first, first + count, at::kLong).remainder(3).to(device);
}

/// What two steps, an evaluation and a prediction come to.
std::vector<double> results(const weft_trainer* of, const Array& input, const Array& target, const Array& output) {
  auto* trainer = const_cast<weft_trainer*>(of);
  weft_step first, second;
  weft_evaluation evaluation;
  EXPECT_EQ(weft_trainer_step(trainer, &input, 1, &target, &first), WEFT_OK) << weft_last_error();
  EXPECT_EQ(weft_trainer_step(trainer, &input, 1, &target, &second), WEFT_OK) << weft_last_error();
  EXPECT_EQ(weft_trainer_evaluate(trainer, &input, 1, &target, &evaluation), WEFT_OK) << weft_last_error();
  EXPECT_EQ(weft_trainer_predict(trainer, &input, 1, &output, 1), WEFT_OK) << weft_last_error();
  std::vector<double> all{first.loss, second.loss, evaluation.loss, static_cast<double>(evaluation.hits)};
  const at::Tensor predicted = output.held.cpu().to(at::kDouble).contiguous();
  all.insert(all.end(), predicted.const_data_ptr<double>(), predicted.const_data_ptr<double>() + predicted.numel());
  return all;
}

std::vector<double> results(const Array& input, const Array& target, const Array& output) {
  const Made made;
  return results(made.trainer, input, target, output);
}

at::Tensor outputs(at::Device device, at::ScalarType type = at::kFloat) {
  return at::zeros({8, 3}, at::TensorOptions(type).device(device));
}

TEST(DeviceArrays, HaveTheBitsOfTheHost) {
  if (!has_devices()) return;
  const at::Device host(at::kCPU), device = device_of(0);
  const std::vector<double> expected = results(Array(images(host)), Array(labels(host)), Array(outputs(host)));
  EXPECT_NE(expected[0], expected[1]);
  struct Row {
    const char* name;
    at::Tensor input, target, output;
    bool is_borrowed = true;
  };
  const at::Tensor wide = at::zeros({9, 3, 4, 8}, at::TensorOptions(device));
  at::Tensor inner = wide.narrow(0, 1, 8).narrow(1, 1, 1).narrow(3, 3, 4);
  inner.copy_(images(device));
  const Row rows[] = {
      {"borrowed", images(device), labels(device), outputs(device)},
      {"copied", images(device), labels(device), outputs(device), false},
      {"a part of an array", inner, labels(device), outputs(device)},
      {"the sample runs fastest", images(device).permute({1, 2, 3, 0}).contiguous().permute({3, 0, 1, 2}), labels(device),
       outputs(device).t().contiguous().t(), false},
      {"other types", images(device).to(at::kDouble), labels(device).to(at::kInt), outputs(device, at::kDouble)},
      {"input of the device", images(device), labels(host), outputs(host)},
      {"target of the device", images(host), labels(device), outputs(device)},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    const auto found = results(Array(row.input, row.is_borrowed), Array(row.target, row.is_borrowed), Array(row.output));
    for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(found.at(i), expected[i], tolerance());
    EXPECT_EQ(said_of_device(), "");
  }
}

/// The program uses the memory on a stream of its own, before and after each call.
std::string said_beside_calls(bool waits_before) {
  const Made made;
  const at::Device device = device_of(0);
  const c10::impl::VirtualGuardImpl guards(device.type());
  const c10::Stream own = guards.getStreamFromGlobalPool(device);
  const Array input(images(device)), target(labels(device)), output(outputs(device));
  guards.synchronizeDevice(0);
  said_of_device();
  const auto work = [&](const std::vector<at::Tensor>& tensors) {
    const c10::StreamGuard guard(own);
    for (at::Tensor x : tensors) x.add_(0), x.record_stream(own);
    if (waits_before) guards.synchronizeStream(own);
  };
  checked_device::set_throws(false);
  weft_trainer* const t = made.trainer;
  const auto refused = [&] {  // after the input was copied
    const Array copied(input.held, false);
    return weft_trainer_step(t, &copied, 1, nullptr, nullptr) == WEFT_INPUT_ERROR ? WEFT_OK : WEFT_ERROR;
  };
  const std::function<int()> calls[] = {[&] { return weft_trainer_step(t, &input, 1, &target, nullptr); }, refused,
                                        [&] { return weft_trainer_evaluate(t, &input, 1, &target, nullptr); },
                                        [&] { return weft_trainer_predict(t, &input, 1, &output, 1); }};
  for (const auto& call : calls) {
    work({input.held, target.held});
    EXPECT_EQ(call(), WEFT_OK) << weft_last_error();
    work({input.held, target.held, output.held});
  }
  checked_device::set_throws(true);
  guards.synchronizeDevice(0);
  return said_of_device();
}

TEST(DeviceArrays, AreFreeAfterACall) {
  if (!is_checked_device()) return;
  EXPECT_EQ(said_beside_calls(true), "");
  EXPECT_NE(said_beside_calls(false).find("it does not wait for that"), std::string::npos);  // the program's own fault
}

TEST(DeviceArrays, AreKeptInCheckpoints) {
  if (!has_devices()) return;
  const std::string folder = testing::TempDir() + "weft-c-device";
  std::filesystem::remove_all(folder);
  const at::Device device = device_of(0);
  const Array field(at::arange(6, at::kDouble).to(device)), other(at::zeros({6}, at::kDouble).to(device));
  {
    const Made made;
    ASSERT_EQ(weft_trainer_keep(made.trainer, "field", &field), WEFT_OK) << weft_last_error();
    ASSERT_EQ(weft_trainer_save(made.trainer, folder.c_str(), 0), WEFT_OK) << weft_last_error();
  }
  const Made made;
  ASSERT_EQ(weft_trainer_keep(made.trainer, "field", &other), WEFT_OK) << weft_last_error();
  ASSERT_EQ(weft_trainer_load(made.trainer, folder.c_str(), nullptr), WEFT_OK) << weft_last_error();
  {
    const c10::impl::VirtualGuardImpl guards(device.type());
    const c10::StreamGuard guard(guards.getStreamFromGlobalPool(device));
    EXPECT_TRUE(other.held.equal(field.held));
    guards.synchronizeDevice(0);
  }
  EXPECT_EQ(said_of_device(), "");
  std::filesystem::remove_all(folder);
}

TEST(DeviceArrays, AreOfTheRanksDevice) {
  if (!is_checked_device()) return;
  std::vector<double> losses(2);
  // Made before the ranks start: a copy to the other rank's device would wait for its collectives.
  const at::Tensor halves[] = {images(device_of(0), 0, 4), images(device_of(1), 4, 4)};
  const auto rank = [&losses, &halves](int r) {
    const Made made("auto", r, 2, "127.0.0.1:21219");
    int64_t first = 0, count = 0;
    ASSERT_EQ(weft_trainer_share(made.trainer, &first, &count), WEFT_OK) << weft_last_error();
    const Array target(labels(device_of(r), first, count)), input(halves[r]), wrong(halves[1 - r]);
    EXPECT_EQ(weft_trainer_step(made.trainer, &wrong, 1, &target, nullptr), WEFT_INPUT_ERROR);
    EXPECT_EQ(std::string(weft_last_error()), "weft_trainer_step: input 0 is memory of checked:" + std::to_string(1 - r) +
                                                  ", but this rank trains on checked:" + std::to_string(r));
    weft_step step{};
    EXPECT_EQ(weft_trainer_step(made.trainer, &input, 1, &target, &step), WEFT_OK) << weft_last_error();
    losses[static_cast<size_t>(r)] = step.loss;
  };
  std::thread second([&rank] { rank(1); });
  rank(0);
  second.join();
  const at::Device host(at::kCPU);
  EXPECT_NEAR(losses[0], results(Array(images(host)), Array(labels(host)), Array(outputs(host)))[0], 1e-6);
  EXPECT_EQ(losses[0], losses[1]);
  EXPECT_EQ(said_of_device(), "");
}

TEST(DeviceArrays, Misuse) {
  if (!has_devices()) return;
  struct Row {
    const char* name;
    const char* device;
    std::function<void(Array& input)> spoil;
    std::string text;
  };
  const std::string name = device_of(0).str();
  const Row rows[] = {
      {"run on the CPU", "cpu", [](Array&) {},
       "input 0 is memory of a device, but this rank trains on the CPU; pass host memory"},
      {"memory of the host", "auto", [](Array& a) { a.held = images(at::kCPU), a.data = a.held.data_ptr(); },
       "input 0: data is no memory of " + name + ", on which this rank trains"},
      {"said to be of the host", "auto", [](Array& a) { a.memory = WEFT_HOST; },
       "input 0 is memory of " + name + "; set its member memory to WEFT_DEVICE"},
      {"said to be of the host, on the CPU", "cpu", [](Array& a) { a.memory = WEFT_HOST; },
       "input 0: data has fewer than the 512 bytes"},
      {"not aligned", "auto", [](Array& a) { a.data = static_cast<char*>(a.data) + 1; }, "input 0: data is not aligned"},
      {"null", "auto", [](Array& a) { a.data = nullptr; }, "input 0: data is null"},
      {"memory", "auto", [](Array& a) { a.memory = 7; }, "input 0: memory 7 is neither WEFT_HOST nor WEFT_DEVICE"},
      {"memory, on the CPU", "cpu", [](Array& a) { a.memory = -1; }, "input 0: memory -1 is neither"},
  };
  // Of these a cache of freed memory, or its block's end, may hide some.
  const Row checked_rows[] = {
      {"another device", "auto", [](Array& a) { a.held = images(device_of(2)), a.data = a.held.data_ptr(); },
       "input 0 is memory of checked:2, but this rank trains on checked:0"},
      {"freed", "auto", [](Array& a) { a.held = at::Tensor(); }, "input 0: data is no memory of checked:0"},
      {"short", "auto", [](Array& a) { a.data = static_cast<float*>(a.data) + 1; },
       "input 0: data has fewer than the 512 bytes"},
  };
  std::vector<Row> all(std::begin(rows), std::end(rows));
  if (is_checked_device()) all.insert(all.end(), std::begin(checked_rows), std::end(checked_rows));
  for (const Row& row : all) {
    SCOPED_TRACE(row.name);
    const Made made(row.device);
    const int64_t shape[] = {8, 1, 4, 4};
    Array input(images(device_of(0)));
    input.shape = shape;
    input.strides = nullptr;
    row.spoil(input);
    const Array target(labels(at::kCPU));
    EXPECT_EQ(weft_trainer_step(made.trainer, &input, 1, &target, nullptr), WEFT_INPUT_ERROR);
    EXPECT_NE(std::string(weft_last_error()).find(row.text), std::string::npos) << weft_last_error();
  }
  EXPECT_EQ(said_of_device(), "");
}

}  // namespace
}  // namespace weft::c_arrays_test
