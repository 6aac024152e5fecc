#include "weft/recipe/toml/hardware_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <variant>

#include "weft/base/file_error.h"
#include "weft/base/input_file.h"
#include "weft/base/target_device.h"
#include "weft/recipe/toml/toml_reader.h"
#include "weft/recipe/toml/toml_value.h"

namespace weft {

namespace {

constexpr int64_t kLongestFile = 8 << 20;  // the times of ten thousand blocks take 2 MB
constexpr KeyRange kRate = {.min = kMinRate, .max = kMaxRate, .or_inf = true};
constexpr KeyRange kTime = {.min = 0.0, .max = 1e9};

using Keys = std::vector<FileKey>;

Keys link_keys(const std::string& section, Link& link) {
  return {{section, "latency_s", &link.latency_s, "time before the first byte, per round of a ring", kTime},
          {section, "bytes_per_s", &link.bytes_per_s, "one way, per rank; inf: free", kRate, {}, true}};
}

struct LinkSection {
  const char* name;
  Link* link;
};

std::array<LinkSection, 3> links_of(Hardware& h) {
  return {{{"intra_host", &h.intra_host}, {"inter_host", &h.inter_host}, {"offload", &h.offload}}};
}

Keys block_keys(BlockTime& b) {
  return {{"block", "name", &b.name, "name of a block; a trailing * matches any rest", {}, {}, true},
          {"block", "forward_s", &b.forward_s, "time of one micro-batch", kTime},
          {"block", "backward_s", &b.backward_s, "whole", kTime},
          {"block", "input_s", &b.input_s, "the part of backward for the block's input", kTime},
          {"block", "weight_s", &b.weight_s, "the part of backward for its weights", kTime}};
}

Keys rate_keys(OperatorRate& r) {
  return {{"operator", "of", &r.of, "class of operators", {}, kOperatorClasses.all(), true},
          {"operator", "element_bytes", &r.element_bytes, "4: float32; 2: bfloat16, float16", {.min = 2, .max = 4}},
          {"operator", "start_s", &r.start_s, "time per launch", kTime},
          {"operator", "work_s", &r.work_s, "time per operation; of memory-bound operators per element", kTime},
          {"operator", "byte_s", &r.byte_s, "time per byte", kTime},
          {"operator", "far_byte_s", &r.far_byte_s, "further time per byte beyond device.near_bytes", kTime},
          {"operator", "extra_s", &r.extra_s, "time per byte of filters, per score of attention", kTime}};
}

/// `ranks` has the integer width of keys.
Keys hardware_keys(Hardware& h, int64_t& ranks) {
  Keys keys = {
      {"hardware", "name", &h.name, "a description", {}, {}, true},
      {"hardware", "ranks_per_host", &ranks, "consecutive ranks on one host", {.min = 1, .max = 1e6}, {}, true},
      {"hardware", "overlap", &h.overlap, "collectives, transfers and copies overlap compute"},
      {"hardware", "two_levels", &h.two_levels, "collectives across hosts reduce inside each host first, and overlap compute"},
      {"device", "kind", &h.kind, "whose kernels and memory a plan counts; left out: as run.device", {}, kTargetDevices.all()},
      {"device", "flops", &h.flops, "peak operations per second in float32", kRate, {}, true},
      {"device", "narrow_flops", &h.narrow_flops, "the same for bf16 and fp16; left out: as flops", kRate},
      {"device",
       "efficiency",
       &h.efficiency,
       "share of the peak that forward and backward reach",
       {.min = 0.0, .max = 1.0, .open_min = true}},
      {"device", "memory_bytes", &h.memory_bytes, "per rank; left out: no limit", kRate},
      {"device", "memory_bytes_per_s", &h.memory_bytes_per_s, "left out: only operations count", kRate},
      {"device", "launch_s", &h.launch_s, "added to every compute instruction", kTime},
      {"device", "host_launch_s", &h.host_launch_s, "the host's time per launch; left out: the device never waits for it",
       kTime},
      {"device", "graph_launch_s", &h.graph_launch_s, "the host's time to launch a captured graph", kTime},
      {"device", "host_wait_s", &h.host_wait_s, "until the host goes on after what it waited for", kTime},
      {"measured", "micro_batch", &h.micro_batch, "samples per measured micro-batch; left out: any", {.min = 1, .max = 1e9}},
      {"measured", "loss_s", &h.loss_s, "time per micro-batch", kTime},
      {"measured", "update_s_per_element", &h.update_s_per_element, "per element that the rank owns", kTime},
  };
  return keys;
}

Keys core_keys(HostCores& c) {
  return {
      {"cores",
       "per_host",
       &c.per_host,
       "CPU cores, which the ranks of a host share; 0: each has its own",
       {.min = 0, .max = 1e6}},
      {"cores", "thread_power", &c.thread_power, "t threads compute t^thread_power times as fast as one", {.min = 0, .max = 2}},
      {"cores",
       "network_share",
       &c.network_share,
       "part of a core that traffic with other hosts takes",
       {.min = 0, .max = 16}}};
}

FileKey near_bytes_key(OperatorRates& rates) {
  return {"operators", "near_bytes", &rates.near_bytes, "bytes of an operator that caches hold", {.min = 0.0, .max = kMaxRate}};
}

constexpr std::array<const char*, 3> kOperatorSections = {"products", "attention", "memory_bound"};

/// Keys of OperatorCosts or CollectiveCosts, at places in `costs`.
template <class Costs>
Keys keys_of(Costs& costs) {
  Keys keys;
  for (const CostKey& key : cost_keys(costs)) {
    const KeyRange range = {.min = key.range.least, .max = key.range.most, .open_min = key.range.above};
    keys.push_back({key.section, key.name, key.value, key.meaning, range, {}, key.required});
  }
  return keys;
}

/// Keys of SoftwareCosts: also those that are no numbers.
Keys software_keys(SoftwareCosts& costs) {
  Keys keys = keys_of(costs);
  const Keys first = {{"software", "name", &costs.name, "of the software, in reports", {}, {}, true},
                      {"software", "fused_attention", &costs.fused_attention, "false: products with a softmax between them"},
                      {"software", "fused_softmax", &costs.fused_softmax, "in one kernel, up to 2048 keys"},
                      {"software", "split_messages", &costs.split_messages, "ranks of tp send parts, and gather them"},
                      {"software", "overlapped_gradients", &costs.overlapped_gradients, "summed beside the last backward"}};
  keys.insert(keys.begin(), first.begin(), first.end());
  return keys;
}

bool has_section(const std::vector<std::string>& given, const std::string& section) {
  return std::any_of(given.begin(), given.end(), [&](const std::string& key) { return key.starts_with(section + "."); });
}

/// Whether the file has operators' costs: all sections, or none.
bool has_operators(const std::string& path, const std::vector<std::string>& given) {
  const auto is_given = [&given](const char* section) { return has_section(given, section); };
  if (std::none_of(kOperatorSections.begin(), kOperatorSections.end(), is_given)) return false;
  const auto* missing = std::find_if_not(kOperatorSections.begin(), kOperatorSections.end(), is_given);
  if (missing == kOperatorSections.end()) return true;
  throw InputError(fmt::format("{}: [{}] is missing: [products], [attention] and [memory_bound] go together", path, *missing));
}

/// Drops the keys of sections that the file leaves out.
void drop_missing(Keys& keys, const std::vector<std::string>& given, const std::string& section) {
  if (!has_section(given, section)) std::erase_if(keys, [&](const FileKey& key) { return key.section == section; });
}

/// Keys of the known links, for writing; of all links, for reading.
Keys all_link_keys(Hardware& h, bool only_known) {
  Keys keys;
  for (const LinkSection& section : links_of(h)) {
    if (only_known && !section.link->is_known) continue;
    for (FileKey& key : link_keys(section.name, *section.link)) keys.push_back(std::move(key));
  }
  return keys;
}

/// Formats "name = value"; empty for a key without a value.
std::string key_line(const FileKey& key) {
  if (const auto* text = std::get_if<std::string*>(&key.target); text != nullptr && (*text)->empty() && !key.required)
    return "";
  const std::string value = toml_value(key.target);
  return value.empty() ? "" : fmt::format("{} = {}\n", key.name, value);
}

Hardware parsed(const std::string& text, const std::string& path) {
  Hardware hardware;
  int64_t ranks = 1;
  BlockTime any;
  Keys keys = hardware_keys(hardware, ranks);
  const Keys links = all_link_keys(hardware, false);
  keys.insert(keys.end(), links.begin(), links.end());
  OperatorCosts operators;
  CollectiveCosts collectives;
  SoftwareCosts software;
  for (const Keys& more : {keys_of(operators), keys_of(collectives), software_keys(software)})
    keys.insert(keys.end(), more.begin(), more.end());
  OperatorRates rates;
  OperatorRate any_rate;
  keys.push_back(near_bytes_key(rates));
  for (FileKey& key : core_keys(hardware.cores)) keys.push_back(std::move(key));
  const auto next_block = [&hardware] { return block_keys(hardware.blocks.emplace_back()); };
  const auto next_rate = [&rates] { return rate_keys(rates.of.emplace_back()); };
  const std::vector<std::string> given = read_keys(text, path, keys,
                                                   {{.section = "block", .known = block_keys(any), .next = next_block},
                                                    {.section = "operator", .known = rate_keys(any_rate), .next = next_rate}});
  for (const LinkSection& section : links_of(hardware)) {
    section.link->is_known = has_section(given, section.name);
    drop_missing(keys, given, section.name);
  }
  if (has_operators(path, given)) hardware.operators = operators;
  if (!rates.of.empty()) {
    if (hardware.operators) {
      throw InputError(
          fmt::format("{}: [[operator]] stands in place of [products], [attention] and [memory_bound]: remove one", path));
    }
    hardware.operators = OperatorCosts{.rates = rates};
  } else if (has_section(given, "operators")) {
    throw InputError(fmt::format("{}: operators.near_bytes belongs to [[operator]], and there is none: remove it", path));
  }
  if (has_section(given, "collectives")) hardware.collectives = collectives;
  if (has_section(given, "software")) hardware.software = software;
  for (const char* section : kOperatorSections) drop_missing(keys, given, section);
  for (const char* section : {"collectives", "software"}) drop_missing(keys, given, section);
  check_required(path, keys, given);
  hardware.ranks_per_host = static_cast<int>(ranks);
  if (std::count(given.begin(), given.end(), "device.narrow_flops") == 0) hardware.narrow_flops = hardware.flops;
  in_hardware_file(path, [&] { check_hardware(hardware); });
  return hardware;
}

}  // namespace

void in_hardware_file(const std::string& path, const std::function<void()>& call) {
  if (path.empty()) return call();
  try {
    call();
  } catch (const FileError&) {
    throw;
  } catch (const InputError& error) {
    throw FileError(fmt::format("{}: {}", path, error.what()));
  }
}

Hardware parse_hardware(const std::string& text, const std::string& path) {
  try {
    return parsed(text, path);
  } catch (const InputError& error) {
    throw FileError(error.what());  // the text starts with the path
  }
}

Hardware load_hardware(const std::string& path) {
  return parse_hardware(read_text_file("hardware file", path, kLongestFile), path);
}

std::string hardware_text(const Hardware& hardware) {
  Hardware copy = hardware;
  int64_t ranks = hardware.ranks_per_host;
  std::string text, section;
  Keys keys = hardware_keys(copy, ranks);
  const Keys links = all_link_keys(copy, true);
  keys.insert(keys.end(), links.begin(), links.end());
  OperatorRates rates = copy.operators ? copy.operators->rates : OperatorRates();
  const Keys cores = copy.cores.per_host > 0 ? core_keys(copy.cores) : Keys();
  keys.insert(keys.end(), cores.begin(), cores.end());
  if (!rates.of.empty()) keys.push_back(near_bytes_key(rates));
  const Keys operators = copy.operators && rates.of.empty() ? keys_of(*copy.operators) : Keys();
  const Keys collectives = copy.collectives ? keys_of(*copy.collectives) : Keys();
  const Keys software = copy.software ? software_keys(*copy.software) : Keys();
  for (const Keys* more : {&operators, &collectives, &software}) keys.insert(keys.end(), more->begin(), more->end());
  for (const FileKey& key : keys) {
    const std::string line = key_line(key);
    if (line.empty()) continue;
    if (key.section != section) text += fmt::format("{}[{}]\n", text.empty() ? "" : "\n", key.section);
    section = key.section;
    text += line;
  }
  for (OperatorRate& rate : rates.of) {
    text += "\n[[operator]]\n";
    for (const FileKey& key : rate_keys(rate)) text += key_line(key);
  }
  for (BlockTime& block : copy.blocks) {
    text += "\n[[block]]\n";
    for (const FileKey& key : block_keys(block)) text += key_line(key);
  }
  return text;
}

}  // namespace weft
