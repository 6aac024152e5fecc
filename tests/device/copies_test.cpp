// Copies between a device and the host beside its work: on other streams than compute's, with the CPU's bits, and what the
// checked device says of a wait that their caller leaves out.
#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <c10/core/StreamGuard.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "tests/device/on_device.h"
#include "weft/checked_device.h"
#include "weft/engine/pinned_store.h"

namespace weft::device_copies_test {
namespace {

using testing::HasSubstr;

struct Row {
  std::string name;
  int ranks = 1;
  std::vector<Offload LayoutOptions::*> kinds = {};
  Precision precision = Precision::fp32;
};
void PrintTo(const Row& row, std::ostream* out) { *out << row.name; }

std::vector<Row> rows() {
  const std::pair<const char*, Offload LayoutOptions::*> kinds[] = {{"activations", &LayoutOptions::offload_activations},
                                                                    {"parameters", &LayoutOptions::offload_parameters},
                                                                    {"optimizer", &LayoutOptions::offload_optimizer}};
  std::vector<Row> all;
  for (const int ranks : {1, 2, 4}) {
    Row everything{fmt::format("all_{}", ranks), ranks};
    for (const auto& [name, kind] : kinds) {
      everything.kinds.push_back(kind);
      if (ranks == 1) all.push_back({fmt::format("{}_{}", name, ranks), ranks, {kind}});
    }
    all.push_back(everything);
  }
  all.push_back(all.back());
  all.back().name = "all_bf16";
  all.back().precision = Precision::bf16;
  return all;
}

class Copies : public testing::TestWithParam<Row> {
 protected:
  static constexpr int kSteps = 2, kSamples = 3;

  static Strategy strategy(bool offloads, bool pinned = false) {
    Strategy s{.micro_batch = kSamples, .slots = 4, .clip = 0.05, .spread = Spread::shard};
    s.layout.shard_level = ShardLevel::parameters;
    s.layout.recompute_every = 1;
    s.layout.precision = GetParam().precision;
    s.pinned = pinned;
    for (const auto kind : GetParam().kinds) s.layout.*kind = offloads ? Offload::host : Offload::none;
    return s;
  }

  /// Copies of all ranks' steps.
  static checked_device::Counts copies(const Strategy& strategy) {
    Strategy counted = on_device(strategy);
    counted.around = [](int, int, const std::function<void()>& run) {
      const checked_device::Label label("step");
      run();
    };
    checked_device::reset_counts();
    train_ranks(job("gpt"), counted, GetParam().ranks, AdamW{}, kSteps);
    EXPECT_EQ(said_of_device(), "");
    return checked_device::counts()["step"];
  }
};

TEST_P(Copies, ChangeNoBits) {
  Strategy on_cpu = strategy(true);
  on_cpu.operators = on_cpu.float32_rates = true;
  Strategy there = on_device(strategy(true, /*pinned=*/true));
  there.float32_rates = true;
  const Trained actual = train_ranks(job("gpt"), there, GetParam().ranks, AdamW{}, 3);
  EXPECT_EQ(said_of_device(), "");
  expect_equal(actual, train_ranks(job("gpt"), on_cpu, GetParam().ranks, AdamW{}, 3), "the CPU");
}

TEST_P(Copies, OfOffloadAreNotOnTheStreamThatComputes) {
  on_device({});
  const checked_device::Counts with = copies(strategy(true)), without = copies(strategy(false));
  EXPECT_GT(with.copies, without.copies + 10);
  EXPECT_EQ(with.copies - with.copies_beside, without.copies - without.copies_beside);
}

TEST_P(Copies, OfMicroBatchesAreNotEither) {
  on_device({});
  for (const bool pinned : {true, false}) {
    EXPECT_EQ(copies(strategy(false, pinned)).copies_beside, 2U * kSteps * kGlobalBatch / kSamples)
        << "of each micro-batch an input and a target, pinned: " << pinned;
  }
}

INSTANTIATE_TEST_SUITE_P(Table, Copies, testing::ValuesIn(rows()), [](const auto& info) { return info.param.name; });

/// One buffer of a store, and tensors on the device.
class Store : public testing::Test {
 protected:
  static constexpr int64_t kNumel = 64;

  Store() : device_(on_device({}).device(0)), store_(pinned_offload(CopyStreams(device_))) {
    room_ = store_->reserve(kNumel * 4);
    checked_device::set_throws(false);
    checked_device::take_violations();
  }
  ~Store() override {
    store_.reset();
    checked_device::set_throws(true);
    checked_device::take_violations();
  }
  at::Tensor ones() const { return at::ones({kNumel}, device_); }
  void put(at::Tensor tensor) {
    store_->put(room_, tensor);
    store_->retire(std::move(tensor));
  }
  /// In memory of the stream that copies.
  at::Tensor get() {
    const c10::OptionalStreamGuard arriving(store_->arrivals());
    at::Tensor tensor = at::empty({kNumel}, device_);
    store_->get(room_, tensor);
    return tensor;
  }

  at::Device device_;
  std::unique_ptr<OffloadStore> store_;
  int room_ = -1;
};

TEST_F(Store, GivesBackWhatItTook) {
  put(ones());
  store_->settle();
  at::Tensor back = get();
  store_->arrived().wait();
  EXPECT_EQ(back.sum().item<float>(), kNumel);
  store_->retire(std::move(back));
  store_->recycle();
  EXPECT_EQ(said_of_device(), "");
}

/// Neither direction waits for work that comes later, nor work for it.
TEST_F(Store, CopiesAreBesideTheWork) {
  put(ones());
  const at::Tensor later = ones();
  at::Tensor back = get();
  {
    const c10::StreamGuard guard(*store_->arrivals());
    later.sum();
  }
  EXPECT_THAT(said_of_device(), HasSubstr("it does not wait for that"));
  store_->settle();
  store_->arrived().wait();
  store_->retire(std::move(back));
  store_->recycle();
}

struct Fault {
  const char* name;
  std::function<void(OffloadStore&, int, at::Tensor)> use;
  const char* said;
};
void PrintTo(const Fault& fault, std::ostream* out) { *out << fault.name; }

class StoreFaults : public Store, public testing::WithParamInterface<Fault> {};

TEST_P(StoreFaults, AreFound) {
  put(ones());
  store_->settle();
  GetParam().use(*store_, room_, ones());
  EXPECT_THAT(said_of_device(), HasSubstr(GetParam().said));
}

INSTANTIATE_TEST_SUITE_P(Table, StoreFaults,
                         testing::Values(Fault{"used_before_it_has_arrived",
                                               [](OffloadStore& store, int room, const at::Tensor& tensor) {
                                                 store.get(room, tensor);
                                                 tensor.sum();
                                                 store.arrived().wait();
                                               },
                                               "copy to the device"},
                                         Fault{"written_while_it_leaves",
                                               [](OffloadStore& store, int room, const at::Tensor& tensor) {
                                                 store.put(room, tensor);
                                                 tensor.add_(1);
                                                 store.retire(tensor);
                                                 store.settle();
                                               },
                                               "copy to the host"},
                                         Fault{
                                             "freed_while_it_leaves",
                                             [](OffloadStore& store, int room, at::Tensor tensor) { store.put(room, tensor); },
                                             "are freed while copy to the host"}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace weft::device_copies_test
