// Values of a device's tensors that the host needs too: read without a wait where they are known, and never old ones.
#include "weft/nn/host_values.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>

#include <vector>

#include "tests/device/on_device.h"
#include "tests/support/run_ranks.h"
#include "weft/checked_device/checked_device.h"
#include "weft/comm/mesh.h"
#include "weft/engine/transfers.h"

namespace weft::host_values_test {
namespace {

/// Waits of the host while `act` runs.
template <class Act>
uint64_t waits_of(const Act& act) {
  checked_device::reset_counts();
  act();
  uint64_t waits = 0;
  for (const auto& [what, count] : checked_device::synchronisations()) waits += count;
  return waits;
}

TEST(HostValues, AreReadOnceUntilTheTensorChanges) {
  const at::Device device = on_device({}).device(0);
  const at::Tensor host = at::arange(12, at::kLong).view({3, 4});
  at::Tensor x = host.to(device);
  const auto expect = [](const at::Tensor& of, const at::Tensor& values, uint64_t waits) {
    at::Tensor found;
    EXPECT_EQ(waits_of([&] { found = host_values(of); }), waits);
    EXPECT_TRUE(found.is_contiguous() && at::equal(found, values));
  };
  note_host_values(x, host);
  expect(x, host, 0);
  expect(x.narrow(1, 1, 2).detach(), host.narrow(1, 1, 2), 0);
  expect(x.t(), host.t(), 0);
  x.add_(1);
  expect(x, host + 1, 1);
  expect(x.narrow(0, 1, 2), host.narrow(0, 1, 2) + 1, 0);
  x = host.mul(2).to(device);  // maybe where the old one was
  expect(x, host * 2, 1);
  const at::Tensor part = host.to(device).narrow(1, 0, 2);
  expect(part, host.narrow(1, 0, 2), 1);
  expect(part, host.narrow(1, 0, 2), 1);  // not contiguous, so not noted
  EXPECT_EQ(said_of_device(), "");
}

/// Two stages, four micro-batches: the second knows the positions that the first one knows, and neither waits for its device
/// once the shapes are known.
TEST(HostValues, TravelBetweenStages) {
  const auto device = on_device({}).device;
  said_of_device();
  checked_device::reset_counts();
  test::run_ranks(2, [&](const World& world) {
    const at::Device own = device(world.rank());
    const c10::DeviceGuard current(own);
    const Mesh mesh(world, {{"pp", 2}});
    const Group group = mesh.group(mesh.axis("pp"), {.device = own, .passes_messages = true});
    ASSERT_TRUE(group.moves_host_tensors());
    Transfers transfers(group, own);
    std::vector<at::Tensor> read;
    std::vector<Tensors> received(4);
    for (int64_t micro = 0; micro < 4; ++micro) {
      const checked_device::Label label(micro == 0 ? "shapes" : "values");
      transfers.begin_step(/*keeps_shapes=*/true);
      const at::Tensor host = at::arange(12, at::kLong).add(micro).view({3, 4}).pin_memory();
      if (world.rank() == 0) {
        at::Tensor places = host.to(own, /*non_blocking=*/true);
        note_host_values(places, host);
        transfers.send_activation(1, 0, {at::full({2}, micro, at::TensorOptions(at::kFloat).device(own)), places}, "x").wait();
        continue;
      }
      transfers.receive_activation(0, 0, received[static_cast<size_t>(micro)], "x").wait();
      read.push_back(host_values(received[static_cast<size_t>(micro)][1]));
      EXPECT_TRUE(at::equal(read.back(), host)) << micro;
    }
    for (size_t micro = 0; micro < read.size(); ++micro) {
      EXPECT_TRUE(at::equal(received[micro][1].cpu(), read[micro])) << micro;
      EXPECT_EQ(received[micro][0].sum().item<float>(), 2.0F * static_cast<float>(micro));
    }
    group.barrier("end").wait();
    EXPECT_EQ(group.traffic().bytes, world.rank() == 0 ? 128 * 8 + 4 * (2 * 4 + 12 * 8) : 0) << "header, and each value once";
  });
  EXPECT_EQ(checked_device::counts()["values"].synchronisations, 0U);
  EXPECT_EQ(said_of_device(), "");
}

TEST(HostValues, OfInferenceTensorsAreReadEachTime) {
  const c10::InferenceMode inference;
  const at::Tensor host = at::arange(4, at::kLong), x = host.to(on_device({}).device(0));
  note_host_values(x, host);
  x.add_(1);
  EXPECT_TRUE(at::equal(host_values(x), host + 1));
}

}  // namespace
}  // namespace weft::host_values_test
