// One bit that flips on the way, in any operation on any back end: the audit finds it, and says where.
#include "weft/comm/audit/audited_group.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/randn.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/comm/audit/flipping_group.h"
#include "tests/support/run_ranks.h"
#include "weft/comm/mesh.h"

namespace weft::audited_group_test {
namespace {

using test::Flip;

constexpr int64_t kNumel = 1000;
enum class Call { all_reduce, reduce_scatter, all_gather, broadcast, all_to_all, message };
constexpr const char* kNames[] = {"all_reduce", "reduce_scatter", "all_gather", "broadcast", "all_to_all", "message"};

struct Row {
  BackendKind backend = BackendKind::shm;
  int ranks = 2;
  bool tree = true;
  at::ScalarType dtype = at::kFloat;
};

std::string name_of(const testing::TestParamInfo<Row>& info) {
  const Row& row = info.param;
  return fmt::format("{}_{}{}_{}", kBackends.of(row.backend), row.ranks, row.tree ? "" : "_ring", c10::toString(row.dtype));
}

/// What ranks had after a call, and what each found.
struct Outcome {
  std::vector<at::Tensor> results;
  std::vector<std::vector<CallFinding>> found;
};

class AuditedGroups : public testing::TestWithParam<Row> {
 protected:
  static at::Tensor values(int rank, at::ScalarType dtype, int64_t numel = kNumel) {
    return at::randn({numel}, at::detail::createCPUGenerator(static_cast<uint64_t>(rank) + 1), at::kFloat).to(dtype);
  }

  static at::Tensor make(Call call, const Group& group, at::ScalarType dtype) {
    const at::Tensor input = values(group.rank(), dtype);
    const ShardRange own = shard_range(kNumel, group.size(), group.rank());
    const int64_t numel = own.end - own.begin;
    switch (call) {
      case Call::all_reduce:
        group.all_reduce(input, ReduceOp::sum, "gradients").wait();
        return input;
      case Call::reduce_scatter: {
        at::Tensor output = at::empty({numel}, input.options());
        group.reduce_scatter(output, input, ReduceOp::sum, "gradients").wait();
        return output;
      }
      case Call::all_gather: {
        at::Tensor output = at::empty({kNumel}, input.options());
        group.all_gather(output, input.narrow(0, own.begin, numel).clone(), "weights").wait();
        return output;
      }
      case Call::broadcast:
        group.broadcast(input, 0, "values").wait();
        return input;
      case Call::all_to_all: {
        at::Tensor output = at::empty({group.size() * numel}, input.options());
        group.all_to_all(output, input, "parts").wait();
        return output;
      }
      case Call::message:
        if (group.rank() == 0) group.send(input, 1, "activations").wait();
        if (group.rank() == 1) group.receive(input, 0, "activations").wait();
        return input;
    }
    return input;
  }

  /// A call, and the bit that flips in it on a rank.
  struct Trial {
    Call call = Call::all_reduce;
    bool audits = true;
    int rank = -1;
    Flip flip = {};
  };

  std::vector<Outcome> run(const std::vector<Trial>& trials) const {
    const Row row = GetParam();
    std::vector<Outcome> outcomes(trials.size(),
                                  {std::vector<at::Tensor>(row.ranks), std::vector<std::vector<CallFinding>>(row.ranks)});
    std::vector<std::string> hosts;
    for (int rank = 0; rank < row.ranks && row.backend == BackendKind::automatic; ++rank)
      hosts.emplace_back(rank < 2 ? "a" : "b");
    test::run_ranks(row.ranks,
                    [&](World world) {
                      const Mesh mesh(world, {{"dp", row.ranks}});
                      const Axis axis = mesh.axis("dp");
                      Group group = mesh.group(
                          axis, {.backend = row.backend, .timeout = std::chrono::seconds(20), .tree_order = row.tree});
                      const auto flip = std::make_shared<Flip>();
                      const auto audit = std::make_shared<CallAudit>(7);
                      group = audited(test::flipping(group, axis, flip), axis, at::kCPU, audit);
                      for (size_t i = 0; i < trials.size(); ++i) {
                        *flip = world.rank() == trials[i].rank ? trials[i].flip : Flip{};
                        if (trials[i].audits) audit->begin(100);
                        outcomes[i].results[world.rank()] = make(trials[i].call, group, row.dtype).clone();
                        audit->end();
                        outcomes[i].found[world.rank()] = audit->take();
                      }
                    },
                    {.hosts = hosts});
    return outcomes;
  }

  static int64_t count(const Outcome& outcome) {
    int64_t count = 0;
    for (const auto& found : outcome.found) count += static_cast<int64_t>(found.size());
    return count;
  }
  static std::string texts(const Outcome& outcome) {
    std::string text;
    for (const auto& found : outcome.found) {
      for (const CallFinding& finding : found) text += finding.text + "\n";
    }
    return text;
  }
  static bool names(const Outcome& outcome, int rank) {
    for (const auto& found : outcome.found) {
      for (const CallFinding& finding : found) {
        if (std::find(finding.ranks.begin(), finding.ranks.end(), rank) == finding.ranks.end()) return false;
      }
    }
    return true;
  }
};

constexpr Call kCalls[] = {Call::all_reduce, Call::reduce_scatter, Call::all_gather,
                           Call::broadcast,  Call::all_to_all,     Call::message};

bool same(const Outcome& a, const Outcome& b) {
  return std::equal(a.results.begin(), a.results.end(), b.results.begin(),
                    [](const at::Tensor& x, const at::Tensor& y) { return at::equal(x, y); });
}

TEST_P(AuditedGroups, ChangeNoBitAndRaiseNoAlarm) {
  std::vector<Trial> trials;
  for (const Call call : kCalls) trials.insert(trials.end(), {{.call = call, .audits = false}, {.call = call}});
  const std::vector<Outcome> outcomes = run(trials);
  for (size_t i = 0; i < outcomes.size(); i += 2) {
    EXPECT_EQ(count(outcomes[i + 1]), 0) << texts(outcomes[i + 1]);
    EXPECT_TRUE(same(outcomes[i], outcomes[i + 1])) << kNames[i / 2];
  }
}

/// The lowest bit, one in the middle, and the sign. A bit that is rounded away in the sum does no harm, and is not found.
TEST_P(AuditedGroups, FindABitThatFlipsOnTheWay) {
  const int bits = 8 * static_cast<int>(c10::elementSize(GetParam().dtype));
  std::vector<Trial> trials;
  for (const Call call : kCalls) {
    trials.push_back({.call = call});
    for (const int bit : {0, bits / 2, bits - 1}) {
      for (const bool delivered : {false, true}) {
        const bool is_sender = (call == Call::message || call == Call::broadcast) && !delivered;
        trials.push_back({.call = call, .rank = is_sender ? 0 : 1, .flip = {0, delivered, 3, bit}});
      }
    }
  }
  const std::vector<Outcome> outcomes = run(trials);
  const Outcome* right = nullptr;
  for (size_t i = 0; i < trials.size(); ++i) {
    const Trial& trial = trials[i];
    if (trial.rank < 0) {
      right = &outcomes[i];
      continue;
    }
    const std::string what = fmt::format("{}, bit {} of what rank {} {}", kNames[static_cast<int>(trial.call)], trial.flip.bit,
                                         trial.rank, trial.flip.delivered ? "got" : "gave");
    EXPECT_EQ(count(outcomes[i]) > 0, !same(outcomes[i], *right)) << what;
    EXPECT_TRUE(names(outcomes[i], trial.rank)) << what << ": " << texts(outcomes[i]);
  }
}

TEST_P(AuditedGroups, NameTheRankTheElementAndTheBit) {
  const Row row = GetParam();
  if (row.dtype != at::kFloat) return;
  const int rank = row.ranks - 1;
  const std::vector<Outcome> outcomes =
      run({{.rank = rank, .flip = {0, false, 17, 30}}, {.rank = rank, .flip = {1, false, 17, 30}}});
  ASSERT_EQ(outcomes[0].found[0].size(), 1U) << texts(outcomes[0]);
  const CallFinding& finding = outcomes[0].found[0].front();
  EXPECT_EQ(finding.ranks, std::vector<int>{rank}) << finding.text;
  EXPECT_NE(finding.text.find("\"gradients\" on group \"dp\" ("), std::string::npos) << finding.text;
  EXPECT_NE(finding.text.find("element 17 of 1000: the sum is "), std::string::npos) << finding.text;
  EXPECT_NE(finding.text.find(fmt::format("of rank {} was added as ", rank)), std::string::npos) << finding.text;
  EXPECT_NE(finding.text.find("(bit 30)"), std::string::npos) << finding.text;
  ASSERT_EQ(outcomes[1].found[0].size(), 1U);  // in the repetition
  EXPECT_NE(outcomes[1].found[0].front().text.find("training is unharmed"), std::string::npos) << texts(outcomes[1]);
}

INSTANTIATE_TEST_SUITE_P(Table, AuditedGroups,
                         testing::Values(Row{BackendKind::shm, 2}, Row{BackendKind::shm, 4}, Row{BackendKind::gloo, 2, false},
                                         Row{BackendKind::gloo, 3}, Row{BackendKind::gloo, 3, false},
                                         Row{BackendKind::automatic, 4}, Row{BackendKind::shm, 2, true, at::kBFloat16},
                                         Row{BackendKind::gloo, 2, false, at::kHalf}),
                         name_of);

}  // namespace
}  // namespace weft::audited_group_test
