#include "weft/c/call.h"

#include <c10/util/Exception.h>
#include <pthread.h>

#include <atomic>
#include <cfenv>
#include <new>

#include "weft/base/error.h"
#include "weft/c/caller_memory.h"
#include "weft/c/weft.h"
#include "weft/train/trainer/out_of_memory.h"

namespace weft::c {
namespace {

/// A failure's text: in a buffer of the thread, so that none is lost to a lack of memory.
struct FailureText {
  char text[2048] = "";
};
thread_local FailureText last_failure;

int failed(int kind, const char* name, const char* text) noexcept {
  const auto copy = [end = last_failure.text + sizeof(last_failure.text) - 1](char* to, const char* from) {
    for (; *from && to < end; ++from) *to++ = *from == '\n' ? ' ' : *from;  // of other libraries' errors
    *to = '\0';
    return to;
  };
  copy(copy(copy(last_failure.text, name), ": "), text);
  return kind;
}

/// The default floating-point state for a while: a program may have traps, or another rounding.
class OwnFloats {
 public:
  OwnFloats() noexcept : outer_(innermost) {
    std::fegetenv(&callers_);
    std::fesetenv(FE_DFL_ENV);
    innermost = this;
  }
  ~OwnFloats() {
    innermost = outer_;
    std::fesetenv(&callers_);
  }
  OwnFloats(const OwnFloats&) = delete;
  OwnFloats& operator=(const OwnFloats&) = delete;

  /// The caller's for a while.
  class Exchanged {
   public:
    Exchanged() noexcept : floats_(*innermost) {
      std::fegetenv(&own_);
      std::fesetenv(&floats_.callers_);
    }
    ~Exchanged() {
      std::fegetenv(&floats_.callers_);
      std::fesetenv(&own_);
    }
    Exchanged(const Exchanged&) = delete;
    Exchanged& operator=(const Exchanged&) = delete;

   private:
    OwnFloats& floats_;
    std::fenv_t own_ = {};
  };

 private:
  static thread_local OwnFloats* innermost;
  OwnFloats* outer_;
  std::fenv_t callers_ = {};
};
thread_local OwnFloats* OwnFloats::innermost = nullptr;

std::atomic<bool> forked{false};

}  // namespace

void as_caller(c10::function_ref<void()> call) {
  const OwnFloats::Exchanged exchanged;
  call();
  forget_pages();
}

int guarded(const char* name, c10::function_ref<void()> call) noexcept {
  [[maybe_unused]] static const int watched = ::pthread_atfork(nullptr, nullptr, [] { forked = true; });
  if (forked) {
    return failed(WEFT_INPUT_ERROR, name,
                  "this process was forked from one that uses weft; start another program instead (exec)");
  }
  const OwnFloats floats;
  forget_pages();
  try {
    call();
    return WEFT_OK;
  } catch (const InputError& error) {
    return failed(WEFT_INPUT_ERROR, name, error.what());
  } catch (const CommError& error) {
    return failed(WEFT_COMM_ERROR, name, error.what());
  } catch (const MemoryError& error) {
    return failed(WEFT_MEMORY_ERROR, name, error.what());
  } catch (const NumericError& error) {
    return failed(WEFT_NUMERIC_ERROR, name, error.what());
  } catch (const c10::Error& error) {
    if (is_out_of_memory(error)) return failed(WEFT_MEMORY_ERROR, name, "out of memory");
    return failed(WEFT_ERROR, name, error.what_without_backtrace());
  } catch (const std::bad_alloc&) {
    return failed(WEFT_MEMORY_ERROR, name, "out of memory");
  } catch (const std::exception& error) {
    return failed(WEFT_ERROR, name, error.what());
  } catch (...) {
    return failed(WEFT_ERROR, name, "an exception of an unknown type");
  }
}

const char* last_error() noexcept { return last_failure.text; }

}  // namespace weft::c
