#include "weft/train/attempts.h"

#include <fmt/core.h>

#include <string_view>

#include "weft/base/error.h"

namespace weft {

void Attempts::check() const {
  if (!failed_) return;
  throw Error(
      fmt::format("trainer: {}; what it left behind may be half done, so this trainer does not go on: make a new one, "
                  "with a new model and loader, from weights you saved",
                  failure_.empty() ? "an earlier call failed" : failure_));
}

void Attempts::fail(const std::string& what, const char* why) noexcept {
  if (failed_) return;
  failed_ = true;
  try {
    const std::string_view text = why;
    failure_ = fmt::format("{} failed ({})", what, text.substr(0, text.find('\n')));
  } catch (...) {
    failure_.clear();
  }
}

}  // namespace weft
