#include "weft/checkpoint/digest.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include <set>

#include "tests/data/expect_input_error.h"

namespace weft {
namespace {

/// From Python: sha256(b"a.weight\0" b"2,3\0" + arange(6, "<f4") + b"b\0" b"\0" + float32(1.5)).
constexpr const char* kKnown = "7efbe5fc1fcbb128865bda405012267d6da7a2169ac2123dc9eb53fa2f666206";

std::vector<NamedTensor> known() {
  return {{"a.weight", at::arange(6, at::kFloat).view({2, 3})}, {"b", at::full({}, 1.5, at::kFloat)}};
}

TEST(Digest, KnownAnswers) {
  EXPECT_EQ(weights_sha256(known()), kKnown);
  EXPECT_EQ(weights_sha256({}), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855") << "SHA-256 of nothing";
}

TEST(Digest, IgnoresOrderStridesAndStorageType) {
  auto tensors = known();
  std::swap(tensors[0], tensors[1]);
  EXPECT_EQ(weights_sha256(tensors), kKnown);
  const at::Tensor a = tensors[1].tensor;
  at::Tensor flat = at::empty({100}, at::kFloat);
  at::Tensor in_flat = flat.narrow(0, 64, 6).view({2, 3});
  in_flat.copy_(a);
  for (const at::Tensor& same : {a.t().contiguous().t(), in_flat, a.to(at::kDouble), a.to(at::kBFloat16), a.to(at::kLong)}) {
    tensors[1].tensor = same;
    EXPECT_EQ(weights_sha256(tensors), kKnown);
  }
}

TEST(Digest, DependsOnNamesShapesAndValues) {
  std::set<std::string> seen = {kKnown};
  const auto add = [&](auto change) {
    auto tensors = known();
    change(tensors);
    seen.insert(weights_sha256(tensors));
  };
  add([](auto& t) { t[0].name = "a.weighs"; });
  add([](auto& t) { t[0].tensor = t[0].tensor.view({3, 2}); });
  add([](auto& t) { t[0].tensor = t[0].tensor.view({6}); });
  add([](auto& t) { t[0].tensor = t[0].tensor.add(1); });
  add([](auto& t) { t[1].tensor = t[1].tensor.view({1}); });
  add([](auto& t) { t.pop_back(); });
  add([](auto& t) { std::swap(t[0].name, t[1].name); });
  EXPECT_EQ(seen.size(), 8u);
}

TEST(Digest, RejectsInvalidTensors) {
  const at::Tensor t = at::ones({1}, at::kFloat);
  test::expect_input_error([&] { weights_sha256({{"w", t}, {"v", t}, {"w", t}}); }, {"two tensors", "\"w\""});
  test::expect_input_error([&] { weights_sha256({{"w", at::Tensor()}}); }, {"\"w\"", "undefined"});
  test::expect_input_error([&] { weights_sha256({{std::string("a\0b", 3), t}}); }, {"zero byte"});
}

TEST(WeightsDigest, TensorByTensorGivesTheSame) {
  WeightsDigest digest;
  for (const NamedTensor& tensor : known()) digest.add(tensor.name, tensor.tensor);
  EXPECT_EQ(digest.hex(), kKnown);
}

TEST(WeightsDigest, RejectsNamesOutOfOrder) {
  const at::Tensor t = at::ones({1}, at::kFloat);
  WeightsDigest digest;
  digest.add("h.2", t);
  test::expect_input_error([&] { digest.add("h.2", t); }, {"two tensors", "\"h.2\""});
  test::expect_input_error([&] { digest.add("h.10", t); }, {"\"h.10\"", "after \"h.2\"", "in order"});
  test::expect_input_error([&] { digest.add("z", at::Tensor()); }, {"\"z\"", "undefined"});
  digest.add("h.3", t);  // rejected tensors left nothing behind
  EXPECT_EQ(digest.hex(), weights_sha256({{"h.2", t}, {"h.3", t}}));
}

TEST(WeightsDigest, AnEmptyNameComesFirst) {
  const at::Tensor t = at::ones({1}, at::kFloat);
  WeightsDigest digest;
  digest.add("", t);
  test::expect_input_error([&] { digest.add("", t); }, {"two tensors"});
}

}  // namespace
}  // namespace weft
