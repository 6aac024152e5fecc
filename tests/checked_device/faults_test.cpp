// Each kind of fault, made on purpose, and its message; and next to it the right way, of which nothing is said.
#include <ATen/ATen.h>
#include <ATen/DeviceAccelerator.h>
#include <gtest/gtest.h>

#include <functional>
#include <ostream>
#include <thread>

#include "tests/checked_device/device.h"

namespace weft::checked_device {
namespace {

/// Waits of the host that end all that was asked for before.
void settle() {
  for (int i = 0; i < at::accelerator::deviceCount(); ++i) at::accelerator::synchronizeDevice(static_cast<at::DeviceIndex>(i));
}

struct Fault {
  const char* name;
  std::function<void()> make;
  const char* said;  ///< part of the message; "": nothing may be said
};
void PrintTo(const Fault& fault, std::ostream* out) { *out << fault.name; }

at::Tensor ones(int index = 0) { return at::ones({16}, on(index)); }

/// Memory written on a stream of its own, which nobody has waited for.
struct Written {
  c10::Stream stream = new_stream_of();
  at::Tensor tensor = ones();
  Written() {
    follow(stream, stream_of());
    const c10::StreamGuard guard(stream);
    tensor.add_(1);
  }
};

at::Tensor pinned(int64_t size = 16) { return at::ones({size}, at::TensorOptions().pinned_memory(true)); }

const Fault kFaults[] = {
    {"ReadAfterWrite",
     [] {
       Written w;
       at::Tensor sum = w.tensor.sum();
     },
     "aten::sum.dim_IntList (launch"},
    {"ReadAfterWriteWaits",
     [] {
       Written w;
       follow(stream_of(), w.stream);
       at::Tensor sum = w.tensor.sum();
       w.tensor.record_stream(w.stream);
     },
     ""},
    {"WriteAfterRead",
     [] {
       at::Tensor t = ones();
       const c10::Stream other = new_stream_of();
       follow(other, stream_of());
       {
         const c10::StreamGuard guard(other);
         at::Tensor read = t * 2;
       }
       t.record_stream(other);
       t.zero_();
     },
     "aten::mul"},
    {"WriteAfterWrite",
     [] {
       Written w;
       w.tensor.record_stream(w.stream);
       w.tensor.zero_();
     },
     "writes 64 bytes made by"},
    {"DefaultStreamDoesNotWaitForOthers",
     [] {
       Written w;
       w.tensor.record_stream(w.stream);
       w.tensor.add_(1);
     },
     "the default stream of device 0"},
    {"OthersDoNotWaitForTheDefaultStream",
     [] {
       at::Tensor t = ones();
       const c10::StreamGuard guard(new_stream_of());
       at::Tensor read = t + 1;
     },
     "it does not wait for that"},
    {"HostWaits",
     [] {
       Written w;
       w.stream.synchronize();
       w.tensor.add_(1);
     },
     ""},
    {"EventIsRecordedTooEarly",
     [] {
       at::Tensor t = ones();
       const c10::Stream other = new_stream_of();
       c10::Event event(kType);
       event.record(stream_of());
       t.add_(1);
       event.block(other);
       const c10::StreamGuard guard(other);
       at::Tensor read = t + 1;
     },
     "which aten::add_.Tensor (launch"},
    {"PartsOfABufferAreSeparate",
     [] {
       at::Tensor flat = ones();
       const c10::Stream other = new_stream_of();
       follow(other, stream_of());
       {
         const c10::StreamGuard guard(other);
         flat.narrow(0, 0, 8).add_(1);
       }
       flat.narrow(0, 8, 8).add_(1);
       flat.record_stream(other);
     },
     ""},
    {"PartsOfABufferOverlap",
     [] {
       at::Tensor flat = ones();
       const c10::Stream other = new_stream_of();
       follow(other, stream_of());
       {
         const c10::StreamGuard guard(other);
         flat.narrow(0, 0, 9).add_(1);
       }
       flat.record_stream(other);
       flat.narrow(0, 8, 8).add_(1);
     },
     "it does not wait for that"},
    {"ColumnsOfAMatrixAreSeparate",
     [] {
       at::Tensor matrix = at::ones({4, 8}, on());
       const c10::Stream other = new_stream_of();
       follow(other, stream_of());
       {
         const c10::StreamGuard guard(other);
         matrix.narrow(1, 0, 4).add_(1);
       }
       matrix.narrow(1, 4, 4).add_(1);
       matrix.record_stream(other);
     },
     ""},
    {"FreedUnderAnotherStream", [] { Written w; }, "are freed while aten::add_.Tensor"},
    {"FreedAfterRecordStream",
     [] {
       Written w;
       w.tensor.record_stream(w.stream);
     },
     ""},
    {"RecordedOnAThirdStream",
     [] {
       Written w;
       w.tensor.record_stream(new_stream_of());
     },
     "call record_stream"},
    {"EventOfAnotherDevice",
     [] {
       c10::Event event(kType);
       event.record(stream_of(0));
       event.record(stream_of(1));
     },
     "an event of device 0 is recorded on"},
    {"TensorsOfHostAndDevice", [] { at::add(ones(), at::ones({16})); }, "is given tensors of the CPU and of device 0"},
    {"ScalarOfTheHostIsWritten", [] { at::ones({}).add_(ones().sum()); }, "is given tensors of the CPU and of device 0"},
    {"IndicesOfTheHost",
     [] {
       ones().index({at::tensor({1, 3})});
     },
     ""},
    {"ValuesOfTheHost",
     [] {
       ones().index_select(0, at::tensor({1, 3}));
     },
     "is given tensors of the CPU and of device 0"},
    {"CopyOfPagesIsNotWaitedFor",
     [] {
       at::Tensor there = at::ones({16}).to(device(), at::kFloat, /*non_blocking=*/true);
       const c10::StreamGuard guard(new_stream_of());
       at::Tensor sum = there.sum();
     },
     "which copy to the device (launch"},
    {"TensorsOfTwoDevices", [] { at::add(ones(0), ones(1)); }, "is given tensors of devices 0 and 1"},
    {"NoSuchDevice", [] { at::ones({2}, at::TensorOptions().device(at::Device(kType, 9))); }, "there is no device 9 of 4"},
    {"AllocationOnAnothersDevice",
     [] {
       const OwnDevice own(3);
       at::ones({4}, on(0));
     },
     "on device 0 for work of device 3"},
    {"GuardIsStillOn",
     [] {
       {
         const OwnDevice own(3);
         at::accelerator::setDeviceIndex(1);
       }
       at::accelerator::setDeviceIndex(0);
     },
     "the current device is 1 at the end of work of device 3"},
    {"MemoryOfAnother", [] { at::from_blob(ones().data_ptr(), {16}, on()).add_(1); }, "the device's allocator did not make"},
    {"InstalledTwice", [] { install(); }, "install() is called twice"},
    {"PinnedIsFreedUnderACopy",
     [] {
       at::Tensor host = pinned();
       at::Tensor there = host.to(device(), at::kFloat, /*non_blocking=*/true);
       host = at::Tensor();
     },
     "bytes of pinned memory are freed while copy to the device"},
    {"PinnedIsWrittenByTwoCopies",
     [] {
       at::Tensor host = pinned(), there = ones();
       const c10::Stream other = new_stream_of();
       follow(other, stream_of());
       host.copy_(there, true);
       {
         const c10::StreamGuard guard(other);
         host.copy_(there, true);
       }
       there.record_stream(other);
       settle();
     },
     "pinned memory that copy to the host"},
    {"PinnedIsReadByTwoCopies",
     [] {
       at::Tensor host = pinned();
       at::Tensor a = host.to(device(), at::kFloat, true), b = host.to(device(), at::kFloat, true);
       settle();
     },
     ""},
    {"CopyToAnotherDeviceWaitsForBoth",
     [] {
       at::Tensor there = ones(0).to(device(1));
       there.add_(1);
     },
     ""},
    {"CopyToAnotherDeviceFromABusyStream",
     [] {
       Written w;
       w.tensor.record_stream(w.stream);
       w.tensor.to(device(1));
     },
     "copy between devices"},
    {"StorageIsResizedOutside", [] { at::detail::getPrivateUse1Hooks().resizePrivateUse1Bytes(ones().storage(), 8); },
     "is resized outside an operator"},
};

class Faults : public testing::TestWithParam<Fault> {};

TEST_P(Faults, AreNamed) {
  device();
  settle();
  take_violations();
  const std::string thrown = error_of(GetParam().make);
  settle();
  const std::string said = thrown + "\n" + violations();
  if (*GetParam().said == 0) {
    EXPECT_EQ(said, "\n");
  } else {
    EXPECT_NE(said.find(GetParam().said), std::string::npos) << said;
  }
}

INSTANTIATE_TEST_SUITE_P(Table, Faults, testing::ValuesIn(kFaults), [](const auto& info) { return info.param.name; });

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
       at::Tensor host = pinned(), there = host.to(device(), at::kFloat, true);
       sink = host.data_ptr<float>()[0];  // reading is allowed
       host.data_ptr<float>()[1] = 2;
     },
     "byte 4 of 64 bytes of pinned memory that copy to the device .* reads; the host has not waited"},
    {"ReadsATargetOfACopy",
     [] {
       at::Tensor host = pinned();
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
  at::Tensor there = ones() * 3, down = pinned(), up = pinned();
  down.copy_(there, true);
  there.copy_(up, true);
  c10::Event event(kType);
  event.record(stream_of());
  event.synchronize();
  EXPECT_EQ(down.data_ptr<float>()[0], 3);
  up.data_ptr<float>()[0] = 2;
  EXPECT_EQ(violations(), "");
}

TEST(Violations, AreKeptOnlyWhereThrowingIsOff) {
  settle();
  take_violations();
  set_throws(false);
  {
    const Label label("step 3");
    Written w;
    w.tensor.record_stream(w.stream);
    w.tensor.zero_();
  }
  set_throws(true);
  const std::vector<std::string> all = take_violations();
  ASSERT_EQ(all.size(), 1u);
  EXPECT_NE(all[0].find("; in step 3"), std::string::npos) << all[0];
  settle();
}

TEST(Counts, AreOfTheLabel) {
  at::Tensor host = pinned();
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
