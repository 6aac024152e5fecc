// Ids out of range on a device other than the CPU (forced here): lookups are clamped, and the error comes with the loss.
#include "weft/nn/id_checks.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/refusal.h"
#include "weft/nn/functional/rotary.h"
#include "weft/nn/layers/embedding.h"
#include "weft/nn/loss/cross_entropy.h"
#include "weft/nn/loss/split_cross_entropy.h"
#include "weft/nn/operators_path.h"

namespace weft::id_checks_test {
namespace {

constexpr int64_t kRows = 7;

/// Ids [2, 3] with one replaced.
at::Tensor ids(int64_t id, int64_t place = 4) {
  at::Tensor all = at::tensor({0, 6, 3, 2, 1, 5}, at::kLong);
  all[place] = id;
  return all.view({2, 3});
}

at::Tensor looked_up(const at::Tensor& ids) { return embedding(ids, {at::ones({kRows, 2}), {}}, {}); }
at::Tensor in_pieces(const at::Tensor& ids) {
  Parameter weight{at::ones({4, 2, 2}), {}};
  weight.split = Split{.segments = {kRows}, .pieces = 4, .layer = "wte"};
  return embedding(ids, weight, {});
}
at::Tensor split(const at::Tensor& ids) {
  Parameter weight{at::ones({kRows, 2}), {}};
  weight.split = Split{.segments = {kRows}, .layer = "wte"};
  return embedding(ids, weight, {});
}
at::Tensor turned(const at::Tensor& ids) { return rotation_of_samples({at::ones({kRows, 2}), at::ones({kRows, 2})}, ids).cos; }
at::Tensor loss(const at::Tensor& ids) { return cross_entropy({at::ones({2, 3, kRows})}, ids).sum; }
at::Tensor smoothed(const at::Tensor& ids) { return smoothed_cross_entropy(0.1)({at::ones({2, 3, kRows})}, ids).sum; }
at::Tensor divided(const at::Tensor& ids) {
  return vocabulary_cross_entropy(kRows)({at::ones({8, 3, 2})}, ids, {}).sum;  // four pieces of the classes
}

struct Row {
  const char* name;
  at::Tensor (*run)(const at::Tensor& ids);
  const char* what;
  bool ignores = false;  ///< -100 is no id
};

constexpr Row kTable[] = {{"embedding", looked_up, "embedding: id"},
                          {"embedding in pieces", in_pieces, "embedding: id"},
                          {"split embedding", split, "embedding: id"},
                          {"rotary positions", turned, "rotary embedding: position"},
                          {"cross entropy", loss, "loss: target", true},
                          {"smoothed cross entropy", smoothed, "loss: target", true},
                          {"divided cross entropy", divided, "loss: target", true}};

TEST(IdChecks, AreReadWithTheLoss) {
  const ForcedOperators forced;
  const Context context{.step = 3, .first_sample = 16};
  const at::Tensor value = at::tensor({0.1, -7.5}, at::kDouble);
  for (const Row& row : kTable) {
    SCOPED_TRACE(row.name);
    for (const int64_t wrong : {kRows, int64_t{-1}, int64_t{1} << 40, -(int64_t{1} << 40), int64_t{-100}}) {
      IdChecks checks;
      {
        const IdChecks::Scope scope(checks, context, "the caller");
        EXPECT_TRUE(row.run(ids(6)).isfinite().all().item().toBool());
        checks.mark(value);  // all ids were right
        EXPECT_TRUE(checks.to_host({value.view(at::kLong)}).view(at::kDouble).equal(value) &&
                    value.isfinite().all().item().toBool());
        EXPECT_TRUE(row.run(ids(wrong)).isfinite().all().item().toBool()) << wrong;
      }
      const at::Tensor marked = value.clone();
      checks.mark(marked);
      EXPECT_EQ(marked.isnan().all().item().toBool(), !(row.ignores && wrong == -100));
      const std::string error = test::refusal([&] { checks.to_host({value.view(at::kLong)}); });
      const bool is_none = row.ignores && wrong == -100;
      EXPECT_EQ(error, is_none
                           ? ""
                           : fmt::format("step 4, samples from 16: the caller: {} {} at [1, 1] is out of range: it must be in "
                                         "[0, 7); check the data, or the model's vocabulary",
                                         row.what, wrong));
      EXPECT_EQ(test::refusal([&] { checks.read(); }), "") << "an error comes once";
      // Without a scope, an error comes at once.
      EXPECT_EQ(test::refusal([&] { row.run(ids(wrong)); }).empty(), is_none) << wrong;
    }
  }
}

TEST(IdChecks, NameTheFirstOfSeveral) {
  const ForcedOperators forced;
  IdChecks checks;
  const Context context{.step = 5, .first_sample = 2, .training = false};
  const IdChecks::Scope scope(checks, context, "the loss");
  checked_ids("id", at::tensor({1, 9, 3, 8}, at::kInt), 4);
  checked_ids("id", at::tensor({7}, at::kLong), 4);
  {
    const IdChecks::Repeated repeated;
    checked_ids("id", at::tensor({7}, at::kLong), 4);
  }
  EXPECT_EQ(test::refusal([&] { checks.number(at::ones({})); }),
            "evaluation after step 5, samples from 2: the loss: id 9 at [1] is out of range: it must be in [0, 4); check the "
            "data, or "
            "the model's vocabulary");
}

TEST(IdChecks, LeaveIdsOfTheCpuToTheLookup) {
  for (const Row& row : kTable) EXPECT_ANY_THROW(row.run(ids(kRows))) << row.name;
  const at::Tensor wrong = ids(kRows);
  EXPECT_TRUE(checked_ids("id", wrong, kRows).is_same(wrong));
}

}  // namespace
}  // namespace weft::id_checks_test
