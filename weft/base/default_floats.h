// DefaultFloats: default IEEE 754 arithmetic within a scope: round to nearest, no flushing of subnormal numbers. A thread
// inherits the mode of the thread that creates it, so threads whose results matter need one too.
#pragma once

#include <cfenv>

namespace weft {

/// Sets the calling thread's mode; the destructor restores the previous one.
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
