// Memory of the device and pinned memory of the host: the limit, and touches of the host that it may not make.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <functional>
#include <ostream>

#include "tests/checked_device/device.h"

namespace weft::checked_device {
namespace {

TEST(MemoryLimit, IsKeptPerDevice) {
  device();
  set_memory_limit(2 << 20);
  reset_peak_memory(1);
  const size_t before = memory(1).allocated;
  EXPECT_NE(error_of([] { at::empty({1 << 20}, on(1)); }).find("4194304 bytes asked for by aten::empty"), std::string::npos);
  EXPECT_NE(error_of([] { at::empty_strided({1 << 20}, {1}, on(1)); }).find("asked for by aten::empty_strided"),
            std::string::npos);
  {
    at::Tensor small = at::empty({1}, on(1)), large = at::empty({1 << 18}, on(1));
    EXPECT_EQ(memory(1).allocated - before, (size_t{1} << 20) + 512);
  }
  set_memory_limit(0);
  EXPECT_EQ(memory(1).allocated, before);
  EXPECT_EQ(memory(1).peak_allocated - before, (size_t{1} << 20) + 512);
}

TEST(NewMemory, IsNotANumber) {
  at::Tensor t = at::empty({4}, on());
  EXPECT_TRUE(t.isnan().all().item<bool>());
}

/// Touches of the host, which end the process.
struct Touch {
  const char* name;
  std::function<void()> make;
  const char* said;  ///< regular expression
};
void PrintTo(const Touch& touch, std::ostream* out) { *out << touch.name; }

volatile float sink;

const Touch kTouches[] = {
    {"Read", [] { sink = ones().add_(1).data_ptr<float>()[3]; },
     "the host touches byte 12 of 64 bytes.* of device 0, made by aten::empty.*last used by aten::add_"},
    {"WriteAfterFree",
     [] {
       at::Tensor t = ones();
       float* at = t.data_ptr<float>();
       t = at::Tensor();
       at[0] = 1;
     },
     "byte 0 of 64 bytes, freed, of device 0"},
    {"BehindTheEnd", [] { sink = ones().data_ptr<float>()[20]; }, "byte 80 of 64 bytes \\(behind their end\\)"},
    {"WritesASourceOfACopy",
     [] {
       at::Tensor host = pinned_ones(), there = host.to(device(), at::kFloat, true);
       sink = host.data_ptr<float>()[0];  // reading is allowed
       host.data_ptr<float>()[1] = 2;
     },
     "byte 4 of 64 bytes of pinned memory that copy to the device .* reads; the host has not waited"},
    {"ReadsATargetOfACopy",
     [] {
       at::Tensor host = pinned_ones();
       host.copy_(ones(), true);
       sink = host.data_ptr<float>()[2];
     },
     "byte 8 of 64 bytes of pinned memory that copy to the host .* writes; the host has not waited"},
};

class Touches : public testing::TestWithParam<Touch> {};

TEST_P(Touches, EndTheProcess) {
  device();
  EXPECT_DEATH(GetParam().make(), GetParam().said);
}

INSTANTIATE_TEST_SUITE_P(Table, Touches, testing::ValuesIn(kTouches), [](const auto& info) { return info.param.name; });

TEST(Pinned, OpensOnceTheHostHasWaited) {
  at::Tensor there = ones() * 3, down = pinned_ones(), up = pinned_ones();
  down.copy_(there, true);
  there.copy_(up, true);
  c10::Event event(kType);
  event.record(stream_of());
  event.synchronize();
  EXPECT_EQ(down.data_ptr<float>()[0], 3);
  up.data_ptr<float>()[0] = 2;
  EXPECT_EQ(violations(), "");
}

}  // namespace
}  // namespace weft::checked_device
