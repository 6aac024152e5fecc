// The check of collectives: right back ends pass, and each wrong value is found and named.
#include "weft/train/check/collective_checks.h"

#include <gtest/gtest.h>

#include <mutex>

#include "tests/support/run_ranks.h"
#include "weft/comm/call/backend.h"

namespace weft::collective_checks_test {
namespace {

/// A group whose calls change an element of their results on one rank.
class WrongBackend : public Backend {
 public:
  /// Changes element `element` of results of type `dtype` that `operation` leaves on rank `culprit`.
  WrongBackend(Group right, Axis axis, std::string operation, at::ScalarType dtype, int culprit, int64_t element)
      : Backend(std::move(axis)),
        right_(std::move(right)),
        operation_(std::move(operation)),
        dtype_(dtype),
        culprit_(culprit),
        element_(element) {}

  std::string_view kind() const override { return "wrong"; }
  Work all_reduce(const at::Tensor& tensor, ReduceOp op, std::string_view what) override {
    return spoilt("all_reduce", tensor, right_.all_reduce(tensor, op, what));
  }
  Work reduce_scatter(const at::Tensor& output, const at::Tensor& input, ReduceOp op, std::string_view what) override {
    return spoilt("reduce_scatter", output, right_.reduce_scatter(output, input, op, what));
  }
  Work all_gather(const at::Tensor& output, const at::Tensor& input, std::string_view what) override {
    return spoilt("all_gather", output, right_.all_gather(output, input, what));
  }
  Work broadcast(const at::Tensor& tensor, int root, std::string_view what) override {
    return spoilt("broadcast", tensor, right_.broadcast(tensor, root, what));
  }
  Work all_to_all(const at::Tensor& output, const at::Tensor& input, std::string_view what) override {
    return spoilt("all_to_all", output, right_.all_to_all(output, input, what));
  }
  Work send(const at::Tensor& tensor, int peer, std::string_view what) override { return right_.send(tensor, peer, what); }
  Work receive(const at::Tensor& tensor, int peer, std::string_view what) override {
    return spoilt("receive", tensor, right_.receive(tensor, peer, what));
  }
  Work barrier(std::string_view what) override { return right_.barrier(what); }
  at::Tensor allocate(int64_t numel, at::ScalarType dtype, std::string_view what) override {
    return right_.allocate(numel, dtype, what);
  }

 private:
  Work spoilt(const char* operation, const at::Tensor& result, Work work) const {
    work.wait();
    if (operation == operation_ && result.scalar_type() == dtype_ && rank() == culprit_ && result.numel() > element_) {
      result[element_].add_(1);
    }
    return {};
  }

  Group right_;
  std::string operation_;
  at::ScalarType dtype_;
  int culprit_;
  int64_t element_;
};

TEST(CollectiveChecks, EachWrongValueIsNamed) {
  struct Row {
    const char* operation;
    at::ScalarType dtype;
    int culprit;
    int64_t element;
    std::string wrong;  ///< beginning
  };
  const Row rows[] = {
      {"all_reduce", at::kBFloat16, 1, 13, "all_reduce sum of 1000 bfloat16: element 13 is "},
      {"reduce_scatter", at::kFloat, 0, 499, "reduce_scatter sum of 1000 float32: element 499 is "},
      {"all_gather", at::kLong, 1, 999, "all_gather of 1000 int64: element 999 is "},
      {"broadcast", at::kFloat, 0, 0, "broadcast of 1 float32: element 0 is "},
      {"all_to_all", at::kLong, 0, 1 << 16, "all_to_all of 65537 int64: element 65536 is "},
      {"receive", at::kFloat, 1, 1 << 17, "receive of 131075 float32: element 131072 is "},
      {"none", at::kFloat, 0, 0, ""},
  };
  for (const Row& row : rows) {
    CollectiveFindings found[2];
    test::run_ranks(2, [&](World world) {
      const Mesh mesh(world, {{"all", 2}});
      const Axis axis = mesh.axis("all");
      const Group group(
          std::make_shared<WrongBackend>(mesh.group(axis), axis, row.operation, row.dtype, row.culprit, row.element));
      found[world.rank()] = check_collectives(group, at::kCPU);
    });
    EXPECT_EQ(found[1 - row.culprit].wrong, "") << row.operation;
    const CollectiveFindings& own = found[row.culprit];
    EXPECT_EQ(own.calls, 4 * 3 * 8);
    EXPECT_EQ(own.first_wrong >= 0, !row.wrong.empty()) << row.operation;
    EXPECT_TRUE(own.wrong.starts_with(row.wrong)) << own.wrong;
    EXPECT_EQ(own.wrong.empty(), row.wrong.empty()) << own.wrong;
  }
}

/// Simulated hosts have all back ends of CPUs.
TEST(CollectiveChecks, GroupsOfHosts) {
  std::string text;
  test::run_ranks(4,
                  [&](World world) {
                    const std::vector<CheckLine> lines =
                        check_groups(world, BackendKind::automatic, at::kCPU, std::chrono::seconds(30));
                    EXPECT_EQ(lines.empty(), world.rank() != 0);
                    for (const CheckLine& line : lines)
                      text += line.name + ": " + line.text.substr(0, line.text.find(';')) + "\n";
                  },
                  {.hosts = {"a", "a", "b", "b"}});
  EXPECT_EQ(
      text,
      "collectives shm: 96 calls give the right values over the 2 ranks of each host\n"
      "collectives gloo: 384 calls give the right values over all 4 ranks, the 2 ranks of each host, one rank of each of 2 "
      "hosts, all 4 ranks with tree_order\n"
      "collectives shm+gloo: 96 calls give the right values over all 4 ranks\n"
      "collectives nccl: ranks compute on the CPU\n");
}

TEST(CollectiveChecks, GroupsOfUnevenHosts) {
  test::run_ranks(3,
                  [](World world) {
                    const GroupsToCheck groups =
                        groups_to_check(world, BackendKind::automatic, at::kCPU, std::chrono::seconds(30));
                    ASSERT_EQ(groups.missing.size(), 2u);
                    EXPECT_EQ(groups.missing[0].text, "no two ranks share a host, or hosts have unequal ranks");
                    for (const CheckedGroup& group : groups.groups)
                      EXPECT_TRUE(group.members.starts_with("all 3 ranks")) << group.members;
                  },
                  {.hosts = {"a", "a", "b"}});
}

}  // namespace
}  // namespace weft::collective_checks_test
