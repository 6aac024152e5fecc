#include "weft/base/storage_error.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <new>

namespace weft {
namespace {

template <class Kind>
bool is(const std::exception& error) {
  return dynamic_cast<const Kind*>(&error) != nullptr;
}

template <class Kind>
[[noreturn]] void raise(const std::string& text) {
  throw Kind(text);
}

struct ToldKind {
  char letter;
  bool (*holds)(const std::exception&);
  void (*raise)(const std::string&);
};

/// A class before those that it derives from.
constexpr std::array<ToldKind, 8> kKinds = {{{'d', is<DamageError>, raise<DamageError>},
                                             {'h', is<HeldError>, raise<HeldError>},
                                             {'u', is<InputError>, raise<InputError>},
                                             {'i', is<IoError>, raise<IoError>},
                                             {'m', is<MemoryError>, raise<MemoryError>},
                                             {'m', is<std::bad_alloc>, raise<MemoryError>},
                                             {'n', is<NumericError>, raise<NumericError>},
                                             {'c', is<CommError>, raise<CommError>}}};

}  // namespace

std::string told_error(const std::exception& error) {
  const auto kind = std::find_if(kKinds.begin(), kKinds.end(), [&](const ToldKind& k) { return k.holds(error); });
  return std::string(1, kind == kKinds.end() ? 'e' : kind->letter) + error.what();
}

std::string told_text(const std::string& told) { return told.substr(1); }

void throw_told(const std::string& told) {
  for (const ToldKind& kind : kKinds) {
    if (kind.letter == told.front()) kind.raise(told_text(told));
  }
  throw Error(told_text(told));
}

bool is_io_failure(int error) {
  constexpr std::array kFailures = {EIO,      ESTALE,  ETIMEDOUT, EREMOTEIO,    ENOLINK,   ECOMM, ENODEV,
                                    ENXIO,    ENOMEM,  EMFILE,    ENFILE,       EAGAIN,    EBUSY, EPROTO,
                                    ENOTCONN, EUCLEAN, EHOSTDOWN, EHOSTUNREACH, ECONNRESET};
  return std::find(kFailures.begin(), kFailures.end(), error) != kFailures.end();
}

void throw_storage_error(int error, const std::string& text) {
  if (is_io_failure(error)) throw IoError(text);
  throw InputError(text);
}

}  // namespace weft
