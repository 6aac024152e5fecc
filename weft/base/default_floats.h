// DefaultFloats: arithmetic as IEEE 754 has it by default, within a scope: rounded to the nearest, small numbers not flushed to
// zero. A thread begins with what the thread that made it had, so threads whose numbers count make one too.
#pragma once

#include <cfenv>

namespace weft {

/// The calling thread's, which has its own back at the end.
class DefaultFloats {
 public:
  DefaultFloats() {
    std::fegetenv(&before_);
    std::fesetenv(FE_DFL_ENV);
  }
  ~DefaultFloats() { std::fesetenv(&before_); }
  DefaultFloats(const DefaultFloats&) = delete;
  DefaultFloats& operator=(const DefaultFloats&) = delete;

 private:
  std::fenv_t before_;
};

}  // namespace weft
