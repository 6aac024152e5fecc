// Last words: what a process still writes when a signal ends it.
#pragma once

#include <functional>
#include <string>

namespace weft {

/// While it lives, say_last_words() calls `write` with why the process ends, from a thread of its own; empty: another process
/// says why.
class LastWords {
 public:
  explicit LastWords(std::function<void(const std::string& why)> write);
  ~LastWords();
  LastWords(const LastWords&) = delete;
  LastWords& operator=(const LastWords&) = delete;

 private:
  int number_;
};

/// Has all write that live. Not from a signal handler.
void say_last_words(const std::string& why);

}  // namespace weft
