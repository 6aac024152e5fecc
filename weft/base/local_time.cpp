#include "weft/base/local_time.h"

#include <array>
#include <ctime>

namespace weft {

std::string local_time_text(double time_s) {
  constexpr double kYear10000_s = 253402300800.0;
  if (!(time_s >= 0.0 && time_s < kYear10000_s)) return "0000-00-00 00:00:00";
  const auto seconds = static_cast<std::time_t>(time_s);
  std::tm local{};
  localtime_r(&seconds, &local);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S", &local);
  return text.data();
}

}  // namespace weft
