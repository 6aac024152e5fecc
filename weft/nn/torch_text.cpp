#include "weft/nn/torch_text.h"

#include <algorithm>

#include "weft/base/printable.h"

namespace weft {

std::string torch_text(const c10::Error& error) {
  constexpr size_t kMost = 1000;
  std::string text = error.what_without_backtrace();
  text.resize(std::min(text.size(), text.find("Exception raised from ")));  // where a text is that of an error within
  std::replace(text.begin(), text.end(), '\n', ' ');
  return shortened(text, kMost);
}

}  // namespace weft
