// Attempts: calls that change an object step by step, none of which may follow one that failed.
//
// What a failed call has left behind (weights of which some are updated, state that was reloaded and not put back, a loader
// that is one micro-batch ahead) looks like a good state to the next one. So that one is refused instead.
#pragma once

#include <exception>
#include <string>

namespace weft {

/// Makes calls until one of them fails.
class Attempts {
 public:
  /// Returns call(), which `what` names for people ("step 3"). Throws Error, in one line, when an earlier one has failed.
  template <class Call>
  auto run(const std::string& what, const Call& call) {
    check();
    try {
      return call();
    } catch (const std::exception& error) {
      fail(what, error.what());
      throw;
    } catch (...) {
      fail(what, "an exception of another kind");
      throw;
    }
  }

  bool failed() const { return failed_; }  ///< a call has

 private:
  void check() const;
  /// The first failure stays; also where no memory is left to say what it was.
  void fail(const std::string& what, const char* why) noexcept;

  bool failed_ = false;
  std::string failure_;
};

}  // namespace weft
