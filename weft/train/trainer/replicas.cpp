#include "weft/train/trainer/replicas.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>

#include "weft/base/hash.h"
#include "weft/comm/audit/element.h"
#include "weft/train/trainer/trainer_state.h"

namespace weft {
namespace {

constexpr size_t kMostTensors = 32;       ///< that are compared element by element
constexpr int64_t kPieceBytes = 4 << 20;  ///< of them at once
constexpr int64_t kNameBytes = 248;

/// A tensor that is not the same on all ranks that hold it.
struct Differing {
  uint64_t key = 0;
  std::vector<int> holders;
  std::vector<uint64_t> digests;  ///< theirs
  int model = 0;                  ///< the first rank of the largest group with the same bits
  std::vector<int> others;        ///< ranks with other bits
  bool is_majority = false;       ///< more than half have the model's bits
};

struct Compared {
  std::string tensor;
  at::ScalarType dtype = at::kFloat;
  int64_t numel = 0;
  /// By holder: number of elements that differ from the model's, the first, and its bits here and there.
  std::vector<std::array<int64_t, 4>> differences;
};

std::string_view kind_text(const std::string& tensor) {
  const std::string_view kind = std::string_view(tensor).substr(0, tensor.find('/'));
  if (kind == "model") return "master weights";
  if (kind == "ema") return "average";
  if (kind == "step") return "update count";
  return kind;
}

std::string name_of(const std::string& tensor) { return tensor.substr(tensor.find('/') + 1); }

std::string ranks_text(const std::vector<int>& ranks) {
  if (ranks.size() == 1) return fmt::format("rank {}", ranks.front());
  const std::vector<int> some(ranks.begin(), ranks.begin() + std::min<int64_t>(static_cast<int64_t>(ranks.size()), 9) - 1);
  if (ranks.size() > 9) return fmt::format("ranks {} and {} more", fmt::join(some, ", "), ranks.size() - some.size());
  return fmt::format("ranks {} and {}", fmt::join(some, ", "), ranks.back());
}

class Comparison {
 public:
  explicit Comparison(TrainerState& trainer)
      : trainer_(trainer), world_(trainer.groups.by_axes.along(kAllAxes)), device_(trainer.options.communication.device) {}

  std::vector<AuditFinding> operator()(const std::vector<PartDigest>& digests, const std::vector<AuditFinding>& own) {
    const std::string text = own.empty() ? "" : text_of(own);
    std::vector<int64_t> row = summary(digests);
    row.push_back(static_cast<int64_t>(text.size()));
    const at::Tensor rows = gather(row);
    std::vector<AuditFinding> findings = gather_findings(text, rows);
    if (is_same(rows)) return findings;
    std::set<std::string> found;  // at rest: the rank is known
    for (const AuditFinding& finding : findings) {
      if (finding.kind == AuditKind::memory) found.insert(name_of(finding.tensor));
    }
    std::vector<std::pair<Differing, Compared>> all;
    for (const Differing& differing : differing_of(digests)) {
      if (all.size() == kMostTensors) break;
      all.emplace_back(differing, compared(differing));
    }
    std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return before(a.second.tensor, b.second.tensor); });
    for (const auto& [differing, tensor] : all) {
      if (found.insert(name_of(tensor.tensor)).second) findings.push_back(finding_of(differing, tensor, all));
    }
    return findings;
  }

 private:
  at::Tensor gather(const std::vector<int64_t>& row) const {
    const auto numbers = static_cast<int64_t>(row.size());
    at::Tensor own = at::empty({numbers}, at::kLong);
    std::copy(row.begin(), row.end(), own.mutable_data_ptr<int64_t>());
    own = own.to(device_);
    const at::Tensor rows = at::empty({world_.size(), numbers}, own.options());
    world_.all_gather(rows, own, "audit of replicas").wait();
    return rows.cpu();
  }
  static const int64_t* of(const at::Tensor& rows, int rank) {
    return rows.const_data_ptr<int64_t>() + int64_t{rank} * rows.size(1);
  }

  /// By sharing: which parts this rank holds, and their digest.
  std::vector<int64_t> summary(const std::vector<PartDigest>& digests) const {
    std::vector<int64_t> row(static_cast<size_t>(num_sharings(trainer_)) * 2, 0);
    const auto add = [](int64_t& to, uint64_t value) {
      to = std::bit_cast<int64_t>(splitmix64(std::bit_cast<uint64_t>(to) ^ value));
    };
    for (const PartDigest& part : digests) {
      add(row[static_cast<size_t>(part.sharing) * 2], part.key);
      add(row[static_cast<size_t>(part.sharing) * 2 + 1], part.digest);
    }
    return row;
  }

  bool is_same(const at::Tensor& rows) const {
    const auto pairs = static_cast<int>(rows.size(1) / 2);
    for (int i = 0; i < pairs; ++i) {
      std::map<int64_t, int64_t> digests;  // by which parts
      for (int rank = 0; rank < world_.size(); ++rank) {
        const auto [found, is_new] = digests.try_emplace(of(rows, rank)[2 * i], of(rows, rank)[2 * i + 1]);
        if (!is_new && found->second != of(rows, rank)[2 * i + 1]) return false;
      }
    }
    return true;
  }

  static std::string text_of(const std::vector<AuditFinding>& findings) {
    nlohmann::json json = nlohmann::json::array();
    for (const AuditFinding& x : findings) {
      json.push_back({{"kind", static_cast<int>(x.kind)},
                      {"tensor", x.tensor},
                      {"ranks", x.ranks},
                      {"sure", x.is_sure},
                      {"harmless", x.is_harmless},
                      {"text", x.text}});
    }
    return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  }

  /// All ranks', without repetitions.
  std::vector<AuditFinding> gather_findings(const std::string& own, const at::Tensor& rows) const {
    int64_t longest = 0;
    for (int rank = 0; rank < world_.size(); ++rank) longest = std::max(longest, of(rows, rank)[rows.size(1) - 1]);
    if (longest == 0) return {};
    const int64_t words = (longest + 7) / 8;
    std::vector<int64_t> row(static_cast<size_t>(words), 0);
    std::memcpy(row.data(), own.data(), own.size());
    const at::Tensor texts = gather(row);
    std::vector<AuditFinding> findings;
    std::set<std::string> seen;
    for (int rank = 0; rank < world_.size(); ++rank) {
      const std::string text(reinterpret_cast<const char*>(of(texts, rank)),
                             static_cast<size_t>(of(rows, rank)[rows.size(1) - 1]));
      if (text.empty()) continue;
      for (const nlohmann::json& x : nlohmann::json::parse(text)) {
        if (!seen.insert(x.at("text").get<std::string>()).second) continue;
        findings.push_back({.kind = static_cast<AuditKind>(x.at("kind").get<int>()),
                            .tensor = x.at("tensor"),
                            .ranks = x.at("ranks").get<std::vector<int>>(),
                            .is_sure = x.at("sure"),
                            .is_harmless = x.at("harmless"),
                            .text = x.at("text")});
      }
    }
    return findings;
  }

  std::vector<Differing> differing_of(const std::vector<PartDigest>& digests) const {
    const at::Tensor counts = gather({static_cast<int64_t>(digests.size())});
    int64_t most = 0;
    for (int rank = 0; rank < world_.size(); ++rank) most = std::max(most, *of(counts, rank));
    std::vector<int64_t> row(static_cast<size_t>(most) * 2, 0);
    for (size_t i = 0; i < digests.size(); ++i) {
      row[2 * i] = std::bit_cast<int64_t>(digests[i].key);
      row[2 * i + 1] = std::bit_cast<int64_t>(digests[i].digest);
    }
    const at::Tensor rows = gather(row);
    std::map<uint64_t, Differing> by_key;
    for (int rank = 0; rank < world_.size(); ++rank) {
      for (int64_t i = 0; i < *of(counts, rank); ++i) {
        Differing& entry = by_key[std::bit_cast<uint64_t>(of(rows, rank)[2 * i])];
        entry.holders.push_back(rank);
        entry.digests.push_back(std::bit_cast<uint64_t>(of(rows, rank)[2 * i + 1]));
      }
    }
    std::vector<Differing> result;
    for (auto& [key, entry] : by_key) {
      entry.key = key;
      if (choose_model(entry)) result.push_back(std::move(entry));
    }
    return result;
  }

  /// Returns whether ranks differ.
  static bool choose_model(Differing& entry) {
    std::map<uint64_t, size_t> times;
    for (const uint64_t digest : entry.digests) ++times[digest];
    if (times.size() == 1) return false;
    size_t best = 0;
    for (size_t i = 0; i < entry.digests.size(); ++i) {
      if (times[entry.digests[i]] > times[entry.digests[best]]) best = i;
    }
    entry.model = entry.holders[best];
    entry.is_majority = 2 * times[entry.digests[best]] > entry.digests.size();
    for (size_t i = 0; i < entry.digests.size(); ++i) {
      if (entry.digests[i] != entry.digests[best]) entry.others.push_back(entry.holders[i]);
    }
    return true;
  }

  /// Exchanges the tensor, piece by piece.
  Compared compared(const Differing& differing) {
    std::optional<HeldPart> own;
    at::Tensor elements;
    for_each_held(trainer_, [&](const HeldPart& held) {
      if (held.key() != differing.key || own) return;
      own = held;
      elements = elements_of(held.part);  // it may be offloaded again
    });
    Compared result;
    describe(differing, own ? &*own : nullptr, elements, result);
    const auto size = static_cast<int64_t>(c10::elementSize(result.dtype)), bytes = result.numel * size;
    std::array<int64_t, 4> row = {0, -1, 0, 0};
    for (int64_t begin = 0; begin < bytes; begin += kPieceBytes) {
      const int64_t length = std::min(kPieceBytes, bytes - begin);
      at::Tensor piece = at::zeros({length}, at::kByte);
      const auto* memory = own ? static_cast<const char*>(elements.const_data_ptr()) + begin : nullptr;
      if (world_.rank() == differing.model) std::memcpy(piece.mutable_data_ptr(), memory, static_cast<size_t>(length));
      piece = piece.to(device_);
      world_.broadcast(piece, differing.model, "audit of a tensor").wait();
      piece = piece.cpu();
      const auto* model = static_cast<const char*>(piece.const_data_ptr());
      for (int64_t at = 0; own && at < length; at += size) {
        if (std::memcmp(memory + at, model + at, static_cast<size_t>(size)) == 0) continue;
        if (row[0]++ > 0) continue;
        row[1] = (begin + at) / size;
        std::memcpy(&row[2], memory + at, static_cast<size_t>(std::min<int64_t>(size, 8)));
        std::memcpy(&row[3], model + at, static_cast<size_t>(std::min<int64_t>(size, 8)));
      }
    }
    const at::Tensor rows = gather({row.begin(), row.end()});
    for (const int rank : differing.holders)
      result.differences.push_back({of(rows, rank)[0], of(rows, rank)[1], of(rows, rank)[2], of(rows, rank)[3]});
    return result;
  }

  /// Name, type and size, which ranks without the tensor do not know.
  void describe(const Differing& differing, const HeldPart* own, const at::Tensor& elements, Compared& result) const {
    at::Tensor text = at::zeros({kNameBytes + 16}, at::kByte);
    if (world_.rank() == differing.model) {
      auto* bytes = static_cast<char*>(text.mutable_data_ptr());
      const int64_t numbers[] = {elements.numel(), static_cast<int64_t>(elements.scalar_type())};
      std::memcpy(bytes, numbers, sizeof(numbers));
      std::memcpy(bytes + 16, own->part.name.data(), std::min<size_t>(own->part.name.size(), kNameBytes - 1));
    }
    text = text.to(device_);
    world_.broadcast(text, differing.model, "audit of a name").wait();
    text = text.cpu();
    const auto* bytes = static_cast<const char*>(text.const_data_ptr());
    int64_t numbers[2];
    std::memcpy(numbers, bytes, sizeof(numbers));
    result.numel = numbers[0];
    result.dtype = static_cast<at::ScalarType>(numbers[1]);
    result.tensor = bytes + 16;
  }

  /// Weights before what belongs to them.
  static bool before(const std::string& a, const std::string& b) {
    const auto order = [](const std::string& tensor) {
      const std::string_view kind = std::string_view(tensor).substr(0, tensor.find('/'));
      return kind == "model" ? 0 : kind == "weights" ? 1 : 2;
    };
    return std::make_tuple(name_of(a), order(a), a) < std::make_tuple(name_of(b), order(b), b);
  }

  AuditFinding finding_of(const Differing& differing, const Compared& tensor,
                          const std::vector<std::pair<Differing, Compared>>& all) const {
    std::vector<std::string> kinds;
    for (const auto& [other, also] : all) {
      if (name_of(also.tensor) == name_of(tensor.tensor)) kinds.emplace_back(kind_text(also.tensor));
    }
    kinds.erase(std::unique(kinds.begin(), kinds.end()), kinds.end());
    std::vector<int> same;
    for (const int rank : differing.holders) {
      if (std::find(differing.others.begin(), differing.others.end(), rank) == differing.others.end()) same.push_back(rank);
    }
    const size_t first =
        std::find(differing.holders.begin(), differing.holders.end(), differing.others.front()) - differing.holders.begin();
    const auto& [count, index, own, theirs] = tensor.differences[first];
    const auto text = [&](int64_t bits) { return element_text(std::bit_cast<uint64_t>(bits), tensor.dtype); };
    const std::string what = fmt::format("{} of '{}'", fmt::join(kinds, ", "), name_of(tensor.tensor));
    const std::string where = fmt::format("in {} of {} elements, first {}: {} on rank {}, {} on rank {}", count, tensor.numel,
                                          index, text(own), differing.others.front(), text(theirs), differing.model);
    AuditFinding finding{
        .kind = AuditKind::replicas, .tensor = tensor.tensor, .ranks = differing.others, .is_sure = differing.is_majority};
    if (differing.is_majority) {
      finding.text = fmt::format("{}: {} {} from {} {}", what, ranks_text(differing.others),
                                 differing.others.size() == 1 ? "differs" : "differ", ranks_text(same), where);
    } else {
      finding.ranks = differing.holders;
      finding.text =
          fmt::format("{}: {} differ {}; the audit cannot tell which is right", what, ranks_text(differing.holders), where);
    }
    return finding;
  }

  TrainerState& trainer_;
  const Group& world_;
  at::Device device_;
};

}  // namespace

std::vector<AuditFinding> compare_replicas(TrainerState& trainer, const std::vector<PartDigest>& digests,
                                           const std::vector<AuditFinding>& own) {
  return Comparison(trainer)(digests, own);
}

}  // namespace weft
