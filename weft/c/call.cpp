#include "weft/c/call.h"

#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <cstring>
#include <new>

#include "weft/c/weft.h"

namespace weft::c {
namespace {

/// A failure's text: in a buffer of the thread, so that none is lost to a lack of memory.
struct FailureText {
  char text[2048] = "";
};
thread_local FailureText last_failure;

int failed(int kind, const char* name, const char* text) noexcept {
  const auto copy = [end = last_failure.text + sizeof(last_failure.text) - 1](char* to, const char* from) {
    while (*from && to < end) *to++ = *from++;
    *to = '\0';
    return to;
  };
  copy(copy(copy(last_failure.text, name), ": "), text);
  return kind;
}

}  // namespace

int guarded(const char* name, c10::function_ref<void()> call) noexcept {
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
  } catch (const std::bad_alloc&) {
    return failed(WEFT_MEMORY_ERROR, name, "out of memory");
  } catch (const c10::Error& error) {
    return failed(WEFT_ERROR, name, error.what_without_backtrace());
  } catch (const std::exception& error) {
    return failed(WEFT_ERROR, name, error.what());
  } catch (...) {
    return failed(WEFT_ERROR, name, "an exception of an unknown type");
  }
}

const char* last_error() noexcept { return last_failure.text; }

std::string text_of(const char* text, const char* name) {
  const size_t length = strnlen(given(text, name), kLongestText + 1);
  if (length > kLongestText) throw InputError(fmt::format("{} is longer than {} bytes", name, kLongestText));
  return {text, length};
}

}  // namespace weft::c
