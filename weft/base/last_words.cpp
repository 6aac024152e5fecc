#include "weft/base/last_words.h"

#include <map>
#include <mutex>
#include <utility>

namespace weft {
namespace {

struct Writers {
  std::mutex mutex;
  std::map<int, std::function<void(const std::string&)>> all;
  int made = 0;
};

Writers& writers() {
  static Writers& all = *new Writers;  // a signal may come while static objects are destroyed
  return all;
}

}  // namespace

LastWords::LastWords(std::function<void(const std::string& why)> write) {
  const std::lock_guard lock(writers().mutex);
  number_ = writers().made++;
  writers().all.emplace(number_, std::move(write));
}

LastWords::~LastWords() {
  const std::lock_guard lock(writers().mutex);
  writers().all.erase(number_);
}

void say_last_words(const std::string& why) {
  const std::lock_guard lock(writers().mutex);
  for (const auto& [number, write] : writers().all) write(why);
}

}  // namespace weft
