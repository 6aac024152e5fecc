#include "weft/train/trainer/attempts.h"

#include <fmt/core.h>

#include <string_view>

#include "weft/base/error.h"
#include "weft/base/printable.h"

namespace weft {
namespace {

constexpr size_t kMostErrorBytes = 1000;  // limit on an error's text, which is quoted inside a longer line

}  // namespace

void Attempts::check() const {
  if (!failed_) return;
  throw Error(
      fmt::format("trainer: {}; its state may be half updated, so this trainer cannot continue: make a new one, "
                  "with a new model and loader, from weights you saved",
                  failure_.empty() ? "an earlier call failed" : failure_));
}

void Attempts::fail(const std::string& what, const char* why) noexcept {
  if (failed_) return;
  failed_ = true;
  try {
    const std::string_view text = why;
    failure_ = fmt::format("{} failed ({})", what, shortened(text.substr(0, text.find('\n')), kMostErrorBytes));
  } catch (...) {
    failure_.clear();
  }
}

}  // namespace weft
