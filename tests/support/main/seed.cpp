// Every test begins with the same random numbers, so that a failure repeats: LibTorch seeds its default generator differently
// in each process. WEFT_SEED=17 chooses another seed.
#include <ATen/Context.h>
#include <gtest/gtest.h>

#include "weft/base/environment.h"

namespace weft::test {
namespace {

class Seed : public testing::EmptyTestEventListener {
  void OnTestStart(const testing::TestInfo& /*test*/) override {
    at::manual_seed(static_cast<uint64_t>(env_int("WEFT_SEED").value_or(1)));
  }
};

[[maybe_unused]] const bool kRegistered = [] {
  testing::UnitTest::GetInstance()->listeners().Append(new Seed);
  return true;
}();

}  // namespace
}  // namespace weft::test
