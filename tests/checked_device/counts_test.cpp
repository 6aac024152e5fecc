// Counts of what devices are given, and who made the host wait.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "tests/checked_device/device.h"

namespace weft::checked_device {
namespace {

TEST(Counts, AreOfTheLabel) {
  at::Tensor host = pinned_ones();
  reset_counts();
  {
    const Label label("load");
    at::Tensor t = host.to(device(), at::kFloat, true);
    const Label inner("work");
    t.add_(1).mul_(2);
    EXPECT_EQ(t.sum().item<float>(), 64);
    c10::Event event(kType);
    event.record(stream_of());
    event.block(new_stream_of());
  }
  const std::map<std::string, Counts> all = counts();
  EXPECT_EQ(all.at("load").copies, 1u);
  EXPECT_EQ(all.at("load").copied_bytes, 64u);
  EXPECT_EQ(all.at("load").synchronisations, 0u);
  EXPECT_EQ(all.at("load").allocations, 1u);
  EXPECT_EQ(all.at("work").synchronisations, 1u);
  EXPECT_EQ(all.at("work").stream_waits, 1u);
  ones().index({ones().gt(0)});
  EXPECT_EQ(synchronisations().at("aten::index.Tensor"), 1u);
  EXPECT_EQ(synchronisations().count("aten::gt.Scalar"), 0u);
}

TEST(Counts, OfWhoWaits) {
  at::Tensor t = ones();
  reset_counts();
  const Label inner("work");
  t.sum().item<float>();
  EXPECT_EQ(synchronisations(), (std::map<std::string, uint64_t>{{"aten::_local_scalar_dense in work", 1}}));
}

}  // namespace
}  // namespace weft::checked_device
