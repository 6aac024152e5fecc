// Every operation on every back end, number of ranks, element type and awkward size, compared bit by bit with the reference.
#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros_like.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/comm/reference.h"
#include "tests/support/run_ranks.h"
#include "weft/comm/mesh.h"

namespace weft {
namespace {

using test::make_input;
using test::reduce_all;
using test::run_ranks;
using test::same_bits;
using test::shard_of;

enum class Memory { own, registered, mixed };

struct Row {
  BackendKind backend;
  Memory memory;
  std::string hosts;  ///< host of each rank, one letter per rank

  int ranks() const { return static_cast<int>(hosts.size()); }
};

std::vector<std::string> hosts_of(const std::string& letters) {
  std::vector<std::string> hosts;
  for (const char letter : letters) hosts.push_back(fmt::format("host {}", letter));
  return hosts;
}

std::string name_of(const testing::TestParamInfo<Row>& info) {
  const Row& row = info.param;
  const char* memory = row.memory == Memory::own ? "" : row.memory == Memory::registered ? "registered" : "mixed";
  const std::string where = row.backend == BackendKind::automatic ? row.hosts : std::to_string(row.ranks());
  return fmt::format("{}{}_{}", kBackends.of(row.backend), memory, where);
}

class Collectives : public testing::TestWithParam<Row> {
 protected:
  void run(const std::function<void(const Group&)>& body) const {
    const Row row = GetParam();
    const auto on_rank = [&](World world) {
      const Mesh mesh(world, {{"dp", row.ranks()}});
      body(mesh.group(mesh.axis("dp"), {.backend = row.backend, .timeout = std::chrono::seconds(20), .tree_order = true}));
    };
    run_ranks(row.ranks(), on_rank,
              {.hosts = row.backend == BackendKind::automatic ? hosts_of(row.hosts) : std::vector<std::string>()});
  }

  // A tensor in the row's kind of memory.
  at::Tensor make(const Group& group, int64_t numel, at::ScalarType dtype) const {
    const Memory memory = GetParam().memory;
    if (memory == Memory::own) return at::empty({numel}, at::TensorOptions().dtype(dtype));
    const at::Tensor registered = group.allocate(numel, dtype, "tensor");
    return memory == Memory::registered || group.rank() % 2 == 0 ? registered : at::empty_like(registered);
  }
  at::Tensor make(const Group& group, const at::Tensor& values) const {
    at::Tensor tensor = make(group, values.numel(), values.scalar_type());
    tensor.copy_(values);
    return tensor;
  }
};

const int64_t kSizes[] = {0, 1, 7, 64, 1000, 100003};

std::vector<at::Tensor> inputs_of(int ranks, int64_t numel, at::ScalarType dtype) {
  std::vector<at::Tensor> inputs;
  for (int rank = 0; rank < ranks; ++rank) inputs.push_back(make_input(rank, numel, dtype));
  return inputs;
}

void expect(bool holds, const Group& group, std::string_view operation, int64_t numel, at::ScalarType dtype) {
  if (!holds) {
    throw std::runtime_error(
        fmt::format("{} of {} {} on {} differs from the reference", operation, numel, c10::toString(dtype), group.backend()));
  }
}

TEST_P(Collectives, Reduce) {
  run([&](const Group& group) {
    for (at::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kHalf, at::kDouble, at::kLong}) {
      for (ReduceOp op : {ReduceOp::sum, ReduceOp::max, ReduceOp::min}) {
        for (int64_t numel : kSizes) {
          if (numel > 1000 && op != ReduceOp::sum) continue;
          const auto inputs = inputs_of(group.size(), numel, dtype);
          const at::Tensor expected = reduce_all(inputs, op);
          const at::Tensor tensor = make(group, inputs[group.rank()]);
          group.all_reduce(tensor, op, "sums").wait();
          expect(same_bits(tensor, expected), group, "all_reduce", numel, dtype);

          const at::Tensor own = shard_of(expected, group.size(), group.rank());
          const at::Tensor input = make(group, inputs[group.rank()]);
          const at::Tensor output = at::empty({own.numel()}, input.options());
          group.reduce_scatter(output, input, op, "shards").wait();
          expect(same_bits(output, own), group, "reduce_scatter", numel, dtype);
          expect(same_bits(input, inputs[group.rank()]), group, "reduce_scatter's input", numel, dtype);
        }
      }
    }
  });
}

TEST_P(Collectives, Move) {
  run([&](const Group& group) {
    const int size = group.size(), me = group.rank();
    for (at::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kLong, at::kByte}) {
      for (int64_t numel : kSizes) {
        const at::Tensor whole = make_input(99, numel, dtype);
        const at::Tensor own = shard_of(whole, size, me);

        at::Tensor gathered = make(group, at::empty_like(whole).zero_());
        group.all_gather(gathered, own.clone(), "weights").wait();
        expect(same_bits(gathered, whole), group, "all_gather", numel, dtype);
        gathered.zero_();
        shard_of(gathered, size, me).copy_(own);
        group.all_gather(gathered, shard_of(gathered, size, me), "weights in place").wait();
        expect(same_bits(gathered, whole), group, "all_gather in place", numel, dtype);

        for (int root : {0, size - 1}) {
          const at::Tensor tensor = make(group, make_input(me == root ? 50 : 60 + me, numel, dtype));
          group.broadcast(tensor, root, "start").wait();
          expect(same_bits(tensor, make_input(50, numel, dtype)), group, "broadcast", numel, dtype);
        }

        const auto inputs = inputs_of(size, numel, dtype);
        const at::Tensor input = make(group, inputs[me]);
        const at::Tensor output = at::empty({size * own.numel()}, input.options());
        group.all_to_all(output, input, "tokens").wait();
        for (int rank = 0; rank < size; ++rank) {
          const at::Tensor part = output.narrow(0, rank * own.numel(), own.numel());
          expect(same_bits(part, shard_of(inputs[rank], size, me)), group, "all_to_all", numel, dtype);
        }
      }
    }
    group.barrier("end").wait();
  });
}

// Around the ring, all at once: every rank sends before it receives.
TEST_P(Collectives, Messages) {
  run([&](const Group& group) {
    const int size = group.size(), me = group.rank();
    if (size == 1) return;
    for (int64_t numel : {0, 1, 1000, 700001}) {
      Work sent = group.send(make_input(me, numel, at::kFloat), (me + 1) % size, "activation");
      const at::Tensor received = at::empty({numel}, at::kFloat);
      const int from = (me + size - 1) % size;
      group.receive(received, from, "activation").wait();
      sent.wait();
      expect(same_bits(received, make_input(from, numel, at::kFloat)), group, "send", numel, at::kFloat);
    }
    group.barrier("end").wait();
  });
}

// Several in flight both ways, waited for in the opposite order.
TEST_P(Collectives, MessagesWaitedForInAnyOrder) {
  run([&](const Group& group) {
    const int size = group.size(), me = group.rank();
    if (size == 1) return;
    const int to = (me + 1) % size, from = (me + size - 1) % size;
    const std::vector<int64_t> numels = {1000, 500000, 3, 400000};
    std::vector<Work> sends, receives;
    std::vector<at::Tensor> received;
    for (const int64_t numel : numels) {
      received.push_back(at::empty({numel}, at::kFloat));
      receives.push_back(group.receive(received.back(), from, "message " + std::to_string(numel)));
    }
    for (const int64_t numel : numels) {
      sends.push_back(group.send(make_input(me, numel, at::kFloat), to, "message " + std::to_string(numel)));
    }
    for (size_t i = numels.size(); i-- > 0;) {
      receives[i].wait();
      expect(same_bits(received[i], make_input(from, numels[i], at::kFloat)), group, "send", numels[i], at::kFloat);
    }
    for (Work& send : sends) send.wait();
    group.barrier("end").wait();
  });
}

INSTANTIATE_TEST_SUITE_P(
    Shm, Collectives,
    testing::Values(Row{BackendKind::shm, Memory::own, "a"}, Row{BackendKind::shm, Memory::own, "aa"},
                    Row{BackendKind::shm, Memory::own, "aaa"}, Row{BackendKind::shm, Memory::own, "aaaa"},
                    Row{BackendKind::shm, Memory::own, "aaaaaaaaaaaaaaaa"}, Row{BackendKind::shm, Memory::registered, "aa"},
                    Row{BackendKind::shm, Memory::registered, "aaa"}, Row{BackendKind::shm, Memory::registered, "aaaa"},
                    Row{BackendKind::shm, Memory::mixed, "aa"}, Row{BackendKind::shm, Memory::mixed, "aaaa"}),
    name_of);
INSTANTIATE_TEST_SUITE_P(Gloo, Collectives,
                         testing::Values(Row{BackendKind::gloo, Memory::own, "a"}, Row{BackendKind::gloo, Memory::own, "aa"},
                                         Row{BackendKind::gloo, Memory::own, "aaa"},
                                         Row{BackendKind::gloo, Memory::own, "aaaa"}),
                         name_of);

INSTANTIATE_TEST_SUITE_P(
    Hosts, Collectives,
    testing::Values(Row{BackendKind::automatic, Memory::own, "ab"}, Row{BackendKind::automatic, Memory::own, "aabb"},
                    Row{BackendKind::automatic, Memory::registered, "aabb"}, Row{BackendKind::automatic, Memory::mixed, "aabb"},
                    Row{BackendKind::automatic, Memory::own, "aaab"}, Row{BackendKind::automatic, Memory::registered, "abbb"},
                    Row{BackendKind::automatic, Memory::mixed, "abab"}, Row{BackendKind::automatic, Memory::own, "abc"},
                    Row{BackendKind::automatic, Memory::registered, "aabccca"}),
    name_of);

// More than one chunk of the staging areas, in every path, with the same bits in each.
TEST(LargeCollectives, StagedRegisteredAndMixedAgree) {
  for (const std::string letters : {"aa", "aaa", "ab", "aabb", "aaab", "abab"}) {
    const int ranks = static_cast<int>(letters.size());
    const auto on_rank = [ranks](World world) {
      const Mesh mesh(world, {{"dp", ranks}});
      const Group group = mesh.group(mesh.axis("dp"), {.tree_order = true});
      const int64_t numel = 1234567;
      const auto inputs = inputs_of(ranks, numel, at::kFloat);
      const at::Tensor expected = reduce_all(inputs, ReduceOp::sum);
      const at::Tensor registered = group.allocate(numel, at::kFloat, "gradients");
      for (int turn = 0; turn < 3; ++turn) {
        const bool in_place = turn == 1 || (turn == 2 && world.rank() == 0);
        const at::Tensor tensor = in_place ? registered : at::empty({numel}, at::kFloat);
        tensor.copy_(inputs[world.rank()]);
        group.all_reduce(tensor, ReduceOp::sum, "gradients").wait();
        expect(same_bits(tensor, expected), group, "all_reduce", numel, at::kFloat);
        tensor.copy_(inputs[world.rank()]);
        const at::Tensor shard = at::empty_like(shard_of(expected, ranks, world.rank()));
        group.reduce_scatter(shard, tensor, ReduceOp::sum, "shard").wait();
        expect(same_bits(shard, shard_of(expected, ranks, world.rank())), group, "reduce_scatter", numel, at::kFloat);
        tensor.zero_();
        group.all_gather(tensor, shard, "weights").wait();
        expect(same_bits(tensor, expected), group, "all_gather", numel, at::kFloat);
      }
    };
    run_ranks(ranks, on_rank, {.hosts = hosts_of(letters)});
  }
}

// A bucket is a part of a registered buffer.
TEST(LargeCollectives, PartsOfARegisteredBuffer) {
  run_ranks(2, [](World world) {
    const Mesh mesh(world, {{"dp", 2}});
    const Group group = mesh.group(mesh.axis("dp"));
    const at::Tensor buffer = group.allocate(100000, at::kFloat, "gradients");
    buffer.fill_(1.0f + world.rank());
    group.all_reduce(buffer.narrow(0, 20000, 50000), ReduceOp::sum, "bucket").wait();
    expect(buffer[19999].item<float>() == 1.0f + world.rank(), group, "before the bucket", 1, at::kFloat);
    expect(buffer[20000].item<float>() == 3.0f && buffer[69999].item<float>() == 3.0f, group, "the bucket", 1, at::kFloat);
    expect(buffer[70000].item<float>() == 1.0f + world.rank(), group, "behind the bucket", 1, at::kFloat);
  });
}

// Without tree_order c10d and hosts add in a different order; exact types must still agree.
TEST(OwnOrder, AgreesOnIntegers) {
  struct OwnOrder {
    BackendKind backend;
    const char* hosts;
  };
  for (const OwnOrder row :
       {OwnOrder{BackendKind::gloo, "aaa"}, {BackendKind::automatic, "aab"}, {BackendKind::automatic, "aba"}}) {
    const auto on_rank = [row](World world) {
      const Mesh mesh(world, {{"dp", 3}});
      const Group group = mesh.group(mesh.axis("dp"), {.backend = row.backend});
      for (int64_t numel : kSizes) {
        const auto inputs = inputs_of(3, numel, at::kLong);
        const at::Tensor expected = reduce_all(inputs, ReduceOp::sum);
        const at::Tensor tensor = inputs[world.rank()].clone();
        group.all_reduce(tensor, ReduceOp::sum, "counts").wait();
        expect(same_bits(tensor, expected), group, "all_reduce", numel, at::kLong);
        const at::Tensor shard = at::empty_like(shard_of(expected, 3, world.rank()));
        group.reduce_scatter(shard, inputs[world.rank()], ReduceOp::sum, "shard").wait();
        expect(same_bits(shard, shard_of(expected, 3, world.rank())), group, "reduce_scatter", numel, at::kLong);
      }
    };
    run_ranks(3, on_rank, {.hosts = hosts_of(row.hosts)});
  }
}

// Rounded to bfloat16 between hosts: within 2^-8 of the hosts' sums, and the same on all ranks.
TEST(AcrossHosts, RoundedSumsAreTheSameEverywhere) {
  for (const std::string letters : {"ab", "aabb", "aaab", "abc"}) {
    const int ranks = static_cast<int>(letters.size());
    const auto on_rank = [&](World world) {
      const Mesh mesh(world, {{"dp", ranks}});
      const Group group = mesh.group(mesh.axis("dp"), {.across_hosts = AcrossHosts::bf16});
      const int64_t numel = 300007;
      const auto inputs = inputs_of(ranks, numel, at::kFloat);
      const at::Tensor exact = reduce_all(inputs, ReduceOp::sum), sum = inputs[world.rank()].clone();
      at::Tensor sizes = at::zeros_like(exact);
      for (const at::Tensor& input : inputs) sizes.add_(input.abs());
      group.all_reduce(sum, ReduceOp::sum, "gradients").wait();
      expect((sum - exact).abs().le(sizes * 0x1p-7).all().item<bool>(), group, "all_reduce", numel, at::kFloat);
      expect(!same_bits(sum, exact), group, "rounding of all_reduce", numel, at::kFloat);
      const at::Tensor most = sum.clone(), least = sum.clone();
      group.all_reduce(most, ReduceOp::max, "most").wait();
      group.all_reduce(least, ReduceOp::min, "least").wait();
      expect(same_bits(most, sum) && same_bits(least, sum), group, "all_reduce on other ranks", numel, at::kFloat);
      const at::Tensor own = shard_of(exact, ranks, world.rank()), shard = at::empty_like(own);
      group.reduce_scatter(shard, inputs[world.rank()], ReduceOp::sum, "shard").wait();
      expect((shard - own).abs().le(shard_of(sizes, ranks, world.rank()) * 0x1p-7).all().item<bool>(), group, "reduce_scatter",
             numel, at::kFloat);
      const at::Tensor few = inputs[world.rank()].narrow(0, 0, 100).clone();
      group.all_reduce(few, ReduceOp::sum, "loss").wait();
      expect(at::allclose(few, exact.narrow(0, 0, 100), 1e-6, 1e-6), group, "small all_reduce", 100, at::kFloat);
    };
    run_ranks(ranks, on_rank, {.hosts = hosts_of(letters)});
  }
}

}  // namespace
}  // namespace weft
