// kSlowdown: how many times as long a test may take with a sanitizer; numbers of ranks for long tests.
#pragma once

#include <vector>

namespace weft::test {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr unsigned kSlowdown = 4;
#elif defined(__has_feature)
constexpr unsigned kSlowdown = __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) ? 4 : 1;
#else
constexpr unsigned kSlowdown = 1;
#endif

/// 1, 2 and 4; with a sanitizer only 2, which run all code that several ranks run.
inline std::vector<int> some_ranks() { return kSlowdown > 1 ? std::vector<int>{2} : std::vector<int>{1, 2, 4}; }

}  // namespace weft::test
