// Each kind of fault, made on purpose, and its message; and next to it the right way, of which nothing is said.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <functional>
#include <ostream>

#include "tests/checked_device/device.h"

namespace weft::checked_device {
namespace {

struct Fault {
  const char* name;
  std::function<void()> make;
  const char* said;  ///< part of the message; "": nothing may be said
};
void PrintTo(const Fault& fault, std::ostream* out) { *out << fault.name; }

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
    {"MemoryOfAnother",
     [] {
       std::vector<float> host(16);
       at::from_blob(host.data(), {16}, on()).add_(1);
     },
     "the device's allocator did not make"},
    {"BorrowedIsReadAfterWrite",
     [] {
       Written w;
       at::Tensor sum = at::from_blob(w.tensor.data_ptr<float>() + 4, {8}, on()).sum();
     },
     "aten::sum.dim_IntList (launch"},
    {"BorrowedBesideWhatIsWritten",
     [] {
       Written w;
       w.tensor.record_stream(w.stream);
       const at::Tensor t = ones();
       follow(w.stream, stream_of());
       {
         const c10::StreamGuard guard(w.stream);
         t.narrow(0, 0, 4).add_(1);
       }
       t.record_stream(w.stream);
       at::Tensor sum = at::from_blob(t.data_ptr<float>() + 4, {12}, on()).sum();
     },
     ""},
    {"BorrowedBehindTheEnd",
     [] {
       const at::Tensor t = ones();
       at::from_blob(t.data_ptr<float>() + 4, {16}, on()).add_(1);
     },
     "a tensor borrows 64 bytes from byte 16 of 64 bytes made by"},
    {"BorrowedIsFreed",
     [] {
       at::Tensor t = ones();
       at::Tensor borrowed = at::from_blob(t.data_ptr(), {16}, on());
       t = at::Tensor();
       borrowed.add_(1);
     },
     "or that is freed"},
    {"BorrowedOnAnotherDevice",
     [] {
       const at::Tensor t = ones(1);
       at::from_blob(t.data_ptr(), {16}, on(0)).add_(1);
     },
     "device"},
    {"InstalledTwice", [] { install(); }, "install() is called twice"},
    {"PinnedIsFreedUnderACopy",  // LibTorch's allocator waits for it
     [] {
       at::Tensor host = pinned_ones();
       at::Tensor there = host.to(device(), at::kFloat, /*non_blocking=*/true);
       host = at::Tensor();
     },
     ""},
    {"PinnedIsWrittenByTwoCopies",
     [] {
       at::Tensor host = pinned_ones(), there = ones();
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
       at::Tensor host = pinned_ones();
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

}  // namespace
}  // namespace weft::checked_device
