#include "weft/comm/wait/rank_rows.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <sstream>
#include <thread>
#include <utility>

#include "weft/base/math.h"

namespace weft {
namespace {

constexpr size_t kBeforeRows = 64;   // for the alarm
constexpr size_t kTextBytes = 1024;  // for an error, and for a rank's activity; longer texts are cut

std::string one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text.substr(0, kTextBytes);
}

std::vector<int> numbers(const std::string& line) {
  std::istringstream in(line);
  std::vector<int> result;
  for (int number = 0; in >> number;) result.push_back(number);
  return result;
}

size_t row_bytes(size_t world) { return round_up<size_t>(sizeof(uint64_t) + 4 * kTextBytes + 16 * world, 64); }

}  // namespace

std::string RankEntry::to_text() const {
  return fmt::format("{:d} {:d} {} {} {} {} {} {}\n{}\n{}\n{}\n{}\n{}\n", waiting, failed, begun, failed_in, pid, row.group,
                     row.call, row.culprit, one_line(row.axis), fmt::join(row.members, " "), fmt::join(row.awaits, " "),
                     one_line(row.doing), one_line(row.failure));
}

RankEntry RankEntry::from_text(const std::string& text) {
  std::istringstream in(text);
  RankEntry entry;
  RankRow& row = entry.row;
  std::string members, awaits;
  in >> entry.waiting >> entry.failed >> entry.begun >> entry.failed_in >> entry.pid >> row.group >> row.call >> row.culprit;
  in.ignore();
  std::getline(in, row.axis);
  std::getline(in, members);
  std::getline(in, awaits);
  std::getline(in, row.doing);
  std::getline(in, row.failure);
  row.members = numbers(members);
  row.awaits = numbers(awaits);
  return entry;
}

size_t RankRows::bytes(size_t ranks, size_t world) { return kBeforeRows + ranks * row_bytes(world); }

RankRows::RankRows(FileDescriptor file, const std::vector<int>& ranks, size_t world)
    : file_(std::move(file)), ranks_(ranks), stride_(row_bytes(world)), memory_(file_, bytes(ranks.size(), world)) {}

RankRows::Head& RankRows::head(int rank) const {
  const auto place = std::find(ranks_.begin(), ranks_.end(), rank) - ranks_.begin();
  return *reinterpret_cast<Head*>(memory_.data() + kBeforeRows + static_cast<size_t>(place) * stride_);
}

std::atomic<uint32_t>& RankRows::alarm() const { return *reinterpret_cast<std::atomic<uint32_t>*>(memory_.data()); }
void RankRows::raise_alarm() { alarm().fetch_add(1); }
uint32_t RankRows::alarms() const { return alarm().load(std::memory_order_relaxed); }

// A sequence lock without a fence: a reader that sees a new word also sees the odd version set before it.
void RankRows::write(int rank, const std::string& text) {
  Head& own = head(rank);
  const size_t bytes = std::min(text.size(), most_bytes());
  own.version.fetch_add(1, std::memory_order_acq_rel);
  own.bytes.store(static_cast<uint32_t>(bytes), std::memory_order_release);
  for (size_t begin = 0; begin < bytes; begin += sizeof(uint64_t)) {
    uint64_t word = 0;
    std::memcpy(&word, text.data() + begin, std::min(sizeof(word), bytes - begin));
    words(own)[begin / sizeof(word)].store(word, std::memory_order_release);
  }
  own.version.fetch_add(1, std::memory_order_acq_rel);
}

std::string RankRows::read(int rank) const {
  Head& other = head(rank);
  std::string text;
  for (int tries = 0; tries < 100; ++tries) {
    const uint32_t before = other.version.load(std::memory_order_acquire);
    text.resize(std::min<size_t>(other.bytes.load(std::memory_order_acquire), most_bytes()));
    for (size_t begin = 0; begin < text.size(); begin += sizeof(uint64_t)) {
      const uint64_t word = words(other)[begin / sizeof(word)].load(std::memory_order_acquire);
      std::memcpy(text.data() + begin, &word, std::min(sizeof(word), text.size() - begin));
    }
    if (before % 2 == 0 && other.version.load(std::memory_order_relaxed) == before) break;
    std::this_thread::sleep_for(std::chrono::microseconds(50));  // the writer may have lost its core
  }
  return text;
}

}  // namespace weft
