// Seeds of tests on random cases. They are always the same; a failure prints its seed, and WEFT_SEED=17 runs only that one.
#pragma once

#include <cstdlib>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "tests/support/slowdown.h"

namespace weft::test {

/// Number of random cases: a quarter of `count` with a sanitizer, which makes everything several times slower.
constexpr unsigned cases(unsigned count) { return (count + kSlowdown - 1) / kSlowdown; }

/// The number that WEFT_FUZZ asks for, else `usual`; not reduced with a sanitizer, where random cases find most.
inline unsigned fuzz_cases(unsigned usual) {
  const char* asked = std::getenv("WEFT_FUZZ");
  return asked == nullptr ? usual : static_cast<unsigned>(std::stoul(asked));
}

/// [0, count), or only the seed that WEFT_SEED names.
inline std::vector<unsigned> seeds(unsigned count) {
  const char* one = std::getenv("WEFT_SEED");
  if (one != nullptr) return {static_cast<unsigned>(std::stoul(one))};
  std::vector<unsigned> all(count);
  std::iota(all.begin(), all.end(), 0U);
  return all;
}

/// Text for SCOPED_TRACE.
inline std::string replay(unsigned seed) { return "WEFT_SEED=" + std::to_string(seed) + " runs this case alone"; }

class Random {
 public:
  explicit Random(unsigned seed) : engine_(seed) {}
  /// A number in [0, n), the same on every machine, which std::uniform_int_distribution does not guarantee.
  int below(int n) { return static_cast<int>(engine_() % static_cast<unsigned>(n)); }
  bool one_in(int n) { return below(n) == 0; }
  template <class T>
  const T& of(const std::vector<T>& all) {
    return all[below(static_cast<int>(all.size()))];
  }

 private:
  std::mt19937 engine_;
};

}  // namespace weft::test
