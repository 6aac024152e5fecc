// LibTorch's default generators under a key: reproducible numbers, on other devices too, and a restored state afterwards.
#include "weft/nn/keyed_generators.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/ops/randn.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <barrier>
#include <thread>

#include "tests/support/refusal.h"
#include "tests/support/run_processes.h"
#include "weft/base/error.h"

namespace weft {
namespace {

/// Two devices with a generator and nothing else.
class Hooks : public at::PrivateUse1HooksInterface {
 public:
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  const at::Generator& getDefaultGenerator(c10::DeviceIndex index) const override { return generators_[index]; }

 private:
  at::Generator generators_[2] = {at::detail::createCPUGenerator(11), at::detail::createCPUGenerator(12)};
};

uint64_t draw(const at::Generator& generator) { return at::check_generator<at::CPUGeneratorImpl>(generator)->random64(); }
uint64_t draw() { return draw(at::detail::getDefaultCPUGenerator()); }

uint64_t drawn_under(const RandomKey& key, at::Device device = at::kCPU) {
  uint64_t drawn = 0;
  with_keyed_generators(key, "block 'x'", device, [&] { drawn = draw(); });
  return drawn;
}

TEST(KeyedGenerators, DrawTheSameUnderAKeyAndGiveTheCallersBack) {
  at::manual_seed(3);
  at::randn({3});  // leaves half a pair of normal numbers
  const GeneratorState here(at::kCPU);
  const at::Tensor expected = at::randn({3});
  here.restore();
  const RandomKey key = random_key(1, "x@0", 2), other = random_key(1, "x@4", 2);
  const uint64_t first = drawn_under(key);
  EXPECT_EQ(drawn_under(key), first);
  EXPECT_NE(drawn_under(other), first);
  EXPECT_THROW(with_keyed_generators(key, "x", at::kCPU, [] { throw Error("within"); }), Error);
  EXPECT_TRUE(at::randn({3}).equal(expected));
}

// In a separate process, which alone has the device.
TEST(KeyedGenerators, AreThoseOfTheDeviceToo) {
  const auto body = [](World) -> std::string {
    static Hooks hooks;
    at::RegisterPrivateUse1HooksInterface(&hooks);
    const at::Device device(at::kPrivateUse1, 0);
    std::vector<uint64_t> drawn;
    for (const int64_t sample : {0, 0, 4}) {
      with_keyed_generators(random_key(1, fmt::format("x@{}", sample)), "x", device, [&] {
        for (const int index : {0, 1}) drawn.push_back(draw(hooks.getDefaultGenerator(index)));
        drawn.push_back(draw());
      });
    }
    const bool again = drawn[0] == drawn[3] && drawn[2] == drawn[5];
    const bool other = drawn[0] != drawn[6] && drawn[2] != drawn[8];
    const bool untouched = drawn[1] != drawn[4];
    const at::Generator fresh = at::detail::createCPUGenerator(11);
    const bool given_back = draw(hooks.getDefaultGenerator(0)) == draw(fresh);
    return fmt::format("{} {} {} {}", again, other, untouched, given_back);
  };
  const auto results = test::run_processes(1, body);
  EXPECT_EQ(results[0].output, "true true true true")
      << "again, of another sample, of another device, given back: " << results[0].error;
}

TEST(KeyedGenerators, RefuseADeviceThatCannotBeSeeded) {
  const std::string text = test::refusal([] { drawn_under(random_key(1, "x"), at::Device(at::kXLA, 0)); });
  EXPECT_NE(text.find("block 'x' runs on xla:0, whose random numbers cannot be seeded ("), std::string::npos) << text;
  EXPECT_EQ(text.find('\n'), std::string::npos) << text;
}

/// Ranks that are threads of one process share one generator.
TEST(KeyedGenerators, RefuseThreadsThatDrawAtOnce) {
  at::manual_seed(3);
  const uint64_t expected = draw();
  for (const int drawing : {0, 1, 2}) {
    at::manual_seed(3);
    std::barrier both(2);
    std::string refused[2];
    const auto rank = [&](int index) {
      refused[index] = test::refusal([&] {
        with_keyed_generators(random_key(1, fmt::format("x@{}", index)), "block 'x'", at::kCPU, [&] {
          both.arrive_and_wait();
          if (index < drawing) draw();
          both.arrive_and_wait();
        });
      });
    };
    std::thread other([&] { rank(1); });
    rank(0);
    other.join();
    for (const std::string& error : refused) {
      EXPECT_EQ(error.find("model: block 'x' or a concurrent rank drew from LibTorch's default generator") != std::string::npos,
                drawing > 0)
          << error;
    }
    EXPECT_EQ(draw(), expected);
  }
}

}  // namespace
}  // namespace weft
