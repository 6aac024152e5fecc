#include "weft/checkpoint/storage/lock_text.h"

#include <fmt/format.h>
#include <unistd.h>

#include <sstream>

#include "weft/base/printable.h"
#include "weft/base/process.h"
#include "weft/base/system_host.h"

namespace weft {

LockText own_lock_text(const std::string& owner) {
  return {.owner = owner, .system = system_identity(), .process = getpid(), .started = process_start(getpid())};
}

std::string lock_file_text(const LockText& text) {
  return fmt::format("{}\n{}\n{} {}\n{} {:020}\n", text.owner, text.system, text.process, text.started,
                     text.holds ? "holds" : "asks ", text.beats);
}

LockText parse_lock_text(const std::string& text) {
  std::istringstream in(text);
  LockText parsed;
  std::string numbers, state;
  std::getline(in, parsed.owner);
  parsed.owner = parsed.owner.empty() ? "an unnamed process" : printable(parsed.owner);
  std::getline(in, parsed.system);
  if (!(in >> parsed.process >> parsed.started >> state >> parsed.beats)) {
    return {.owner = parsed.owner, .holds = true};
  }
  parsed.holds = state == "holds";
  return parsed;
}

HolderLife life_of(const LockText& text) {
  if (text.system.empty() || text.system != system_identity()) return HolderLife::unknown;
  if (text.process < 1 || text.process > (int64_t{1} << 30)) return HolderLife::unknown;
  const auto process = static_cast<int>(text.process);
  const int64_t started = process_start(process);
  const bool is_another = started > 0 && text.started > 0 && started != text.started;
  return is_another || process_state(process) == ProcessState::ended ? HolderLife::ended : HolderLife::lives;
}

}  // namespace weft
