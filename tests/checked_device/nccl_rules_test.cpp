// NCCL's rules, each broken by ranks together, and what is said of it.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <functional>
#include <ostream>

#include "tests/checked_device/nccl_ranks.h"

namespace weft::checked_device {
namespace {

/// A fault, made by all ranks together, and what is said of it.
struct NcclFault {
  const char* name;
  int size;
  std::function<void(const Rank&, c10d::Backend&)> make;
  const char* said;  ///< ""; nothing
};
void PrintTo(const NcclFault& fault, std::ostream* out) { *out << fault.name; }

const NcclFault kNcclFaults[] = {
    {"ResultIsUsedBeforeWait", 2,
     [](const Rank& r, c10d::Backend& engine) {
       Tensors t{at::ones({8}, r.on())};
       const auto work = engine.allreduce(t);
       const at::Tensor sum = t[0].sum();
       work->wait();
     },
     "which nccl all_reduce (launch"},
    {"SourceIsOverwrittenBeforeWait", 2,
     [](const Rank& r, c10d::Backend& engine) {
       at::Tensor part = at::ones({8}, r.on()), all = at::ones({16}, r.on());
       const auto work = engine._allgather_base(all, part);
       part.zero_();
       work->wait();
     },
     "which nccl all_gather (launch"},
    {"AnotherStreamWaits", 2,
     [](const Rank& r, c10d::Backend& engine) {
       Tensors t{at::ones({8}, r.on())};
       const auto work = engine.allreduce(t);
       {
         const c10::StreamGuard guard(new_stream_of(r.rank));
         work->wait();
       }
       t[0].add_(1);
     },
     "which nccl all_reduce (launch"},
    {"InputIsNotWaitedForByTheCaller", 2,
     [](const Rank& r, c10d::Backend& engine) {
       Tensors t{at::ones({8}, r.on())};
       const c10::StreamGuard guard(new_stream_of(r.rank));
       engine.allreduce(t)->wait();
     },
     "nccl all_reduce (launch"},
    {"BuffersAreDroppedBeforeWait", 2,
     [](const Rank& r, c10d::Backend& engine) {
       Tensors t{at::ones({8}, r.on())};
       engine.allreduce(t);
       t.clear();
     },
     ""},
    {"DifferentCalls", 2,
     [](const Rank& r, c10d::Backend& engine) {
       Tensors t{at::ones({8}, r.on())};
       (r.rank == 0 ? engine.allreduce(t) : engine.broadcast(t))->wait();
     },
     "dp of ranks 0, 1: rank 0 calls ALLREDUCE of 8 Float, rank 1 calls BROADCAST of 8 Float from rank 0"},
    {"DifferentSizes", 2,
     [](const Rank& r, c10d::Backend& engine) {
       Tensors t{at::ones({8 + r.rank}, r.on())};
       engine.allreduce(t)->wait();
     },
     "rank 1 calls ALLREDUCE of 9 Float"},
    {"DifferentTypes", 2,
     [](const Rank& r, c10d::Backend& engine) {
       Tensors t{at::ones({8}, r.on().dtype(r.rank == 0 ? at::kFloat : at::kHalf))};
       engine.allreduce(t)->wait();
     },
     "rank 1 calls ALLREDUCE of 8 Half"},
    {"BothSend", 2,
     [](const Rank& r, c10d::Backend& engine) {
       Tensors out{at::ones({8}, r.on())}, in{at::ones({8}, r.on())};
       const auto sent = engine.send(out, 1 - r.rank, 0), got = engine.recv(in, 1 - r.rank, 0);
       sent->wait();
       got->wait();
     },
     "dp of ranks 0, 1, pair 0-1: rank 0 calls send of 8 Float, rank 1 calls send of 8 Float"},
    {"MessageOfAnotherSize", 2,
     [](const Rank& r, c10d::Backend& engine) {
       Tensors t{at::ones({8 + r.rank}, r.on())};
       (r.rank == 0 ? engine.send(t, 1, 0) : engine.recv(t, 0, 0))->wait();
     },
     "rank 0 calls send of 8 Float, rank 1 calls receive of 9 Float"},
    {"CommunicatorsInOtherOrders", 2,
     [](const Rank& r, c10d::Backend& engine) {
       const Engine other = r.group("tp");
       engine.eagerConnectSingleDevice(device(r.rank));
       other->eagerConnectSingleDevice(device(r.rank));
       Tensors a{at::ones({8}, r.on())}, b{at::ones({8}, r.on())};
       const auto first = r.rank == 0 ? engine.allreduce(a) : other->allreduce(b);
       const auto second = r.rank == 0 ? other->allreduce(b) : engine.allreduce(a);
       first->wait();
       second->wait();
       settle(r);
     },
     "two communicators with these ranks in other orders may deadlock"},
    {"MessageAndCollectiveInOtherOrders", 2,
     [](const Rank& r, c10d::Backend& engine) {
       Tensors a{at::ones({8}, r.on())}, b{at::ones({8}, r.on())};
       const auto message = [&] { return r.rank == 0 ? engine.send(b, 1, 0) : engine.recv(b, 0, 0); };
       // Both reach their first call of each communicator, so that neither blocks in making it.
       message()->wait();
       engine.allreduce(a)->wait();
       const auto first = r.rank == 0 ? engine.allreduce(a) : message(), second = r.rank == 0 ? message() : engine.allreduce(a);
       first->wait();
       second->wait();
       settle(r);
     },
     "in other orders may deadlock"},
    {"CommunicatorsInOneOrder", 2,
     [](const Rank& r, c10d::Backend& engine) {
       const Engine other = r.group("tp");
       Tensors a{at::ones({8}, r.on())}, b{at::ones({8}, r.on())};
       const auto first = engine.allreduce(a), second = other->allreduce(b);
       first->wait();
       second->wait();
       settle(r);
     },
     ""},
    {"DestroyedUnderACall", 2,
     [](const Rank& r, c10d::Backend&) {
       const Engine other = r.group("tp");
       Tensors t{at::ones({8}, r.on())};
       other->allreduce(t)->wait();
     },
     "tp of ranks 0, 1: destroyed without shutdown() before the host has waited for all calls"},
    {"ShutdownWaits", 2,
     [](const Rank& r, c10d::Backend& engine) {
       Tensors t{at::ones({8}, r.on())};
       engine.allreduce(t)->wait();
       engine.shutdown();
       expect_equal(t[0], at::full({8}, 2.F));
     },
     ""},
    {"TensorOfAnotherDevice", 1,
     [](const Rank&, c10d::Backend& engine) {
       Tensors t{at::ones({8}, on(2))};
       engine.allreduce(t)->wait();
     },
     "is of checked:0, but a tensor is on checked:2"},
    {"TensorWithGaps", 1,
     [](const Rank& r, c10d::Backend& engine) {
       Tensors t{at::ones({8, 8}, r.on()).narrow(1, 0, 4)};
       engine.allreduce(t)->wait();
     },
     "must be contiguous"},
    {"CallAfterAbort", 1,
     [](const Rank& r, c10d::Backend& engine) {
       engine.abort();
       Tensors t{at::ones({8}, r.on())};
       engine.allreduce(t)->wait();
     },
     "NCCL communicator was aborted on rank 0"},
};

class NcclFaults : public testing::TestWithParam<NcclFault> {};

TEST_P(NcclFaults, AreNamed) {
  take_violations();
  const NcclFault& fault = GetParam();
  std::string said = run(fault.size, [&](const Rank& r) {
    const Engine engine = r.group("dp");
    std::string error = error_of([&] { fault.make(r, *engine); });
    settle(r);
    // No rank may end the other's calls before they are done.
    r.store->set("end " + std::to_string(r.rank), std::vector<uint8_t>{1});
    for (int rank = 0; rank < r.size; ++rank) r.store->wait({"end " + std::to_string(rank)});
    engine->shutdown();
    TORCH_CHECK(error.empty(), error);
  });
  said += violations();
  if (*fault.said == 0) {
    EXPECT_EQ(said, "");
  } else {
    EXPECT_NE(said.find(fault.said), std::string::npos) << said;
  }
}

INSTANTIATE_TEST_SUITE_P(Table, NcclFaults, testing::ValuesIn(kNcclFaults), [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace weft::checked_device
