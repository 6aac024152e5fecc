// kSlowdown: how many times as long a test may take with a sanitizer.
#pragma once

namespace weft::test {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr unsigned kSlowdown = 4;
#elif defined(__has_feature)
constexpr unsigned kSlowdown = __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) ? 4 : 1;
#else
constexpr unsigned kSlowdown = 1;
#endif

}  // namespace weft::test
