#include "weft/checked_device/nccl/launch_counts.h"

#include <map>
#include <mutex>
#include <tuple>

#include "weft/checked_device/order.h"

namespace weft::checked_device {

namespace {

struct Known {
  std::map<std::tuple<int, uint64_t, int>, uint64_t> calls;  // by device, communicator, peer
  std::map<uint64_t, std::string> names;
};

Known& known() {
  static Known& known = *new Known;
  return known;
}

uint64_t hash_of(const std::string& communicator) {
  uint64_t hash = 14695981039346656037u;  // FNV-1a
  for (const char c : communicator) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
  return hash;
}

}  // namespace

void count_launches(int device, const std::string& communicator, int peer, uint64_t calls) {
  const uint64_t hash = hash_of(communicator);
  known().names.emplace(hash, communicator);
  known().calls[{device, hash, peer}] += calls;
}

std::vector<LaunchCount> launch_counts(int device, int peer, const std::string& without, size_t most) {
  const uint64_t own = hash_of(without);
  std::vector<LaunchCount> counts;
  for (const auto& [key, calls] : known().calls) {
    const auto& [of, communicator, with] = key;
    if (of != device || communicator == own || (with != -1 && with != peer)) continue;
    if (counts.size() < most) counts.push_back({communicator, with == -1 ? -1 : 0, calls});
  }
  return counts;
}

std::string communicator_name(uint64_t hash) {
  const std::lock_guard lock(order_mutex());
  const auto at = known().names.find(hash);
  return at == known().names.end() ? "another communicator" : at->second;
}

void forget_launches(int device, const std::string& communicator) {
  const std::lock_guard lock(order_mutex());
  const uint64_t hash = hash_of(communicator);
  std::erase_if(known().calls,
                [&](const auto& entry) { return std::get<0>(entry.first) == device && std::get<1>(entry.first) == hash; });
}

}  // namespace weft::checked_device
