// Preloaded into a command: 4 MB more of memory every 50 ms, which nothing frees.
#include <unistd.h>

#include <cstring>
#include <thread>

namespace {

const int started = [] {
  std::thread([] {
    constexpr size_t kBytes = 4 << 20;
    while (true) {
      memset(new char[kBytes], 1, kBytes);
      usleep(50'000);
    }
  }).detach();
  return 0;
}();

}  // namespace
