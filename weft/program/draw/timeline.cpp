#include "weft/program/draw/timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <vector>

namespace weft {
namespace {

constexpr size_t kLanes = 3;
constexpr int kLabelWidth = 12;  // "  compute | "
constexpr size_t kMaxLines = 2;  // a row that wraps into more lines shows its beginning and its end

enum class Phase { forward, backward, update };

// A second forward, for recompute, belongs to its backward.
Phase phase_of(Op op, Phase now) {
  if (op == Op::backward || op == Op::combine || op == Op::squares) return Phase::backward;
  if ((op == Op::forward || op == Op::release || op == Op::drop) && now == Phase::backward) return Phase::backward;
  if (op == Op::norm || op == Op::gather_gradients || op == Op::update) return Phase::update;
  return Phase::forward;
}

using Row = std::vector<int>;  // instructions, in list order

// Rows that belong together: a micro-batch, or the end of the step.
struct Segment {
  int micro = -1;
  std::vector<Row> rows;
  std::string shape;  // the same for identical segments
};

// Instructions on other lanes are in the row of the compute instruction that follows them, which they overlap.
std::vector<Segment> split(const InstructionList& list) {
  std::vector<Segment> segments;
  Row side;
  Phase phase = Phase::forward;
  for (int i = 0; i < static_cast<int>(list.size()); ++i) {
    const Instruction& x = list[i];
    if (x.lane != Lane::compute) {
      side.push_back(i);
      continue;
    }
    const bool ends = phase_of(x.op, phase) == Phase::update && phase != Phase::update;
    if (x.op == Op::load || ends || segments.empty()) {
      segments.push_back({.micro = ends ? -1 : x.micro, .rows = {Row()}, .shape = {}});
    } else if (phase_of(x.op, phase) != phase) {
      segments.back().rows.emplace_back();
    }
    phase = x.op == Op::load ? Phase::forward : phase_of(x.op, phase);
    Row& row = segments.back().rows.back();
    row.insert(row.end(), side.begin(), side.end());
    side.clear();
    row.push_back(i);
  }
  if (!side.empty() && segments.empty()) segments.push_back({.micro = -1, .rows = {Row()}, .shape = {}});
  if (!side.empty()) segments.back().rows.back().insert(segments.back().rows.back().end(), side.begin(), side.end());
  for (Segment& segment : segments) {
    for (const Row& row : segment.rows) {
      for (int i : row) segment.shape += label(list[i]) + " ";
      segment.shape += "/";
    }
  }
  return segments;
}

// Puts labels on lanes, each in its own columns, until one does not fit.
class Line {
 public:
  Line(const InstructionList& list, int width) : list_(list), width_(width - kLabelWidth) {}

  /// Returns false, and changes nothing, if the label does not fit; the first one always fits.
  bool add(int i) {
    const auto lane = static_cast<size_t>(list_[i].lane);
    int column = text_[lane].empty() ? 0 : static_cast<int>(text_[lane].size()) + 1;
    for (int wait : list_[i].waits) {
      const auto found = end_.find(wait);
      if (found != end_.end()) column = std::max(column, found->second + 1);
    }
    const std::string word = label(list_[i]);
    const int end = column + static_cast<int>(word.size());
    if (end > width_ && !end_.empty()) return false;
    text_[lane].resize(column, ' ');
    text_[lane] += word;
    end_[i] = end;
    return true;
  }

  std::string print() const {
    std::string result;
    for (size_t lane = 0; lane < kLanes; ++lane) {
      if (text_[lane].empty()) continue;
      result += fmt::format("  {:<7} | {}\n", name(static_cast<Lane>(lane)), text_[lane]);
    }
    return result;
  }

 private:
  const InstructionList& list_;
  int width_;
  std::array<std::string, kLanes> text_;
  std::map<int, int> end_;  // column after each instruction's label
};

// Fills a line with the row's instructions from `begin` on; advances `begin`.
Line fill(const InstructionList& list, const Row& row, size_t& begin, int width) {
  Line line(list, width);
  while (begin < row.size() && line.add(row[begin])) ++begin;
  return line;
}

// Beginning of the longest tail of the row that fits on a line.
size_t tail_begin(const InstructionList& list, const Row& row, int width) {
  size_t best = row.size() - 1;
  while (best > 0) {
    size_t end = best - 1;
    fill(list, row, end, width);
    if (end < row.size()) break;
    --best;
  }
  return best;
}

std::string print(const InstructionList& list, const Row& row, int width) {
  std::vector<Line> lines;
  size_t begin = 0;
  size_t head_end = 0;
  while (begin < row.size() && lines.size() <= kMaxLines) {
    lines.push_back(fill(list, row, begin, width));
    if (lines.size() == 1) head_end = begin;
  }
  std::string result;
  if (lines.size() <= kMaxLines) {
    for (const Line& line : lines) result += line.print();
    return result;
  }
  size_t tail = tail_begin(list, row, width);
  result = lines[0].print();
  if (tail > head_end) result += fmt::format("  {:<7} | ... {} more ...\n", "", tail - head_end);
  return result + fill(list, row, tail, width).print();
}

std::string micros_text(int first, int last) {
  if (first == last) return fmt::format("micro-batch {}", first);
  return fmt::format("micro-batches {} to {}", first, last);
}

// Runs of repeated segments, folded into a line.
class Folded {
 public:
  void add(int micro, int like) {
    if (like_.empty()) first_ = micro;
    last_ = micro;
    like_.insert(like);
  }
  std::string take() {
    if (like_.empty()) return {};
    const std::vector<int> like(like_.begin(), like_.end());
    like_.clear();
    return fmt::format("{}: like {}\n", micros_text(first_, last_), fmt::join(like, " and "));
  }

 private:
  int first_ = 0, last_ = 0;
  std::set<int> like_;
};

char letter(Payload what) {
  if (what == Payload::weights) return 'w';
  if (what == Payload::gradient) return 'g';
  if (what == Payload::input || what == Payload::batch) return 'i';
  if (what == Payload::sum) return 's';
  return what == Payload::optimizer ? 'o' : 'a';
}

}  // namespace

std::string label(const Instruction& x) {
  const auto on_blocks = [&x](char letter) {
    return x.last == x.first + 1 ? fmt::format("{}{}", letter, x.first) : fmt::format("{}{}-{}", letter, x.first, x.last - 1);
  };
  switch (x.op) {
    case Op::gather:
      return on_blocks('G');
    case Op::release:
      return on_blocks('x');
    case Op::forward:
      return on_blocks('F');
    case Op::drop:
      return on_blocks('d');
    case Op::offload:
      return on_blocks('o') + letter(x.what);
    case Op::reload:
      return on_blocks('r') + letter(x.what);
    case Op::backward:
      return on_blocks('B');
    case Op::backward_input:
      return on_blocks('I');
    case Op::backward_weight:
      return on_blocks('W');
    case Op::send:
      return on_blocks('s') + letter(x.what);
    case Op::receive:
      return on_blocks('r') + letter(x.what);
    case Op::combine:
      return on_blocks('C');
    case Op::reduce_scatter:
      return on_blocks('S');
    case Op::reduce:
      return on_blocks(sums_partial(x) ? 'T' : 'R');
    case Op::squares:
      return on_blocks('Q');
    case Op::gather_gradients:
      return on_blocks('M');
    case Op::update:
      return on_blocks('U');
    case Op::reduce_loss:
      return "R(loss)";
    case Op::load:
    case Op::loss:
    case Op::norm:
      return std::string(name(x.op));
  }
  return "?";
}

std::string timeline(const InstructionList& list, int width) {
  std::string result;
  std::map<std::string, int> shown;  // shape -> micro-batch
  Folded folded;
  for (const Segment& segment : split(list)) {
    const auto [like, is_new] = shown.try_emplace(segment.shape, segment.micro);
    if (!is_new) {
      folded.add(segment.micro, like->second);
      continue;
    }
    result += folded.take();
    result += segment.micro < 0 ? "end of the step\n" : micros_text(segment.micro, segment.micro) + "\n";
    for (const Row& row : segment.rows) result += print(list, row, width);
  }
  return result + folded.take();
}

}  // namespace weft
