// Seeds of tests on random cases. They are always the same; a failure tells its seed, and WEFT_SEED=17 runs that one alone.
#pragma once

#include <cstdlib>
#include <numeric>
#include <random>
#include <string>
#include <vector>

namespace weft::test {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr unsigned kFewer = 4;
#elif defined(__has_feature)
constexpr unsigned kFewer = __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) ? 4 : 1;
#else
constexpr unsigned kFewer = 1;
#endif

/// `count` random cases: a quarter of them with a sanitizer, which makes all several times slower.
constexpr unsigned cases(unsigned count) { return (count + kFewer - 1) / kFewer; }

/// As many as WEFT_FUZZ asks for, `usual` ones where it does not; with a sanitizer too, which is where they find most.
inline unsigned fuzz_cases(unsigned usual) {
  const char* asked = std::getenv("WEFT_FUZZ");
  return asked == nullptr ? usual : static_cast<unsigned>(std::stoul(asked));
}

/// [0, count), or the one that WEFT_SEED names.
inline std::vector<unsigned> seeds(unsigned count) {
  const char* one = std::getenv("WEFT_SEED");
  if (one != nullptr) return {static_cast<unsigned>(std::stoul(one))};
  std::vector<unsigned> all(count);
  std::iota(all.begin(), all.end(), 0U);
  return all;
}

/// For SCOPED_TRACE.
inline std::string replay(unsigned seed) { return "WEFT_SEED=" + std::to_string(seed) + " runs this case alone"; }

class Random {
 public:
  explicit Random(unsigned seed) : engine_(seed) {}
  /// One of [0, n); the same on every machine, which std::uniform_int_distribution does not promise.
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
