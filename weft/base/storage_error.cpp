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

struct ErrorKind {
  char letter;
  bool (*holds)(const std::exception&);
  void (*raise)(const std::string&);
};

/// Derived classes come before their bases.
constexpr std::array<ErrorKind, 8> kKinds = {{{'d', is<DamageError>, raise<DamageError>},
                                              {'h', is<HeldError>, raise<HeldError>},
                                              {'u', is<InputError>, raise<InputError>},
                                              {'i', is<IoError>, raise<IoError>},
                                              {'m', is<MemoryError>, raise<MemoryError>},
                                              {'m', is<std::bad_alloc>, raise<MemoryError>},
                                              {'n', is<NumericError>, raise<NumericError>},
                                              {'c', is<CommError>, raise<CommError>}}};

}  // namespace

std::string encode_error(const std::exception& error) {
  const auto kind = std::find_if(kKinds.begin(), kKinds.end(), [&](const ErrorKind& k) { return k.holds(error); });
  return std::string(1, kind == kKinds.end() ? 'e' : kind->letter) + error.what();
}

std::string encoded_message(const std::string& encoded) { return encoded.substr(1); }

void throw_encoded(const std::string& encoded) {
  for (const ErrorKind& kind : kKinds) {
    if (kind.letter == encoded.front()) kind.raise(encoded_message(encoded));
  }
  throw Error(encoded_message(encoded));
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
